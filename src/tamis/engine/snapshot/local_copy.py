"""A snapshot that lies on another machine's disk is copied once and mapped from here.

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
from pathlib import Path

from tamis.engine.snapshot.manifest import MANIFEST, Manifest, check_size, named_files, read_manifest
from tamis.errors import SnapshotError
from tamis.private_directory import is_guarded, is_private, private_directory

__all__ = ["cache_directory", "local_version"]

#: Number of copies that are kept; the oldest are deleted first. A process that has mapped a copy keeps its pages.
_KEPT = 8
_COPY = re.compile(r"[0-9a-f]{64}")


def local_version(version: Path) -> Path:
    """Return the version itself when it was written on this machine, else a copy of it."""
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


def _copy_files(version: Path, manifest: Manifest, target: Path) -> None:
    """Copy the files that a manifest names, and no other: regular ones of the size that it says."""
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
    copies = [one for one in kept.iterdir() if _COPY.fullmatch(one.name)]
    for old in sorted(copies, key=lambda one: one.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
