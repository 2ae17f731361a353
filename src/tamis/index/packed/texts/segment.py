"""A segment: the literals of many entries in one automaton per view, and the entries posted under each literal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.text.automaton import Automaton, build_automaton
from tamis.kernels.text.propose import EntryColumns, Memo, Strings, keep_found
from tamis.kernels.text.scan import LANES, scan_rows

__all__ = ["Posting", "Segment"]

_Ints = npt.NDArray[np.int32]
_Points = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class Posting(NamedTuple):
    """An entry that is looked at when a view holds a literal, and its first open test; -1: it has none."""

    view: int
    literal: bytes
    entry: int
    test: int


class Segment:
    """Postings that never change; what their entries are, and which of them live, stands in the columns."""

    def __init__(self, postings: Iterable[Posting]) -> None:
        ordered = sorted(postings)
        self.n_postings = len(ordered)
        self._scanners = [_Scanner(view, list(some)) for view, some in groupby(ordered, key=lambda one: one.view)]

    def entries(self) -> _Ints:
        """Return the entries, each once, ascending."""
        return np.unique(np.concatenate([one.posted for one in self._scanners]))

    def keep(self, columns: EntryColumns, strings: Strings, points: _Points, memo: Memo) -> list[tuple[_Ints, _Ints]]:
        """Return rows and entries that are met; a pair may come twice."""
        return [one.keep(columns, strings, points, memo) for one in self._scanners]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(one.n_bytes for one in self._scanners)


class _Scanner:
    """The literals of one view."""

    def __init__(self, view: int, postings: list[Posting]) -> None:
        self._view = view
        literals = [literal for literal, _ in groupby(one.literal for one in postings)]
        counts = [sum(1 for _ in some) for _, some in groupby(one.literal for one in postings)]
        self._at = np.concatenate(([0], np.cumsum(counts)))
        self.posted = np.array([one.entry for one in postings], np.int32)
        self._first_test = np.array([one.test for one in postings], np.int32)
        self._automaton = _automaton_of(literals)
        #: Scratch of `scan_rows`, one for each reader that is at work.
        self._scratch: list[_Ints] = []

    def keep(self, columns: EntryColumns, strings: Strings, points: _Points, memo: Memo) -> tuple[_Ints, _Ints]:
        try:
            seen = self._scratch.pop()
        except IndexError:
            seen = np.full((LANES, len(self._at) - 1), -1, np.int32)
        hits = scan_rows(self._automaton, strings.text, strings.offsets[self._view], seen)
        self._scratch.append(seen)
        return keep_found(hits, (self._at, self.posted, self._first_test), columns, strings, self._view, points, memo)

    @property
    def n_bytes(self) -> int:
        arrays = [
            self._at,
            self.posted,
            self._first_test,
            *(one for one in self._automaton if isinstance(one, np.ndarray)),
        ]
        return sum(one.nbytes for one in arrays)


def _automaton_of(literals: list[bytes]) -> Automaton:
    """Return the automaton of sorted, different literals."""
    sizes = np.fromiter(map(len, literals), np.int64, len(literals))
    text = np.frombuffer(b"".join(literals), np.uint8)
    used = np.unique(text)
    classes = np.zeros(256, np.uint8)
    classes[used] = np.arange(1, len(used) + 1)
    width = len(used) + 1
    table, own, link = build_automaton(np.concatenate(([0], np.cumsum(sizes))), text, classes, width)
    return Automaton(classes, table, own, link, sizes, width, int(sizes.max()))
