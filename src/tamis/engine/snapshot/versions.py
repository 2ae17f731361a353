"""The versions in a directory: each is built beside its place, published by a rename, and removed whole.

A version is built under a name that starts with a dot, synced, and renamed: it is there whole or not at all,
and nothing is ever rewritten in place. A reader of a version holds a shared lock on its manifest, so that
`prune` keeps it. A writer holds a lock on the directory it builds, so that the next writer recognises what was
left by a process that was killed.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tamis.engine.snapshot.manifest import MANIFEST, read_manifest
from tamis.errors import SnapshotConflictError, SnapshotError

__all__ = [
    "NO_VERSION",
    "VersionLease",
    "building",
    "find_newest",
    "newest",
    "prune",
    "publish",
    "version_at",
    "versions",
]

_VERSION = re.compile(r"v(\d{6,})")
_BUILDING = ".building-"
#: Stands for the newest version if there is none yet.
NO_VERSION = "v000000"
#: Seconds without a change after which another machine's place counts as left; its locks may not reach this one.
_LEFT_AFTER = 24 * 3600


def versions(directory: Path) -> list[Path]:
    """Return the versions in a directory, the oldest first."""
    if not directory.is_dir():
        raise SnapshotError(str(directory), "there is no such directory")
    names = (_VERSION.fullmatch(path.name) for path in directory.iterdir() if path.is_dir())
    return [directory / match[0] for match in sorted((m for m in names if m), key=lambda m: int(m[1]))]


def find_newest(directory: Path) -> Path | None:
    """Return the newest version in a directory, None when it has none or does not exist."""
    return max(versions(directory), default=None, key=_number) if directory.is_dir() else None


def newest(directory: Path) -> Path:
    """Return the newest version in a directory."""
    existing = versions(directory)
    if not existing:
        raise SnapshotError(str(directory), "there is no saved engine in it (no directory such as v000001)")
    return existing[-1]


def version_at(path: Path) -> Path:
    """Return the version a path means: itself when it is one, else the newest in the directory."""
    return path if _VERSION.fullmatch(path.name) and (path / MANIFEST).exists() else newest(path)


@contextmanager
def building(directory: Path) -> Iterator[Path]:
    """Yield a new, empty directory for a version; it is removed at the end unless it was published.

    What processes left that were killed while they built is removed first.
    """
    if directory.exists() and not directory.is_dir():
        raise SnapshotError(str(directory), "there is a file of this name; choose a directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_left(directory)
        folder, lock = _locked_place(directory)
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror}") from error
    try:
        folder.chmod(0o777 & ~_umask())  # mkdtemp's 0700 would keep other users of a shared directory out
        yield folder
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_place(directory: Path) -> tuple[Path, int]:
    """Return a new place and the handle that keeps it locked."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_BUILDING}{platform.node()}-", dir=directory))
        handle = os.open(folder, os.O_RDONLY)
        with suppress(OSError):  # a file system without locks: what is left there stays
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():
            return folder, handle
        os.close(handle)  # taken for one that was left, in the moment before it was locked


def _remove_left(directory: Path) -> None:
    """Remove the places of builders that are gone; one that may be at work, here or elsewhere, stays."""
    for folder in directory.glob(f"{_BUILDING}*"):
        with suppress(OSError):
            is_ours = folder.name.startswith(f"{_BUILDING}{platform.node()}-")
            if not is_ours and time.time() - _last_change(folder) < _LEFT_AFTER:
                continue
            handle = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _last_change(folder: Path) -> float:
    """Return when a directory or something in it changed last."""
    return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))


def publish(place: Path, after: Path | None = None) -> Path:
    """Sync a finished version and give it the next free number.

    With ``after`` it is published only if that is still the newest version (`NO_VERSION`: if there is none); else
    `SnapshotConflictError`.
    """
    for file in (*place.iterdir(), place):
        _sync(file)
    directory = place.parent
    while True:
        last = find_newest(directory) or directory / NO_VERSION
        if after is not None and last != after:
            raise _conflict(directory, after)
        target = directory / f"v{_number(last) + 1:06d}"
        try:
            os.rename(place, target)
        except OSError:
            if target.exists():  # another process was faster
                continue
            raise
        if after is not None and newest(directory) != target:
            # Others published this number and the next one, and pruned this one, since the look above.
            shutil.rmtree(target)
            raise _conflict(directory, after)
        _sync(directory)
        return target


def _number(version: Path) -> int:
    return int(version.name[1:])


def _conflict(directory: Path, after: Path) -> SnapshotConflictError:
    problem = f"another writer published a version after {after.name}; read the newest version and try again"
    return SnapshotConflictError(str(directory), problem)


class VersionLease:
    """Keeps `prune` from removing a version, as long as this object lives."""

    def __init__(self, version: Path) -> None:
        self._handle: int | None = None
        try:
            self._handle = os.open(version / MANIFEST, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise SnapshotError(str(version / MANIFEST), f"cannot be read: {error.strerror}") from error
        with suppress(OSError):  # a file system without locks: pruning is then the operator's business alone
            fcntl.flock(self._handle, fcntl.LOCK_SH)

    def __del__(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


def prune(directory: Path, *, keep: int = 2, needed: Iterable[str] = ()) -> list[str]:
    """Remove old versions; return their names.

    The newest ``keep`` versions are kept, those named in ``needed``, those whose files a kept version names, and those
    that are being read.
    """
    if keep < 1:
        raise SnapshotError(str(directory), "at least the newest version is kept: keep=1 or more")
    existing = versions(directory)
    kept = {version.name for version in existing[-keep:]} | set(needed)
    for version in reversed(existing):
        if version.name in kept or not _is_idle(version):
            kept |= {version.name} | read_manifest(version).homes()
    unneeded = [version for version in existing if version.name not in kept]
    for version in unneeded:
        hidden = version.with_name(f".pruned-{version.name}")
        os.rename(version, hidden)
        shutil.rmtree(hidden)
    return [version.name for version in unneeded]


def _is_idle(version: Path) -> bool:
    """Whether no process holds a lease."""
    with (version / MANIFEST).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
