"""A hash table of tests (view, mode, program): open addressing over the columns that hold them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, kernel

__all__ = ["StoredTests", "enter_tests", "find_tests"]

_Ints = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]


class StoredTests(NamedTuple):
    """Tests in columns: view, mode and program of each."""

    views: _Ints
    modes: _Bytes
    program_at: npt.NDArray[np.int64]
    program: _Bytes


@hot_kernel
def _hash(tests: StoredTests, i: Int) -> Int:
    """Return a hash (FNV-1a) of a test."""
    value = np.uint64(0xCBF29CE484222325) ^ np.uint64(tests.views[i] * 4 + tests.modes[i])
    for p in range(tests.program_at[i], tests.program_at[i + 1]):
        value = (value ^ np.uint64(tests.program[p])) * np.uint64(0x100000001B3)
    return np.int64((value ^ (value >> np.uint64(32))) & np.uint64(0x7FFFFFFF))


@hot_kernel
def _are_equal(a: StoredTests, i: Int, b: StoredTests, j: Int) -> Int:
    size, begin, other_begin = a.program_at[i + 1] - a.program_at[i], a.program_at[i], b.program_at[j]
    if a.views[i] != b.views[j] or a.modes[i] != b.modes[j] or b.program_at[j + 1] - other_begin != size:
        return False
    k = 0
    while k < size and a.program[begin + k] == b.program[other_begin + k]:
        k += 1
    return k == size


@kernel
def find_tests(slots: _Ints, stored: StoredTests, tests: StoredTests) -> _Ints:
    """Return the number of each test among those stored and entered in ``slots`` (a power of two); else -1."""
    numbers = np.full(len(tests.views), -1, np.int32)
    for i in range(len(numbers)):
        slot = _hash(tests, i) & (len(slots) - 1)
        while slots[slot] >= 0:
            if _are_equal(stored, slots[slot], tests, i):
                numbers[i] = slots[slot]
                break
            slot = (slot + 1) & (len(slots) - 1)
    return numbers


@kernel
def enter_tests(slots: _Ints, stored: StoredTests, first: Int) -> None:
    """Enter the stored tests from ``first`` on; at least half of the slots stay free."""
    for i in range(first, len(stored.views)):
        slot = _hash(stored, i) & (len(slots) - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = i
