"""Kernels of several processes share a cache, so what they are called inside it must not depend on the process.

Numba tells functions with one qualified name and one signature apart by a number that it counts in each process. A
kernel from the cache is linked with those compiled here: if two functions share a name, one process may have given
this number to the first and another process to the second, and the linker takes either for both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tamis.kernels import emit

KERNELS = """
import numpy as np
from tamis.kernels.compile import hot_kernel, inline_kernel
from tamis.kernels.emit import int64_at, uint16_at

@inline_kernel
def narrow(address):
    return np.int64(uint16_at(address, 0))

@inline_kernel
def wide(address):
    return int64_at(address, 0)

@hot_kernel
def only_narrow(address):
    return narrow(address)

@hot_kernel
def only_wide(address):
    return wide(address)

@hot_kernel
def difference(address):
    return wide(address) - narrow(address)

number = np.array([0x123456789ABCDEF])
address = number.ctypes.data
"""


def run(directory: Path, call: str) -> int:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(directory / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    script = f"import sys; sys.path.insert(0, {str(directory)!r})\nimport some_kernels as k\nprint(k.{call}(k.address))"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_kernels_of_two_processes_mean_the_same(tmp_path: Path) -> None:
    """One process numbers the reader of uint16 as another one numbers that of int64; a third links both."""
    (tmp_path / "some_kernels.py").write_text(KERNELS)
    assert run(tmp_path, "only_narrow") == 0xCDEF
    assert run(tmp_path, "only_wide") == 0x123456789ABCDEF
    assert run(tmp_path, "difference") == 0x123456789ABCDEF - 0xCDEF


def test_readers_of_numbers_have_names_of_their_own() -> None:
    readers = [getattr(emit, name) for name in emit.__all__ if name.endswith("_at")]
    names = {reader.__qualname__ for reader in readers}
    assert len(names) == len(readers) == 7
    number = np.array([1, 2, 3], np.int32)
    assert emit.int32_at(number.ctypes.data, 2) == 3
