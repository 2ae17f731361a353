"""Numba kernels on arrays: arrays in, arrays out, no tamis classes, no allocation in the hot loops.

This package is the only one that imports numba. Importing it compiles nothing: a kernel is compiled at
its first call and then read from a cache on disk (0.02 s instead of seconds).

The cache needs a directory that can be written, and numba decides where it is when a kernel is
*decorated*; a read-only one raises at that moment, even if everything is already in it. So the
directory is chosen here, before numba is imported: ``NUMBA_CACHE_DIR`` if the user set it, else the
``__pycache__`` beside the kernels, else the user's cache directory, else a private directory under the
system's temporary one. If none can be written, kernels are compiled again in every process. Numba unpickles what it
finds in its cache, so a directory that another user owns or prepared is never used.

Numba checks only the file of a kernel, not the files of the functions it calls, to decide whether a cached
kernel is still valid. A directory that we choose therefore has a checksum of all kernel sources in its name,
so that an edited helper is never used with a stale caller.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tamis.private_directory import is_guarded, private_directory

__all__ = ["HOT_KERNEL", "KERNEL", "checksum_of_sources"]


def checksum_of_sources() -> str:
    """Return a checksum of the kernel sources as twelve hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.relative_to(Path(__file__).parent).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _candidates() -> Iterator[Path]:
    """Yield the directories in which compiled kernels may be kept, the best first."""
    configured = os.environ.get("NUMBA_CACHE_DIR")
    if configured:
        yield Path(configured)
    name = f"kernels-{checksum_of_sources()}"
    yield Path(__file__).parent / "__pycache__" / name
    user = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # there is no home directory
        yield (Path(user) if user else Path.home() / ".cache") / "tamis" / name
    yield private_directory(name)


def _is_writable(directory: Path) -> bool:
    """Whether a directory can be written, by trying: permission bits are wrong on read-only mounts.

    A directory that another user could replace is refused.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_guarded(directory):
            return False
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _choose_cache() -> bool:
    """Set numba's cache to the first directory that can be written; return whether there is one."""
    for directory in _candidates():
        if _is_writable(directory):
            os.environ["NUMBA_CACHE_DIR"] = str(directory)
            if "numba" in sys.modules:  # it read the environment before us
                sys.modules["numba"].config.CACHE_DIR = str(directory)
            return True
    return False


#: The options of every kernel. No ``fastmath``: a predicate on NaN must stay a predicate on NaN.
#: No C function either, which Numba would otherwise compile for each kernel beside the one that Python calls.
KERNEL: Final[dict[str, bool]] = {"cache": _choose_cache(), "nogil": True, "no_cfunc_wrapper": True}

#: For kernels that allocate nothing: without the run time's hidden reference counts, which otherwise
#: cost 30 to 60 ns for each inner call that takes an array.
HOT_KERNEL: Final[dict[str, bool]] = {**KERNEL, "_nrt": False}
