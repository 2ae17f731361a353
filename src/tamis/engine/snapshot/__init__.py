"""Snapshots: a saved engine is a directory of versions, each written once and never changed.

::

    DIRECTORY/v000001/manifest.json           schema, parts, sizes and checksums of the files
                      0.subscriptions.arrow   the parts, see `parts`
                      0.arrays
                      0.axes.json

The same directory serves an engine that was saved (`write`), a cluster that built the parts on many machines
(`tamis.spark.write_snapshot`), and every reader. A location is a directory or the URI of an object store: `remote` has
the versions there, `cache` brings them to this machine, `places` is where a version is made.

Reading checks the format, and size and checksum of every
file, before anything is used.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tamis.engine.namespace import Namespace
from tamis.engine.snapshot import versions as directories
from tamis.engine.snapshot.cache import fetch_version
from tamis.engine.snapshot.local_copy import local_parts, local_version
from tamis.engine.snapshot.manifest import (
    FORMAT,
    MANIFEST,
    Manifest,
    Part,
    check_files,
    check_parts,
    measure,
    read_manifest,
)
from tamis.engine.snapshot.object_store import is_remote, local_path
from tamis.engine.snapshot.parts import SavedPart, read_part, write_parts
from tamis.engine.snapshot.places import Place, building, upload
from tamis.engine.snapshot.remote import (
    GRACE_SECONDS,
    find_remote_newest,
    prune_remote,
    publish_remote,
    remote_newest,
    remote_version_at,
    remote_versions,
)
from tamis.engine.snapshot.signing import snapshot_key
from tamis.engine.snapshot.versions import NO_VERSION, VersionLease
from tamis.engine.stored import Record, StoredSubscriptions
from tamis.errors import ModelError, SnapshotError
from tamis.index.protocols import MappedMatcher
from tamis.index.registry import MATCHERS
from tamis.index.saved_arrays import MOST_ROWS
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription

__all__ = [
    "FORMAT",
    "MANIFEST",
    "EngineState",
    "Place",
    "Saved",
    "SavedPart",
    "Version",
    "VersionLease",
    "before_all",
    "building",
    "find_newest",
    "mapped",
    "mapped_parts",
    "name_of",
    "newest",
    "opened",
    "prune",
    "read",
    "restore",
    "seal",
    "version_at",
    "versions",
    "write",
]


@dataclass(frozen=True, slots=True)
class EngineState:
    """The state of an engine besides its subscriptions."""

    schema: Schema
    learns: bool
    matcher: str
    next_id: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A version that was read."""

    state: EngineState
    parts: list[SavedPart]

    def by_namespace(self) -> dict[str, list[SavedPart]]:
        """Return the parts of each namespace, in their order."""
        by_name: dict[str, list[SavedPart]] = {}
        for part in self.parts:
            by_name.setdefault(part.part.namespace, []).append(part)
        return by_name


#: A version: a directory of this machine, or the URI of one in an object store.
Version = Path | str


def find_newest(location: str | Path) -> Version | None:
    """Return the newest version in a directory or an object store, None if there is none yet."""
    if is_remote(location):
        return find_remote_newest(str(location))
    return directories.find_newest(local_path(location))


def before_all(location: str | Path) -> Version:
    """Return what ``after`` of `seal` must be for a version that is published only as the first one."""
    if is_remote(location):
        return f"{str(location).rstrip('/')}/{NO_VERSION}"
    return local_path(location) / NO_VERSION


def newest(location: str | Path) -> Version:
    """Return the newest version in a directory or an object store."""
    return remote_newest(str(location)) if is_remote(location) else directories.newest(local_path(location))


def version_at(location: str | Path) -> Version:
    """Return the version at a location: the location itself if it is a version, otherwise the newest in it."""
    if is_remote(location):
        return remote_version_at(str(location))
    return directories.version_at(local_path(location))


def versions(location: str | Path) -> list[Version]:
    """Return the versions in a directory or an object store, the oldest first."""
    return [*(remote_versions(str(location)) if is_remote(location) else directories.versions(local_path(location)))]


def name_of(version: Version) -> str:
    """Return the name of a version, such as ``v000003``."""
    return str(version).rpartition("/")[2]


def opened(version: Version, *, parts: bool = True) -> Path:
    """Return the directory with the files of a version; those of an object store are fetched, once per host."""
    return fetch_version(version, parts=parts) if isinstance(version, str) and is_remote(version) else Path(version)


def mapped(version: Version) -> Path:
    """Return a directory of this machine whose files can be mapped: those of another machine are copied first."""
    return opened(version) if is_remote(version) else local_version(Path(version))


def mapped_parts(version: Version, parts: Sequence[Part]) -> Path:
    """Return a directory as `mapped` does, but only with the files of some parts, which no manifest needs to name."""
    check_parts(str(version), parts)
    if is_remote(version):
        return fetch_version(str(version), parts=False, others=parts)
    return local_parts(Path(version), parts)


def prune(location: str | Path, *, keep: int = 2, needed: Iterable[str] = (), grace: float | None = None) -> list[str]:
    """Remove old versions; return their names.

    Kept are the newest ``keep``, those named in ``needed``, those whose files a kept version names, and those that
    may have readers: in a directory a reader holds a lock, in an object store a version stays for ``grace`` seconds (a
    day) after the next one was written.
    """
    if keep < 1:
        raise SnapshotError(str(location), "at least the newest version is kept: keep=1 or more")
    if is_remote(location):
        seconds = GRACE_SECONDS if grace is None else grace
        return prune_remote(str(location), keep=keep, needed=needed, grace=seconds)
    return directories.prune(local_path(location), keep=keep, needed=needed)


def write(location: str | Path, state: EngineState, spaces: Sequence[Namespace], key: bytes | None = None) -> Version:
    """Write a new version, signed if there is a key, and return it."""
    key = snapshot_key(key)
    with building(location) as place:
        written = [write_parts(place.staging, str(number), space, state.schema) for number, space in enumerate(spaces)]
        parts = [part for parts in written for part in parts]
        return seal(place, state, parts, key=key)


def seal(
    place: Place,
    state: EngineState,
    parts: Sequence[Part],
    beside: Sequence[str] = (),
    key: bytes | None = None,
    after: Version | None = None,
) -> Version:
    """Finish a version whose parts are written: add the manifest, publish it, and return the version.

    ``beside`` are files of the version that belong to no part. With a key, given or from the environment
    (`signing`), the manifest is signed. With ``after`` it is published only if that is still the newest version,
    because it was built upon it; else `SnapshotConflictError`.
    """
    schema, key = msgspec.json.decode(state.schema.to_json()), snapshot_key(key)
    others = {name: measure(place.staging / name) for name in beside}
    manifest = Manifest(schema, state.learns, state.matcher, state.next_id, list(parts), platform.node(), others)
    if not place.is_remote:
        (manifest if key is None else manifest.with_digests(place.staging)).write(place.staging, key)
        return directories.publish(place.staging, None if after is None else Path(after))
    at_home = [part if part.home else msgspec.structs.replace(part, home=place.home) for part in parts]
    manifest = msgspec.structs.replace(manifest, parts=at_home, home=place.home).with_digests(place.staging)
    upload(place.staging, place.address)
    return publish_remote(place.root, manifest.to_bytes(key), None if after is None else str(after))


def read(version: Path, parts: Sequence[Part] | None = None, key: bytes | None = None) -> Saved:
    """Return a version, or chosen parts of it, after checking every file that is used.

    With a key, given or from the environment (`signing`), the version must be signed with it. What the arrays say is
    checked when an engine opens them.
    """
    manifest = read_manifest(version, key)
    if parts is not None:
        check_parts(str(version), parts)
        manifest = msgspec.structs.replace(manifest, parts=list(parts), beside={})
    check_files(version, manifest)
    schema = manifest.read_schema(version)
    state = EngineState(schema, manifest.learns, manifest.matcher, manifest.next_id)
    return Saved(state, [read_part(version, part, schema) for part in manifest.parts])


def restore(parts: Sequence[SavedPart], space: Namespace, compile: Callable[[Record], Subscription]) -> None:
    """Fill an empty namespace: open the saved parts where the matcher can, add everything again otherwise."""
    if any(part.description is not None for part in parts) and not isinstance(space.matcher, MappedMatcher):
        packed = Namespace(space.name, MATCHERS["packed"])  # reads what this matcher cannot
        restore(parts, packed, compile)
        for subscription in packed:
            space.add_many([subscription])
        return
    for saved in parts:
        _open_part(saved, space, compile)


def _open_part(saved: SavedPart, space: Namespace, compile: Callable[[Record], Subscription]) -> None:
    first = space.ids.n_rows
    if first + saved.part.n_rows > MOST_ROWS:
        raise SnapshotError(str(saved.path), f"the parts of a namespace have more than {MOST_ROWS:,} rows")
    stored = StoredSubscriptions(saved.table, compile, first, f"{saved.path}.subscriptions.arrow")
    matcher = space.open_part(saved.part.blocks, saved.lacking.tolist(), stored)
    if saved.description is None:
        for row in stored.rows.tolist():
            subscription = stored.find(row)
            assert subscription is not None
            matcher.add(row - first, subscription)
    elif isinstance(matcher, MappedMatcher):
        try:
            needed = matcher.open_arrays(saved.description, saved.arrays, saved.rows)
        except ModelError as error:
            raise SnapshotError(f"{saved.path}.axes.json", str(error)) from error
        stored.demand_filters(needed[stored.rows - first])
    for row in saved.removed.tolist():
        space.remove_row(first + row)
