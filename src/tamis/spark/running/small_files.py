"""Small files that are there whole or not at all: the logs of streams and the pins of micro-batches.

They lie in a directory or in an object store, and the same code reads and writes them in both.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tamis.engine.snapshot.object_store import ObjectStore, is_remote, local_path, open_store

__all__ = ["SmallFiles", "absolute_location", "small_files"]

_MOST_BYTES = 1 << 26


class SmallFiles(Protocol):
    """Files below one directory or URI; names are relative to it, with slashes."""

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, None if it is absent."""

    def create(self, name: str, data: bytes) -> bytes:
        """Write a file if it is absent; return the bytes that it holds now, which may be another writer's."""

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; an existing one is overwritten."""

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; absent ones are ignored."""


def absolute_location(location: str | Path) -> str:
    """Return a URI of an object store as it is and any other location as an absolute path.

    `SnapshotError` for a URI of an unsupported scheme.
    """
    return str(location).rstrip("/") if is_remote(location) else str(local_path(location))


def small_files(location: str | Path) -> SmallFiles:
    """Return the files below a directory or URI."""
    if is_remote(location):
        return _StoredFiles(open_store(str(location)))
    return DirectoryFiles(local_path(location))


@dataclass(frozen=True)
class DirectoryFiles:
    """Files of a directory; what a killed process left unfinished has a name that begins with a dot."""

    directory: Path

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, None if it is absent."""
        try:
            return (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> bytes:
        """Write a file if it is absent; return the bytes that it holds now."""
        path = self.directory / name
        draft = _draft(path, data)
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
        return path.read_bytes()

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; an existing one is overwritten."""
        path = self.directory / name
        os.replace(_draft(path, data), path)

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        files = (path for path in self.directory.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self.directory).as_posix() for path in files)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; absent ones are ignored."""
        for name in names:
            (self.directory / name).unlink(missing_ok=True)


def _draft(path: Path, data: bytes) -> Path:
    """Write the bytes to disk beside a path, under a name of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    with draft.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return draft


@dataclass(frozen=True)
class _StoredFiles:
    """Objects below a URI."""

    store: ObjectStore

    def read(self, name: str) -> bytes | None:
        return self.store.read(name, _MOST_BYTES)

    def create(self, name: str, data: bytes) -> bytes:
        if self.store.create(name, data):
            return data
        present = self.read(name)
        assert present is not None
        return present

    def replace(self, name: str, data: bytes) -> None:
        self.store.replace(name, data)

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.store.list())

    def delete(self, names: Iterable[str]) -> None:
        self.store.delete(names)
