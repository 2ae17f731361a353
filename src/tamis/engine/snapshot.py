"""Snapshots: a saved engine is a directory of versions, each written once and never changed.

::

    DIRECTORY/v000001/manifest.json           format, schema, namespaces, sizes and checksums of the files
                      0.subscriptions.arrow   row, id, filter (CQL2 text), expires, metadata of namespace 0
                      0.arrays                the packed index of namespace 0, mapped when it is opened
                      0.axes.json             what its axes mean

A version is written beside its place under a name that starts with a dot, synced, and renamed: it is there
whole or not at all. Reading checks the format, and size and checksum of every file, before anything is used.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.engine.array_file import map_arrays, write_arrays
from tamis.engine.ids import Ids, IdsState
from tamis.engine.namespace import Namespace
from tamis.engine.stored import COLUMNS, Record, StoredSubscriptions, record_table
from tamis.errors import SchemaError, SnapshotError
from tamis.index.protocols import MappedMatcher
from tamis.index.registry import MATCHERS
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription

__all__ = ["FORMAT", "Saved", "SavedNamespace", "State", "read", "restore", "versions", "write"]

#: The format this code writes and reads. A change that older code cannot read takes the next number.
FORMAT = 2

_VERSION = re.compile(r"v(\d{6,})")
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class State:
    """What an engine is besides its subscriptions."""

    schema: Schema
    learns: bool
    matcher: str
    next_id: int


class _File(msgspec.Struct):
    """What a file must be."""

    bytes: int
    crc32: int


class _NamespaceJson(msgspec.Struct):
    """A namespace in the manifest: its files start with ``prefix``."""

    name: str
    prefix: str
    blocks: IdsState
    listed: int
    packed: bool


class _Manifest(msgspec.Struct):
    """What a version holds; on disk it stands in a `_Envelope`."""

    schema: dict[str, Any]
    learns: bool
    matcher: str
    next_id: int
    namespaces: list[_NamespaceJson]
    files: dict[str, _File]


class _Envelope(msgspec.Struct):
    """The manifest as it stands on disk: who wrote it, and a checksum of its contents."""

    format: int
    tamis: str
    crc32: int
    contents: msgspec.Raw


@dataclass(frozen=True, slots=True)
class SavedNamespace:
    """A namespace as it was read: see `restore`."""

    name: str
    blocks: IdsState
    listed: int
    table: pa.Table
    arrays: dict[str, npt.NDArray[Any]]
    #: What the matcher's arrays mean; None when there are none.
    description: Any


@dataclass(frozen=True, slots=True)
class Saved:
    """A version as it was read."""

    state: State
    namespaces: list[SavedNamespace]


def write(directory: Path, state: State, spaces: Sequence[Namespace]) -> Path:
    """Write a new version and return its path."""
    if directory.exists() and not directory.is_dir():
        raise SnapshotError(str(directory), "there is a file of this name; choose a directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=directory))
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror}") from error
    try:
        described = [_write_namespace(building, str(i), space, state.schema) for i, space in enumerate(spaces)]
        _write_manifest(building, state, described)
        return _publish(building, directory)
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def read(directory: Path, version: Path | None = None) -> Saved:
    """Return the newest version, or the one given, after checking every file of it."""
    version = version or _newest(directory)
    manifest = _read_manifest(version / _MANIFEST)
    for name, file in manifest.files.items():
        _check_file(version / name, file)
    try:
        schema = Schema.from_json(msgspec.json.encode(manifest.schema))
    except SchemaError as error:
        raise SnapshotError(str(version / _MANIFEST), f"a bad schema: {error}") from error
    state = State(schema, manifest.learns, manifest.matcher, manifest.next_id)
    return Saved(state, [_read_namespace(version, one) for one in manifest.namespaces])


def restore(saved: SavedNamespace, space: Namespace, compile: Callable[[Record], Subscription]) -> None:
    """Fill an empty namespace: open the saved index where the matcher can, add everything again otherwise."""
    if saved.description is not None and not isinstance(space.matcher, MappedMatcher):
        packed = Namespace(saved.name, MATCHERS["packed"])  # reads what this matcher cannot
        restore(saved, packed, compile)
        for subscription in packed:
            space.add(subscription)
        return
    stored = StoredSubscriptions(saved.table, compile)
    removed = saved.arrays.get("removed", np.empty(0, np.int32))
    space.open(Ids.from_state(saved.blocks, removed, stored, saved.listed), stored)
    if saved.description is None:
        for row in stored.rows.tolist():
            one = stored.find(row)
            assert one is not None
            space.matcher.add(row, one)
    elif isinstance(space.matcher, MappedMatcher):
        space.matcher.open_arrays(saved.description, saved.arrays)


def versions(directory: Path) -> list[Path]:
    """Return the versions in a directory, the oldest first."""
    if not directory.is_dir():
        raise SnapshotError(str(directory), "there is no such directory")
    found = (_VERSION.fullmatch(one.name) for one in directory.iterdir() if one.is_dir())
    return [directory / match[0] for match in sorted((m for m in found if m), key=lambda m: int(m[1]))]


def _write_namespace(building: Path, prefix: str, space: Namespace, schema: Schema) -> _NamespaceJson:
    blocks, removed = space.ids.to_state()
    packed = space.matcher.to_arrays() if isinstance(space.matcher, MappedMatcher) else None
    if packed is None:  # without an index that holds boxes every subscription is written out
        blocks, live = [(None, space.ids.n_rows)], list(space.ids.live_rows())
    else:
        live = space.ids.listed_rows()
        description, arrays = packed
        write_arrays(building / f"{prefix}.arrays", {"removed": removed, **arrays})
        (building / f"{prefix}.axes.json").write_bytes(msgspec.json.encode(description))
    table = record_table([_record(row, space, schema, keep_text=packed is None) for row in live])
    path = building / f"{prefix}.subscriptions.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, COLUMNS) as out:
        out.write_table(table)
    return _NamespaceJson(space.name, prefix, blocks, len(live), packed is not None)


def _record(row: int, space: Namespace, schema: Schema, *, keep_text: bool) -> tuple[int, Any, str | None, Any, Any]:
    one = space.find(row)
    assert one is not None
    text = one.text
    if text is None and (keep_text or not space.is_box(row)):
        text = format_filters(one.filters, schema)
    return row, one.id, text, one.expires, dict(one.metadata)


def _read_namespace(version: Path, one: _NamespaceJson) -> SavedNamespace:
    path = version / f"{one.prefix}.subscriptions.arrow"
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate()
    except (pa.ArrowInvalid, OSError) as error:
        raise SnapshotError(str(path), f"not an Arrow file: {error}") from error
    if table.schema != COLUMNS:
        raise SnapshotError(str(path), "its columns are not those of this format")
    if not one.packed:
        return SavedNamespace(one.name, one.blocks, one.listed, table, {}, None)
    arrays = map_arrays(version / f"{one.prefix}.arrays")
    description = msgspec.json.decode((version / f"{one.prefix}.axes.json").read_bytes())
    return SavedNamespace(one.name, one.blocks, one.listed, table, arrays, description)


def _write_manifest(building: Path, state: State, namespaces: list[_NamespaceJson]) -> None:
    files = {path.name: _File(path.stat().st_size, _checksum(path)) for path in sorted(building.iterdir())}
    schema = msgspec.json.decode(state.schema.to_json())
    manifest = _Manifest(schema, state.learns, state.matcher, state.next_id, namespaces, files)
    contents = msgspec.json.encode(manifest)
    envelope = _Envelope(FORMAT, _tamis_version(), zlib.crc32(contents), msgspec.Raw(contents))
    (building / _MANIFEST).write_bytes(msgspec.json.encode(envelope) + b"\n")
    for file in (*building.iterdir(), building):
        _sync(file)


def _publish(building: Path, directory: Path) -> Path:
    """Give the finished version the next free number."""
    while True:
        known = versions(directory)
        number = int(known[-1].name[1:]) + 1 if known else 1
        target = directory / f"v{number:06d}"
        try:
            os.rename(building, target)
        except OSError:
            if target.exists():  # another process was quicker
                continue
            raise
        _sync(directory)
        return target


def _newest(directory: Path) -> Path:
    found = versions(directory)
    if not found:
        raise SnapshotError(str(directory), "there is no saved engine in it (no directory such as v000001)")
    return found[-1]


def _read_manifest(path: Path) -> _Manifest:
    try:
        data = path.read_bytes()
        header = msgspec.json.decode(data)
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotError(str(path), f"not a manifest: {error}") from error
    found = header.get("format") if isinstance(header, dict) else None
    if found != FORMAT:
        writer = header.get("tamis", "unknown") if isinstance(header, dict) else "unknown"
        raise SnapshotError(
            str(path),
            f"format {found!r}, written by tamis {writer}; tamis {_tamis_version()} reads format {FORMAT}: "
            "save it again with a version that reads both",
        )
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if zlib.crc32(envelope.contents) != envelope.crc32:
            raise SnapshotError(str(path), "damaged: its checksum is not that of its contents")
        return msgspec.json.decode(envelope.contents, type=_Manifest)
    except msgspec.ValidationError as error:
        raise SnapshotError(str(path), f"not a manifest: {error}") from error


def _check_file(path: Path, file: _File) -> None:
    if path.parent.resolve() != path.resolve().parent:
        raise SnapshotError(str(path), "a file outside the version")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror}") from error
    if size != file.bytes:
        raise SnapshotError(str(path), f"torn: {size} bytes, the manifest says {file.bytes}")
    if _checksum(path) != file.crc32:
        raise SnapshotError(str(path), "damaged: its checksum is not the manifest's")


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 22):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _tamis_version() -> str:
    from tamis import __version__

    return __version__
