"""Whether the kernels of a job, or of a broker, are in the cache on disk, for this processor and these versions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numba
from llvmlite import binding as llvm

from tamis.kernels import KERNEL, checksum_of_sources

__all__ = ["mark_path"]


def mark_path(user: str = "job") -> Path | None:
    """Return the file that exists once the kernels of ``user`` are compiled; None when there is no cache."""
    if not KERNEL["cache"]:
        return None
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    name = f"compiled-{user}-{checksum_of_sources()}-{python}-numba{numba.__version__}-{llvm.get_host_cpu_name()}"
    return Path(os.environ["NUMBA_CACHE_DIR"]) / name
