"""Equal tests get one number: a hash table over the columns that hold them, 8 to 16 bytes for each test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tamis.kernels.text.interning import StoredTests, enter_tests, find_tests

__all__ = ["InternedTests"]


class InternedTests:
    """Numbers of tests by what they say. The columns are the caller's; the table is made of them when it is needed."""

    def __init__(self) -> None:
        self._slots = np.full(64, -1, np.int32)
        self._entered = 0

    def find(self, tests: Sequence[tuple[int, bytes, int]], stored: StoredTests) -> list[int]:
        """Return the number of each test among the stored ones; -1 where it is new."""
        self.add(stored)
        sizes = np.fromiter((len(program) for _, program, _ in tests), np.int64, len(tests))
        packed = StoredTests(
            np.fromiter((view for view, _, _ in tests), np.int32, len(tests)),
            np.fromiter((mode for _, _, mode in tests), np.uint8, len(tests)),
            np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
            np.frombuffer(b"".join(program for _, program, _ in tests), np.uint8).copy(),
        )
        numbers: list[int] = find_tests(self._slots, _writable(stored), packed).tolist()
        return numbers

    def add(self, stored: StoredTests) -> None:
        """Take in the tests that were stored since."""
        n = len(stored.views)
        if n == self._entered:
            return
        if 2 * n > len(self._slots):
            self._slots = np.full(1 << (4 * n - 1).bit_length(), -1, np.int32)
            self._entered = 0
        enter_tests(self._slots, _writable(stored), self._entered)
        self._entered = n


def _writable(stored: StoredTests) -> StoredTests:
    """Return columns that are not read-only: kernels are compiled for one kind."""
    return StoredTests(
        np.require(stored.views, requirements="W"),
        np.require(stored.modes, requirements="W"),
        np.require(stored.program_at, requirements="W"),
        np.require(stored.program, requirements="W"),
    )
