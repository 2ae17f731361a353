"""The manifest: what a version of a snapshot holds, with a size and a checksum for every file of it.

It is the last file written. On disk it stands in an envelope that says who wrote it, in which format, and the
checksum of its contents, so that a torn or foreign manifest is known before a word of it is believed.
"""

from __future__ import annotations

import hmac
import re
import stat
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from tamis.engine.ids import IdsState
from tamis.engine.snapshot.signing import sha256_of, sign, snapshot_key
from tamis.errors import SchemaError, SnapshotError, shorten
from tamis.index.saved_arrays import MOST_ROWS
from tamis.model.schema import Schema

__all__ = [
    "FORMAT",
    "MANIFEST",
    "MOST_MANIFEST_BYTES",
    "OLDER_FORMATS",
    "Envelope",
    "File",
    "IdKind",
    "Manifest",
    "Part",
    "check_files",
    "check_manifest",
    "check_parts",
    "check_size",
    "digested",
    "is_signed",
    "measure",
    "named_files",
    "open_envelope",
    "parse_envelope",
    "parse_manifest",
    "read_manifest",
]

#: The format this code writes and reads. A change that older code cannot read takes the next number.
FORMAT = 3
#: The formats that `tamis migrate` reads.
OLDER_FORMATS = (1, 2)
MANIFEST = "manifest.json"

#: What the ids of a part are; a part without subscriptions has ids of no kind.
IdKind = Literal["number", "text", "mixed", "none"]

#: Ids are int64; a manifest of a hundred thousand parts has some 50 MB.
_MOST_IDS = 2**63
MOST_MANIFEST_BYTES = 1 << 28

_HOME = re.compile(r"(v\d{6,}|parts-[0-9a-f]{32})?")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class File(msgspec.Struct, frozen=True):
    """The expected size and checksums of a file."""

    bytes: int
    crc32: int
    #: Hexadecimal digits; every file of a signed manifest has one.
    sha256: str | None = None


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
        """The number of rows, including dead ones."""
        return sum(n for _, n in self.blocks)

    def folder(self, version: Path) -> Path:
        """Return the directory of its files, as part of a version in this directory."""
        return version.parent / self.home if self.home else version


class Manifest(msgspec.Struct, frozen=True):
    """The contents of a version."""

    schema: dict[str, Any]
    learns: bool
    matcher: str
    next_id: int
    parts: list[Part]
    #: The machine that wrote it; on another one the files are copied before they are mapped.
    host: str = ""
    #: Files that belong to the version and to no part, such as the routing summary.
    beside: dict[str, File] = {}
    #: In an object store: what the names of the files beside the parts, and of removed rows, begin with.
    home: str = ""

    def write(self, directory: Path, key: bytes | None = None) -> None:
        """Write the manifest into a directory that has none yet, signed if there is a key."""
        with (directory / MANIFEST).open("xb") as file:
            file.write(self.to_bytes(key))

    def to_bytes(self, key: bytes | None = None) -> bytes:
        """Return the manifest in its envelope, signed if there is a key.

        Before signing, the caller adds the SHA-256 of every file (`with_digests`).
        """
        contents = msgspec.json.encode(self)
        signature = None if key is None else sign(key, FORMAT, contents)
        envelope = Envelope(FORMAT, _tamis_version(), zlib.crc32(contents), msgspec.Raw(contents), signature)
        return msgspec.json.encode(envelope) + b"\n"

    def read_schema(self, version: Path | str) -> Schema:
        """Return the schema the version was written with."""
        try:
            return Schema.from_json(msgspec.json.encode(self.schema))
        except SchemaError as error:
            raise SnapshotError(f"{version}/{MANIFEST}", f"a bad schema: {error}") from error

    def with_digests(self, version: Path) -> Manifest:
        """Return the manifest with the SHA-256 of every file; ``version`` is where it will be written."""
        parts = []
        for part in self.parts:
            files = _with_digests(part.folder(version), part.files)
            removed = _with_digests(version, part.removed)
            parts.append(msgspec.structs.replace(part, files=files, removed=removed))
        return msgspec.structs.replace(self, parts=parts, beside=_with_digests(version, self.beside))

    def files(self) -> Iterator[File]:
        """Yield the entry of every file."""
        for part in self.parts:
            yield from part.files.values()
            yield from part.removed.values()
        yield from self.beside.values()

    def homes(self) -> set[str]:
        """Return the names of the other versions, or of the places in an object store, whose files this one needs."""
        return {home for home in (self.home, *(part.home for part in self.parts)) if home}


class Envelope(msgspec.Struct):
    """The manifest on disk, with its format and a checksum of its contents."""

    format: int
    tamis: str
    crc32: int
    contents: msgspec.Raw
    #: HMAC-SHA256 of format and contents, hexadecimal; see `signing`.
    signature: str | None = None


def read_manifest(version: Path, key: bytes | None = None) -> Manifest:
    """Return the manifest of a version, or raise `SnapshotError` when it cannot be trusted.

    With a key, given or from the environment (`signing`), it must be signed with this key.
    """
    path = version / MANIFEST
    return parse_manifest(str(path), _read(path), key)


def parse_manifest(path: str, data: bytes, key: bytes | None = None) -> Manifest:
    """Return the manifest that an envelope holds, as `read_manifest` does; ``path`` says where it came from."""
    key = snapshot_key(key)
    envelope = parse_envelope(path, data)
    if key is not None:
        _check_signature(path, envelope, key)
    try:
        manifest = msgspec.json.decode(envelope.contents, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SnapshotError(path, f"not a manifest: {error}") from error
    check_manifest(path, manifest)
    if key is not None and any(file.sha256 is None for file in manifest.files()):
        raise SnapshotError(path, "signed, but not every file has a SHA-256")
    return manifest


def open_envelope(path: Path, formats: Container[int] = (FORMAT,)) -> Envelope:
    """Return a manifest in its envelope, if it is of one of the formats and its checksum is right."""
    return parse_envelope(str(path), _read(path), formats)


def parse_envelope(path: str, data: bytes, formats: Container[int] = (FORMAT,)) -> Envelope:
    """Return the envelope that bytes hold, as `open_envelope` does."""
    try:
        header = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(path, f"not a manifest: {error}") from error
    format = header.get("format") if isinstance(header, dict) else None
    if not isinstance(format, int) or format not in formats:
        writer = header.get("tamis", "unknown") if isinstance(header, dict) else "unknown"
        reason = f"format {format!r}, written by tamis {writer}; tamis {_tamis_version()} reads format {FORMAT}: "
        raise SnapshotError(path, reason + _advice(path, format))
    if isinstance(header, dict) and {"state", "file", "sha256"} <= header.keys():
        reason = f"the layout before format 1 (subscriptions.arrow alone), written by tamis {header.get('tamis')}"
        raise SnapshotError(path, f"{reason}: no release wrote it; save the subscriptions again")
    try:
        envelope = msgspec.json.decode(data, type=Envelope)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SnapshotError(path, f"not a manifest: {error}") from error
    if zlib.crc32(envelope.contents) != envelope.crc32:
        raise SnapshotError(path, "damaged: its checksum is not that of its contents")
    return envelope


def _advice(path: str, format: object) -> str:
    """Return advice for a version of another format."""
    if isinstance(format, int) and format in OLDER_FORMATS:
        return f"convert it with: tamis migrate {path.rpartition('/')[0]} NEW_DIRECTORY"
    return "open it with the version of tamis that wrote it, or a newer one than this"


def check_manifest(path: str, manifest: Manifest) -> None:
    """Refuse a manifest with paths outside its directory, or with impossible rows and ids."""
    check_parts(path, manifest.parts)
    _check_home(path, manifest.home)
    _check_files(path, manifest.beside)
    if not 0 <= manifest.next_id <= _MOST_IDS // 2:
        raise SnapshotError(path, f"the next id {manifest.next_id} leaves no room for others")


def check_parts(path: str, parts: Iterable[Part]) -> None:
    """Refuse parts with files outside the directory, or with impossible rows and ids."""
    for part in parts:
        _check_home(path, part.home)
        _check_name(path, part.prefix)
        _check_files(path, part.files)
        _check_files(path, part.removed)
        _check_part(path, part)


def check_files(version: Path, manifest: Manifest) -> None:
    """Raise `SnapshotError` unless every file the manifest names has its size and its checksum."""
    for path, file in named_files(version, manifest):
        _check_file(path, file)


def named_files(version: Path, manifest: Manifest) -> Iterator[tuple[Path, File]]:
    """Yield every file that a manifest names, and what it must be."""
    for part in manifest.parts:
        yield from ((part.folder(version) / name, file) for name, file in part.files.items())
        yield from ((version / name, file) for name, file in part.removed.items())
    yield from ((version / name, file) for name, file in manifest.beside.items())


def is_signed(version: Path) -> bool:
    """Return whether a manifest that can be read has a signature; whose, `read_manifest` decides with a key."""
    return msgspec.json.decode(_read(version / MANIFEST), type=Envelope).signature is not None


def measure(path: Path) -> File:
    """Return size and checksum of a file."""
    return File(path.stat().st_size, _checksum(path))


def digested(part: Part, folder: Path) -> Part:
    """Return a part whose files lie in a folder with the SHA-256 of each: object stores need them."""
    return msgspec.structs.replace(part, files=_with_digests(folder, part.files))


def _check_home(path: str, home: str) -> None:
    if not _HOME.fullmatch(home):
        raise SnapshotError(path, f"{home!r} is not a version")


def _check_name(path: str, name: str) -> None:
    """Refuse a name that leads out of the directory of the manifest."""
    if not _FILE.fullmatch(name) or name == MANIFEST:
        raise SnapshotError(path, f"{name!r} is a file outside the version")


def _check_files(path: str, files: Mapping[str, File]) -> None:
    for name, file in files.items():
        _check_name(path, name)
        if file.bytes < 0 or not (file.sha256 is None or _SHA256.fullmatch(file.sha256)):
            # Copies in a cache have the names of their digests.
            raise SnapshotError(path, f"{file.bytes} bytes with the SHA-256 {shorten(file.sha256)} cannot be a file")


def _check_signature(path: str, envelope: Envelope, key: bytes) -> None:
    if envelope.signature is None:
        raise SnapshotError(path, "not signed, and a key demands that it is; save it again with the key")
    right = sign(key, envelope.format, bytes(envelope.contents))
    if not hmac.compare_digest(envelope.signature.encode(), right.encode()):
        raise SnapshotError(path, "not signed with this key, or changed since")


def _with_digests(folder: Path, files: Mapping[str, File]) -> dict[str, File]:
    return {
        name: file if file.sha256 else msgspec.structs.replace(file, sha256=sha256_of(folder / name))
        for name, file in files.items()
    }


def _check_part(path: str, part: Part) -> None:
    """Refuse a part with impossible rows, or with a file that the manifest does not list."""
    endings = ["subscriptions.arrow", *(["arrays", "axes.json"] if part.packed else [])]
    beside = {f"{part.prefix}.low"}  # a part of a tiled snapshot has it; see tamis.spark.tiles.tiles
    if set(part.files) - beside != {f"{part.prefix}.{ending}" for ending in endings}:
        raise SnapshotError(path, f"the files of the part {part.prefix!r} are not {', '.join(endings)}")
    sizes = [n for _, n in part.blocks]
    ranges = [(start, n) for start, n in part.blocks if start is not None]
    if min(sizes, default=0) < 0 or sum(sizes) > MOST_ROWS or (ranges and not part.packed):
        raise SnapshotError(path, f"the part {part.prefix!r} has rows that cannot be")
    if any(not -_MOST_IDS <= start <= start + n <= _MOST_IDS for start, n in ranges):
        raise SnapshotError(path, f"the part {part.prefix!r} has ids beyond 64 bits")
    if sum(n for _, n in ranges) + part.listed > sum(file.bytes for file in part.files.values()):
        raise SnapshotError(path, f"the part {part.prefix!r} has more subscriptions than bytes")


def _read(path: Path) -> bytes:
    """Return the contents of a manifest file; refuse a file that is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_MANIFEST_BYTES + 1)
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror}") from error
    if len(data) > MOST_MANIFEST_BYTES:
        raise SnapshotError(str(path), f"not a manifest: it is larger than {MOST_MANIFEST_BYTES:,} bytes")
    return data


def check_size(path: Path, file: File) -> None:
    """Raise `SnapshotError` unless a path is a regular file, no link, of the size that a manifest says."""
    try:
        status = path.lstat()
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror}") from error
    if stat.S_ISLNK(status.st_mode):
        raise SnapshotError(str(path), "a file outside the version")
    if not stat.S_ISREG(status.st_mode):
        raise SnapshotError(str(path), "not a regular file")
    if status.st_size != file.bytes:
        raise SnapshotError(str(path), f"torn: {status.st_size} bytes, the manifest says {file.bytes}")


def _check_file(path: Path, file: File) -> None:
    check_size(path, file)
    if _checksum(path) != file.crc32:
        raise SnapshotError(str(path), "damaged: its checksum is not the manifest's")
    if file.sha256 is not None and sha256_of(path) != file.sha256:
        raise SnapshotError(str(path), "changed: its SHA-256 is not the manifest's")


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 22):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _tamis_version() -> str:
    from tamis import __version__

    return __version__
