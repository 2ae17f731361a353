"""Converts snapshots of older formats to the current format.

Formats 1 and 2 hold the same as format 3: the filters as text, the boxes and balls that came in bulk as arrays. What
differs is the manifest of format 1, and the arrays of regions, which are computed again from the filters. So are those
of text, which had another layout in format 3 at first. The files are checked as those of the present format are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tamis.engine import snapshot
from tamis.engine.engine import Engine
from tamis.engine.ids import Ids, IdsState
from tamis.engine.snapshot.manifest import (
    FORMAT,
    OLDER_FORMATS,
    File,
    Manifest,
    Part,
    check_files,
    check_manifest,
    open_envelope,
    read_manifest,
)
from tamis.engine.snapshot.parts import SavedPart, read_part
from tamis.engine.stored import StoredSubscriptions
from tamis.errors import ModelError, SnapshotError
from tamis.index.packed.axes import Axes
from tamis.index.packed.balls import PackedBalls
from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.model.language.unbind import format_filters
from tamis.model.subscription import Filter, SubscriptionId
from tamis.model.types import Number

__all__ = ["migrate_snapshot"]

_Sides = Mapping[str, tuple[float, float]]


class _OldNamespace(msgspec.Struct):
    """A namespace in the manifest of format 1: its files start with ``prefix``."""

    name: str
    prefix: str
    blocks: IdsState
    listed: int
    packed: bool


class _OldManifest(msgspec.Struct):
    """The manifest of format 1."""

    schema: dict[str, Any]
    learns: bool
    matcher: str
    next_id: int
    namespaces: list[_OldNamespace]
    files: dict[str, File]

    def renewed(self) -> Manifest:
        """Return the same as a manifest of the present format."""
        parts = []
        for space in self.namespaces:
            files = {name: file for name, file in self.files.items() if name.partition(".")[0] == space.prefix}
            parts.append(Part(space.name, space.prefix, space.blocks, space.listed, space.packed, "none", files))
        return Manifest(self.schema, self.learns, self.matcher, self.next_id, parts)


def migrate_snapshot(old: Path, new: str | Path, key: bytes | None = None) -> Path | str:
    """Save the newest version in ``old``, of format 1, 2 or 3, as a new version in ``new``; return where.

    Ids, filters, ends, metadata and the schema are kept; subscriptions that ended are left out. Nothing in ``old`` is
    changed. Raises `SnapshotError` when the old version is damaged, of another format, or not what it should be.
    """
    version = snapshot.opened(snapshot.version_at(old))
    lease, manifest = snapshot.VersionLease(version), _read(version, key)
    check_files(version, manifest)
    schema = manifest.read_schema(version)
    state = snapshot.EngineState(schema, manifest.learns, manifest.matcher, manifest.next_id)
    engine = Engine.open(snapshot.Saved(state, []), lease)
    for part in manifest.parts:
        saved = read_part(version, part, schema)
        try:
            _add_part(engine, saved)
        except ModelError as error:
            raise SnapshotError(f"{saved.path}.subscriptions.arrow", f"cannot be added again: {error}") from error
    return engine.save(new, key=key)


def _read(version: Path, key: bytes | None) -> Manifest:
    """Return the manifest of any format in the current format."""
    path = version / snapshot.MANIFEST
    envelope = open_envelope(path, (*OLDER_FORMATS, FORMAT))
    if envelope.format == FORMAT:  # if a key is configured the manifest must be signed; older formats had no signatures
        return read_manifest(version, key)
    try:
        if "namespaces" in msgspec.json.decode(envelope.contents, type=dict[str, msgspec.Raw]):
            manifest = msgspec.json.decode(envelope.contents, type=_OldManifest).renewed()
        else:
            manifest = msgspec.json.decode(envelope.contents, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SnapshotError(str(path), f"not a manifest: {error}") from error
    check_manifest(str(path), manifest)
    return manifest


def _add_part(engine: Engine, saved: SavedPart) -> None:
    """Add the living subscriptions of a part: those with a filter one at a time, boxes in bulk."""
    ids = Ids()
    ids.append_saved(saved.part.blocks, saved.lacking.tolist(), StoredSubscriptions(saved.table, _never_compiled))
    removed = set(saved.removed.tolist())
    for record in saved.table.to_pylist():
        if record["filter"] is not None and record["row"] not in removed:
            id = record["id_text"] if record["id_number"] is None else record["id_number"]
            more = {"expires": record["expires"], "metadata": dict(record["metadata"] or ())}
            engine.subscribe(record["filter"], id=id, namespace=saved.part.namespace, **more)
    rows = [row for row in (saved.rows.living & ~saved.rows.written).nonzero()[0].tolist() if row not in removed]
    if rows:
        _add_textless(engine, saved, {row: ids[row] for row in rows})


def _add_textless(engine: Engine, saved: SavedPart, ids: Mapping[int, SubscriptionId]) -> None:
    """Add the boxes and balls that only the arrays hold."""
    axes = dict(Axes.from_state(saved.description))
    boxes = BoxIndex.from_arrays(saved.arrays.under("plain."), saved.part.n_rows)
    balls = PackedBalls.from_arrays(saved.arrays.under("balls."), saved.part.n_rows)
    sides: dict[SubscriptionId, _Sides] = {}
    for row, id in ids.items():
        ball, box = balls.find(row), boxes.find_box(row)
        if ball is not None:
            text = format_filters((Filter((ball,)),), engine.schema)
            engine.subscribe(text, id=id, namespace=saved.part.namespace)
        elif box is not None and all(axis in axes for axis in box[0]):
            sides[id] = {axes[axis].attribute: (lo, hi) for axis, lo, hi in zip(*box, strict=True)}
        else:
            saved.arrays.refuse_all(f"its arrays hold nothing for row {row}")
    if sides:  # a box without sides had names, too: any number attribute of the schema works
        numbers = [name for name, kind in engine.schema.items() if isinstance(kind, Number)]
        names = sorted({name for box in sides.values() for name in box}) or numbers[:1]
        free = (-math.inf, math.inf)
        lo, hi = ([[box.get(name, free)[end] for name in names] for box in sides.values()] for end in (0, 1))
        engine.subscribe_boxes(names, lo, hi, list(sides), namespace=saved.part.namespace)


def _never_compiled(record: object) -> Any:
    raise AssertionError(f"only ids are asked for, not {record!r}")
