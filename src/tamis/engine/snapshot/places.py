"""Where a version is built: a directory beside its final path, or a local directory whose files are uploaded.

A `Place` has an address that travels to other machines. Each of them writes into ``folder()``, which for a directory is
that directory itself and for an object store one that is uploaded when the block ends.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tamis.engine.snapshot import versions
from tamis.engine.snapshot.object_store import is_remote, local_path, open_store

__all__ = ["Place", "building"]


@dataclass(frozen=True, slots=True)
class Place:
    """A version that is being built; ``staging`` is the directory for the files of the machine that builds it."""

    address: str
    staging: Path

    @property
    def is_remote(self) -> bool:
        """Whether the files go to an object store."""
        return is_remote(self.address)

    @property
    def root(self) -> str:
        """The directory or URI that holds the versions."""
        return self.address.rpartition("/")[0]

    @property
    def home(self) -> str:
        """The name of the version's directory below its root."""
        return self.address.rpartition("/")[2]

    @classmethod
    @contextmanager
    def folder(cls, address: str) -> Iterator[Path]:
        """Yield a directory to write into; for an object store its files are uploaded if the block succeeds."""
        if not is_remote(address):
            yield Path(address)
            return
        with tempfile.TemporaryDirectory(prefix="tamis-part-") as name:
            yield Path(name)
            upload(Path(name), address)


def upload(folder: Path, address: str) -> None:
    """Upload the files of a folder under the names they have."""
    store = open_store(address)
    for file in sorted(folder.iterdir()):
        store.upload(file, file.name)


@contextmanager
def building(location: str | Path) -> Iterator[Place]:
    """Yield a new, empty directory to build a version in; it becomes a version only when it is published."""
    if not is_remote(location):
        with versions.building(local_path(location)) as directory:
            yield Place(str(directory), directory)
        return
    home = f"parts-{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="tamis-snapshot-") as name:
        staging = Path(name) / home  # under the name that manifests know, so that files are found beside it
        staging.mkdir()
        yield Place(f"{str(location).rstrip('/')}/{home}", staging)
