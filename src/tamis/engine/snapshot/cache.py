"""Caches versions of an object store on disk: each file is fetched once per host and mapped by every process.

::

    CACHE/objects/SHA-256                 a file of any version, under the digest of its contents
    CACHE/versions/SHA-256/v000001/...    a version as `read` takes it, under the digest of its manifest: hard links

A file is fetched to a name of its own, checked against size and SHA-256 of the manifest, and linked to its place:
processes may fetch it at the same time, and a torn file is never seen. When the cache is larger than
``TAMIS_SNAPSHOT_CACHE_BYTES`` (20 GB), the versions that were opened least recently go. Kernels read these files by
address, so they lie in a directory that only this user can enter.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tamis.engine.snapshot.local_copy import cache_directory
from tamis.engine.snapshot.manifest import MANIFEST, MOST_MANIFEST_BYTES, File, Manifest, Part, parse_manifest
from tamis.engine.snapshot.object_store import ObjectStore, open_store
from tamis.engine.snapshot.signing import sha256_of
from tamis.errors import SnapshotError

__all__ = ["fetch_version"]

#: Bytes of the cache when the environment names no other number.
_BYTES = 20 << 30


def fetch_version(version: str, *, parts: bool = True, others: Sequence[Part] = ()) -> Path:
    """Return a directory of this machine with a version of an object store, fetching the files that are missing.

    Without ``parts`` only the manifest, the files beside the parts and the lists of removed rows are there afterwards.
    ``others`` are parts that the manifest does not name, such as those of a tile.
    """
    root, _, name = version.rpartition("/")
    store = open_store(root)
    data = store.read(f"{name}/{MANIFEST}", MOST_MANIFEST_BYTES)
    if not data:
        problem = "there is no such version" if data is None else "the version was pruned"
        raise SnapshotError(f"{version}/{MANIFEST}", problem)
    manifest = parse_manifest(f"{version}/{MANIFEST}", data)
    cache = cache_directory()
    local = cache / "versions" / hashlib.sha256(data).hexdigest() / name
    local.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.utime(local.parent)  # before anything is fetched: another process that evicts now takes older versions first
    for remote, target, file in _files(manifest, local, [*(manifest.parts if parts else ()), *others]):
        _fetch(store, remote, target, file, cache / "objects")
    _put(local / MANIFEST, data)
    os.utime(local.parent)
    _evict(cache, local.parent)
    return local


def _files(manifest: Manifest, local: Path, parts: Sequence[Part]) -> Iterator[tuple[str, Path, File]]:
    """Yield (object, path, expected size and checksum) for every file that a reader of these parts needs."""
    for name, file in manifest.beside.items():
        yield f"{manifest.home}/{name}", local / name, file
    for part in manifest.parts:
        for name, file in part.removed.items():
            yield f"{manifest.home}/{name}", local / name, file
    for part in parts:
        for name, file in part.files.items():
            yield f"{part.home}/{name}", part.folder(local) / name, file


def _fetch(store: ObjectStore, remote: str, target: Path, file: File, objects: Path) -> None:
    """Link a checked object to its place in a version, and fetch it first if the cache does not have it."""
    if target.exists():
        return
    if file.sha256 is None:
        raise SnapshotError(f"{store.uri}/{remote}", "the manifest has no SHA-256 of this object")
    objects.mkdir(parents=True, exist_ok=True, mode=0o700)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = objects / file.sha256
    for _ in range(2):  # another process may evict it between the two lines
        if not kept.exists():
            _download(store, remote, kept, file)
        with suppress(FileExistsError):
            try:
                os.link(kept, target)
            except FileNotFoundError:
                continue
        return
    raise SnapshotError(str(kept), "the cache is too small for this version: raise TAMIS_SNAPSHOT_CACHE_BYTES")


def _download(store: ObjectStore, remote: str, kept: Path, file: File) -> None:
    aside = kept.with_name(f".{uuid.uuid4().hex}")
    try:
        store.download(remote, aside, file.bytes)
        if aside.stat().st_size != file.bytes:
            problem = f"torn: {aside.stat().st_size} bytes, the manifest says {file.bytes}"
            raise SnapshotError(f"{store.uri}/{remote}", problem)
        if sha256_of(aside) != file.sha256:
            raise SnapshotError(f"{store.uri}/{remote}", "changed: its SHA-256 is not the manifest's")
        with suppress(FileExistsError):
            os.link(aside, kept)
    finally:
        aside.unlink(missing_ok=True)


def _put(path: Path, data: bytes) -> None:
    """Write a small file atomically."""
    if path.exists():
        return
    aside = path.with_name(f".{uuid.uuid4().hex}")
    aside.write_bytes(data)
    os.replace(aside, path)


def _evict(cache: Path, opened: Path) -> None:
    """Remove the versions opened least recently, and the objects that no version links, while there is too much."""
    configured = os.environ.get("TAMIS_SNAPSHOT_CACHE_BYTES") or str(_BYTES)
    if not (configured.isascii() and configured.isdecimal()):
        raise SnapshotError(configured, "TAMIS_SNAPSHOT_CACHE_BYTES must be a number of bytes")
    most = int(configured)
    objects = [path for path in (cache / "objects").glob("*") if not path.name.startswith(".")]
    size = 0
    for path in objects:
        with suppress(OSError):
            size += path.stat().st_size
    kept = [path for path in (cache / "versions").glob("*") if path != opened]
    for version in sorted(kept, key=_last_use):
        if size <= most:
            return
        shutil.rmtree(version, ignore_errors=True)
        for path in objects:
            with suppress(OSError):
                if path.stat().st_nlink == 1:
                    size -= path.stat().st_size
                    path.unlink()


def _last_use(version: Path) -> float:
    try:
        return version.stat().st_mtime
    except OSError:
        return 0.0
