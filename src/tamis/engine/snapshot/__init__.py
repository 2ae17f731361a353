"""Snapshots: a saved engine is a directory of versions, each written once and never changed.

::

    DIRECTORY/v000001/manifest.json           schema, parts, sizes and checksums of the files
                      0.subscriptions.arrow   the parts, see `parts`
                      0.arrays
                      0.axes.json

The same directory serves an engine that was saved (`write`), a cluster that built the parts on many machines
(`tamis.spark.write_snapshot`), and whoever opens it. Reading checks the format, and size and checksum of every
file, before anything is used.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tamis.engine.namespace import Namespace
from tamis.engine.snapshot.manifest import FORMAT, Manifest, Part, check_files, measure, read_manifest
from tamis.engine.snapshot.parts import SavedPart, read_part, write_parts
from tamis.engine.snapshot.versions import Lease, building, newest, prune, publish, version_at, versions
from tamis.engine.stored import Record, StoredSubscriptions
from tamis.errors import ModelError, SnapshotError
from tamis.index.protocols import MappedMatcher
from tamis.index.registry import MATCHERS
from tamis.index.saved_arrays import MOST_ROWS
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription

__all__ = [
    "FORMAT",
    "Lease",
    "Saved",
    "SavedPart",
    "State",
    "building",
    "newest",
    "prune",
    "read",
    "restore",
    "seal",
    "version_at",
    "versions",
    "write",
]


@dataclass(frozen=True, slots=True)
class State:
    """What an engine is besides its subscriptions."""

    schema: Schema
    learns: bool
    matcher: str
    next_id: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A version as it was read."""

    state: State
    parts: list[SavedPart]

    def by_namespace(self) -> dict[str, list[SavedPart]]:
        """Return the parts of each namespace, in their order."""
        found: dict[str, list[SavedPart]] = {}
        for one in self.parts:
            found.setdefault(one.part.namespace, []).append(one)
        return found


def write(directory: Path, state: State, spaces: Sequence[Namespace]) -> Path:
    """Write a new version and return its path."""
    with building(directory) as place:
        written = [write_parts(place, str(number), space, state.schema) for number, space in enumerate(spaces)]
        return seal(place, state, [part for parts in written for part in parts])


def seal(place: Path, state: State, parts: Sequence[Part], beside: Sequence[str] = ()) -> Path:
    """Finish a version whose parts are written: add the manifest, publish it, and return its path.

    ``beside`` are files of the version that belong to no part.
    """
    schema = msgspec.json.decode(state.schema.to_json())
    others = {name: measure(place / name) for name in beside}
    Manifest(schema, state.learns, state.matcher, state.next_id, list(parts), platform.node(), others).write(place)
    return publish(place)


def read(version: Path, parts: Sequence[Part] | None = None) -> Saved:
    """Return a version, or chosen parts of it, after checking every file that is used."""
    manifest = read_manifest(version)
    if parts is not None:
        manifest = msgspec.structs.replace(manifest, parts=list(parts), beside={})
    check_files(version, manifest)
    schema = manifest.read_schema(version)
    state = State(schema, manifest.learns, manifest.matcher, manifest.next_id)
    return Saved(state, [read_part(version, part, schema) for part in manifest.parts])


def restore(parts: Sequence[SavedPart], space: Namespace, compile: Callable[[Record], Subscription]) -> None:
    """Fill an empty namespace: open the saved parts where the matcher can, add everything again otherwise."""
    if any(one.description is not None for one in parts) and not isinstance(space.matcher, MappedMatcher):
        packed = Namespace(space.name, MATCHERS["packed"])  # reads what this matcher cannot
        restore(parts, packed, compile)
        for subscription in packed:
            space.add(subscription)
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
            one = stored.find(row)
            assert one is not None
            matcher.add(row - first, one)
    elif isinstance(matcher, MappedMatcher):
        try:
            needed = matcher.open_arrays(saved.description, saved.arrays, saved.rows)
        except ModelError as error:
            raise SnapshotError(f"{saved.path}.axes.json", str(error)) from error
        stored.demand_filters(needed[stored.rows - first])
    for row in saved.removed.tolist():
        space.remove_row(first + row)
