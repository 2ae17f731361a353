"""Snapshots: a saved engine is a directory of versions, each written once and never changed.

::

    DIRECTORY/v000001/manifest.json         format, schema, counts, checksums
                      subscriptions.arrow   id, namespace, filter (CQL2 text), expires, metadata

A version is written beside its place under a name that starts with a dot, synced, and renamed: it is there
whole or not at all. Reading checks format, sizes and checksums before anything is used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from tamis.errors import SchemaError, SnapshotError
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, SubscriptionId

__all__ = ["FORMAT", "State", "read", "write"]

#: The format this code writes and reads. A change that older code cannot read takes the next number.
FORMAT = 1

_VERSION = re.compile(r"v(\d{6,})")
_MANIFEST, _SUBSCRIPTIONS = "manifest.json", "subscriptions.arrow"

_COLUMNS = pa.schema(
    [
        pa.field("id_number", pa.int64()),
        pa.field("id_text", pa.string()),
        pa.field("namespace", pa.string(), nullable=False),
        pa.field("filter", pa.large_string(), nullable=False),
        pa.field("expires", pa.int64()),
        pa.field("metadata", pa.map_(pa.string(), pa.string())),
    ]
)

#: source, id, namespace, expires, metadata: what `Engine` compiles a subscription from.
Record = tuple[str, SubscriptionId, str, int | None, dict[str, str]]


@dataclass(frozen=True, slots=True)
class State:
    """What an engine is besides its subscriptions."""

    schema: Schema
    learns: bool
    matcher: str
    next_id: int


class _Manifest(msgspec.Struct):
    """The manifest as it stands on disk."""

    format: int
    tamis: str
    state: _StateJson
    file: str
    rows: int
    bytes: int
    sha256: str


class _StateJson(msgspec.Struct):
    """The engine's state in JSON."""

    schema: dict[str, Any]
    learns: bool
    matcher: str
    next_id: int


def write(directory: Path, state: State, subscriptions: Sequence[Subscription]) -> Path:
    """Write a new version and return its path."""
    if directory.exists() and not directory.is_dir():
        raise SnapshotError(str(directory), "there is a file of this name; choose a directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=directory))
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror}") from error
    try:
        _write_files(building, state, subscriptions)
        return _publish(building, directory)
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def read(directory: Path) -> tuple[State, list[Record]]:
    """Return the state and the subscriptions of the newest version."""
    version = _newest(directory)
    manifest = _read_manifest(version / _MANIFEST)
    data = _read_checked(version / _SUBSCRIPTIONS, manifest)
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SnapshotError(str(version / _SUBSCRIPTIONS), f"not an Arrow file: {error}") from error
    if table.schema != _COLUMNS:
        raise SnapshotError(str(version / _SUBSCRIPTIONS), "its columns are not those of this format")
    state = manifest.state
    try:
        schema = Schema.from_json(msgspec.json.encode(state.schema))
    except SchemaError as error:
        raise SnapshotError(str(version / _MANIFEST), f"a bad schema: {error}") from error
    return State(schema, state.learns, state.matcher, state.next_id), [_record(one) for one in table.to_pylist()]


def _write_files(building: Path, state: State, subscriptions: Sequence[Subscription]) -> None:
    path = building / _SUBSCRIPTIONS
    table = pa.Table.from_pylist([_row(one, state.schema) for one in subscriptions], schema=_COLUMNS)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _COLUMNS) as writer:
        writer.write_table(table)
    data = path.read_bytes()
    described = _StateJson(msgspec.json.decode(state.schema.to_json()), state.learns, state.matcher, state.next_id)
    checksum = hashlib.sha256(data).hexdigest()
    manifest = _Manifest(FORMAT, _tamis_version(), described, path.name, table.num_rows, len(data), checksum)
    (building / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    for file in (path, building / _MANIFEST, building):
        _sync(file)


def _publish(building: Path, directory: Path) -> Path:
    """Give the finished version the next free number."""
    while True:
        number = max((int(found[1]) for found in _versions(directory)), default=0) + 1
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
    if not directory.is_dir():
        raise SnapshotError(str(directory), "there is no such directory")
    found = _versions(directory)
    if not found:
        raise SnapshotError(str(directory), "there is no saved engine in it (no directory such as v000001)")
    return directory / max(found, key=lambda match: int(match[1]))[0]


def _versions(directory: Path) -> list[re.Match[str]]:
    found = (_VERSION.fullmatch(one.name) for one in directory.iterdir() if one.is_dir())
    return [match for match in found if match]


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
        return msgspec.json.decode(data, type=_Manifest)
    except msgspec.ValidationError as error:
        raise SnapshotError(str(path), f"not a manifest: {error}") from error


def _read_checked(path: Path, manifest: _Manifest) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror}") from error
    if len(data) != manifest.bytes:
        raise SnapshotError(str(path), f"torn: {len(data)} bytes, the manifest says {manifest.bytes}")
    if hashlib.sha256(data).hexdigest() != manifest.sha256:
        raise SnapshotError(str(path), "damaged: its checksum is not the manifest's")
    return data


def _row(one: Subscription, schema: Schema) -> dict[str, Any]:
    return {
        "id_number": one.id if isinstance(one.id, int) else None,
        "id_text": one.id if isinstance(one.id, str) else None,
        "namespace": one.namespace,
        "filter": one.text if one.text is not None else format_filters(one.filters, schema),
        "expires": one.expires,
        "metadata": list(one.metadata.items()),
    }


def _record(row: dict[str, Any]) -> Record:
    id = row["id_text"] if row["id_number"] is None else row["id_number"]
    return row["filter"], id, row["namespace"], row["expires"], dict(row["metadata"] or ())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _tamis_version() -> str:
    from tamis import __version__

    return __version__
