"""Copies a snapshot from another machine's disk once, and maps the copy.

Mapping a file over a network would ask for its pages one by one. The copy is kept under the checksum of the
manifest, so a version is copied once per machine, by the process that needs it first. Kernels read these files by
address, so they lie in a directory that only this user can enter.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tamis.engine.snapshot.manifest import MANIFEST, Manifest, Part, check_size, named_files, read_manifest
from tamis.errors import SnapshotError
from tamis.private_directory import is_guarded, is_private, private_directory

__all__ = ["cache_directory", "local_parts", "local_version"]

#: Number of copies that are kept; the oldest are deleted first. A process that has mapped a copy keeps its pages.
_KEPT = 8
_COPY = re.compile(r"[0-9a-f]{64}")


def local_version(version: Path) -> Path:
    """Return the version itself if it was written on this machine, otherwise a local copy."""
    manifest = read_manifest(version)
    if manifest.host == platform.node():
        return version
    name = hashlib.sha256((version / MANIFEST).read_bytes()).hexdigest()
    kept = cache_directory()
    copy = kept / name
    if not copy.exists():
        making = Path(tempfile.mkdtemp(prefix=".copying-", dir=kept))
        try:
            _copy_files(version, manifest, making)
            os.rename(making, copy)
        except OSError:
            if not copy.exists():  # otherwise another process copied it meanwhile
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
        _evict(kept)
    return copy / version.name


def local_parts(version: Path, parts: Sequence[Part]) -> Path:
    """Return the version itself if it was written on this machine, otherwise a directory with copies of these parts.

    The copies of all parts of a version gather there, each when it is first asked for.
    """
    manifest = read_manifest(version)
    if manifest.host == platform.node():
        return version
    kept = cache_directory()
    copy = kept / hashlib.sha256(b"parts of " + (version / MANIFEST).read_bytes()).hexdigest()
    for path, file in named_files(version, msgspec.structs.replace(manifest, parts=list(parts), beside={})):
        target = copy / path.relative_to(version.parent)
        if not target.exists():
            check_size(path, file)
            _copy(path, target)
    if not (copy / version.name / MANIFEST).exists():
        _copy(version / MANIFEST, copy / version.name / MANIFEST)
    os.utime(copy)
    _evict(kept)
    return copy / version.name


def _copy(path: Path, target: Path) -> None:
    """Copy a file under another name first, so that no process sees a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = target.with_name(f".{uuid.uuid4().hex}")
    try:
        shutil.copyfile(path, aside, follow_symlinks=False)
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


def _copy_files(version: Path, manifest: Manifest, target: Path) -> None:
    """Copy only the files that a manifest names; they must be regular files of the stated size."""
    for path, file in named_files(version, manifest):
        check_size(path, file)
        copy = target / path.relative_to(version.parent)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy, follow_symlinks=False)
    (target / version.name).mkdir(exist_ok=True)
    shutil.copyfile(version / MANIFEST, target / version.name / MANIFEST)


def cache_directory() -> Path:
    """Return the directory of copies: ``TAMIS_SNAPSHOT_CACHE``, or a private one of this user's temporary files."""
    configured = os.environ.get("TAMIS_SNAPSHOT_CACHE")
    if not configured:
        return private_directory("snapshots")
    path = Path(configured)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(path) or not is_guarded(path):
        problem = "TAMIS_SNAPSHOT_CACHE must be a directory of this user, closed to all others at every level"
        raise SnapshotError(configured, problem)
    return path


def _evict(kept: Path) -> None:
    copies = [path for path in kept.iterdir() if _COPY.fullmatch(path.name)]
    for old in sorted(copies, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
