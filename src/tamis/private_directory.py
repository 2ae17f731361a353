"""Directories of this user alone: what lies in them is executed or mapped, so no other user may have prepared it.

In a temporary directory that all users share, another user can create ``tamis-1000`` first. Every level below it is
therefore checked: a real directory, owned by this user, closed to all others. In a directory with the sticky bit such
a level cannot be replaced afterwards.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["is_guarded", "is_private", "private_directory"]


def private_directory(*names: str) -> Path:
    """Return the directory ``names`` of this user below the system's temporary one; it is made if it is absent.

    When another user owns a level of it, or can enter one, the path lies in a new directory instead, which is removed
    when this process ends.
    """
    path = Path(tempfile.gettempdir()) / f"tamis-{_user()}"
    for name in (None, *names):
        path = path / name if name else path
        if not _made_private(path):
            path = _own_directory().joinpath(*names)
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            break
    return path


def is_private(directory: Path) -> bool:
    """Return whether this is a directory, no link to one, of this user, and closed to all others."""
    try:
        status = os.lstat(directory)
    except OSError:
        return False
    owned = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and owned and not stat.S_IMODE(status.st_mode) & 0o077


def is_guarded(directory: Path) -> bool:
    """Return whether a directory is this user's, and only root besides can replace it or a directory on its path.

    Links are followed first. On the way, a directory that others can write to must have the sticky bit.
    """
    if not hasattr(os, "getuid"):
        return True
    real, mine = Path(os.path.realpath(directory)), os.getuid()
    try:
        levels = [os.stat(level) for level in (real, *real.parents)]
    except OSError:
        return False
    own, *above = levels
    is_closed = own.st_uid == mine and not own.st_mode & 0o022
    return is_closed and all(
        level.st_uid in (mine, 0) and (not level.st_mode & 0o022 or level.st_mode & stat.S_ISVTX) for level in above
    )


def _made_private(directory: Path) -> bool:
    """Make a directory, or find it made; return whether it is private."""
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        return is_private(directory)
    except OSError:
        return False
    return True


@cache
def _own_directory() -> Path:
    """Return a new directory that lives as long as this process."""
    directory = Path(tempfile.mkdtemp(prefix=f"tamis-{_user()}-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
