"""The manifest: what a version of a snapshot holds, with a size and a checksum for every file of it.

It is the last file written. On disk it stands in an envelope that says who wrote it, in which format, and the
checksum of its contents, so that a torn or foreign manifest is known before a word of it is believed.
"""

from __future__ import annotations

import re
import stat
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from tamis.engine.ids import IdsState
from tamis.errors import SchemaError, SnapshotError
from tamis.index.saved_arrays import MOST_ROWS
from tamis.model.schema import Schema

__all__ = ["FORMAT", "MANIFEST", "File", "IdKind", "Manifest", "Part", "check_files", "measure", "read_manifest"]

#: The format this code writes and reads. A change that older code cannot read takes the next number.
FORMAT = 3
MANIFEST = "manifest.json"

#: What the ids of a part are; a part without subscriptions has ids of no kind.
IdKind = Literal["number", "text", "mixed", "none"]

#: Ids are int64; a manifest of a hundred thousand parts has some 50 MB.
_MOST_IDS = 2**63
_MOST_BYTES = 1 << 28

_HOME = re.compile(r"(v\d{6,})?")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class File(msgspec.Struct, frozen=True):
    """What a file must be."""

    bytes: int
    crc32: int


class Part(msgspec.Struct, frozen=True):
    """Subscriptions of one namespace that were indexed together; their files start with ``prefix``.

    ``home`` is the version that holds the files, empty for the one that holds this manifest: a version that
    only adds to an earlier one names that one's parts again. ``removed`` are files of this version with the
    rows that left such a part since.
    """

    namespace: str
    prefix: str
    blocks: IdsState
    listed: int
    packed: bool
    id_kind: IdKind
    files: dict[str, File]
    #: Whether some of its subscriptions end.
    expires: bool = False
    home: str = ""
    removed: dict[str, File] = {}

    @property
    def n_rows(self) -> int:
        """How many rows it takes, dead ones included."""
        return sum(n for _, n in self.blocks)


class Manifest(msgspec.Struct, frozen=True):
    """What a version holds."""

    schema: dict[str, Any]
    learns: bool
    matcher: str
    next_id: int
    parts: list[Part]
    #: The machine that wrote it; on another one the files are copied before they are mapped.
    host: str = ""
    #: Files that belong to the version and to no part, such as the routing summary.
    beside: dict[str, File] = {}

    def write(self, directory: Path) -> None:
        """Write the manifest into a directory that has none yet."""
        contents = msgspec.json.encode(self)
        envelope = _Envelope(FORMAT, _tamis_version(), zlib.crc32(contents), msgspec.Raw(contents))
        with (directory / MANIFEST).open("xb") as file:
            file.write(msgspec.json.encode(envelope) + b"\n")

    def read_schema(self, version: Path) -> Schema:
        """Return the schema the version was written with."""
        try:
            return Schema.from_json(msgspec.json.encode(self.schema))
        except SchemaError as error:
            raise SnapshotError(str(version / MANIFEST), f"a bad schema: {error}") from error

    def homes(self) -> set[str]:
        """Return the names of the other versions whose files this one needs."""
        return {part.home for part in self.parts if part.home}


class _Envelope(msgspec.Struct):
    """The manifest as it stands on disk: who wrote it, and a checksum of its contents."""

    format: int
    tamis: str
    crc32: int
    contents: msgspec.Raw


def read_manifest(version: Path) -> Manifest:
    """Return the manifest of a version, or raise `SnapshotError` when it cannot be trusted."""
    path = version / MANIFEST
    data = _read(path)
    try:
        header = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
        manifest = msgspec.json.decode(envelope.contents, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SnapshotError(str(path), f"not a manifest: {error}") from error
    _check_names(path, manifest)
    for part in manifest.parts:
        _check_part(path, part)
    if not 0 <= manifest.next_id < _MOST_IDS:
        raise SnapshotError(str(path), f"the next id {manifest.next_id} is not a number of 63 bits")
    return manifest


def check_files(version: Path, manifest: Manifest) -> None:
    """Raise `SnapshotError` unless every file the manifest names has its size and its checksum."""
    for part in manifest.parts:
        home = version.parent / part.home if part.home else version
        for name, file in part.files.items():
            _check_file(home / name, file)
        for name, file in part.removed.items():
            _check_file(version / name, file)
    for name, file in manifest.beside.items():
        _check_file(version / name, file)


def measure(path: Path) -> File:
    """Return size and checksum of a file."""
    return File(path.stat().st_size, _checksum(path))


def _check_names(path: Path, manifest: Manifest) -> None:
    """No name of a manifest may lead out of its directory."""
    for part in manifest.parts:
        if not _HOME.fullmatch(part.home):
            raise SnapshotError(str(path), f"{part.home!r} is no version")
    names: Iterable[str] = (name for part in manifest.parts for name in (part.prefix, *part.files, *part.removed))
    for name in (*names, *manifest.beside):
        if not _FILE.fullmatch(name):
            raise SnapshotError(str(path), f"{name!r} is a file outside the version")


def _check_part(path: Path, part: Part) -> None:
    """Refuse a part whose rows cannot be, or that reads a file which the manifest does not list."""
    endings = ["subscriptions.arrow", *(["arrays", "axes.json"] if part.packed else [])]
    if set(part.files) != {f"{part.prefix}.{ending}" for ending in endings}:
        raise SnapshotError(str(path), f"the files of the part {part.prefix!r} are not {', '.join(endings)}")
    sizes = [n for _, n in part.blocks]
    ranges = [(start, n) for start, n in part.blocks if start is not None]
    if min(sizes, default=0) < 0 or sum(sizes) > MOST_ROWS or (ranges and not part.packed):
        raise SnapshotError(str(path), f"the part {part.prefix!r} has rows that cannot be")
    if any(not -_MOST_IDS <= start <= start + n <= _MOST_IDS for start, n in ranges):
        raise SnapshotError(str(path), f"the part {part.prefix!r} has ids beyond 64 bits")
    if sum(n for _, n in ranges) + part.listed > sum(file.bytes for file in part.files.values()):
        raise SnapshotError(str(path), f"the part {part.prefix!r} has more subscriptions than bytes")


def _read(path: Path) -> bytes:
    """Return what a manifest's file holds, if it is of a size that a manifest can have."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise SnapshotError(str(path), f"not a manifest: it is larger than {_MOST_BYTES:,} bytes")
    return data


def _check_file(path: Path, file: File) -> None:
    try:
        status = path.lstat()
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror}") from error
    if stat.S_ISLNK(status.st_mode):
        raise SnapshotError(str(path), "a file outside the version")
    if not stat.S_ISREG(status.st_mode):
        raise SnapshotError(str(path), "not a regular file")
    size = status.st_size
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


def _tamis_version() -> str:
    from tamis import __version__

    return __version__
