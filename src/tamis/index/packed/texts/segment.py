"""A segment: the literals of many entries with a finder for each view and end, and the entries under each literal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.packed.texts.finders import Literals, finder_of
from tamis.index.packed.texts.literals import Anchor
from tamis.kernels.text.propose import EntryColumns, Memo, Strings, keep_found

__all__ = ["Postings", "Segment"]

_Ints = npt.NDArray[np.int32]
_Points = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class Postings(NamedTuple):
    """Entries that are looked at when a view holds a literal, or has it at an end, and their first open test.

    A literal is a number, its first byte highest, and a length; a test of -1 says that an entry has none.
    """

    view: _Ints
    anchor: npt.NDArray[np.uint8]
    value: npt.NDArray[np.uint64]
    size: npt.NDArray[np.int64]
    entry: _Ints
    test: _Ints

    def part(self, some: slice | npt.NDArray[np.int64]) -> Postings:
        """Return some of the postings."""
        view, anchor, value, size, entry, test = self
        return Postings(view[some], anchor[some], value[some], size[some], entry[some], test[some])


class Segment:
    """Postings that never change; what their entries are, and which of them live, stands in the columns."""

    def __init__(self, postings: Postings) -> None:
        ordered = postings.part(
            np.lexsort((postings.entry, postings.size, postings.value, postings.anchor, postings.view))
        )
        self.n_postings = len(ordered.entry)
        begins = _begins(ordered.view, ordered.anchor)
        spans = zip(begins, [*begins[1:], self.n_postings], strict=True)
        self._scanners = [_Scanner(ordered.part(slice(start, stop))) for start, stop in spans]

    def entries(self) -> _Ints:
        """Return the entries, each once, ascending."""
        return np.unique(np.concatenate([scanner.posted for scanner in self._scanners]))

    def keep(self, columns: EntryColumns, strings: Strings, points: _Points, memo: Memo) -> list[tuple[_Ints, _Ints]]:
        """Return rows and entries that are met; a pair may come twice."""
        return [scanner.keep(columns, strings, points, memo) for scanner in self._scanners]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(scanner.n_bytes for scanner in self._scanners)


class _Scanner:
    """The literals of one view, anywhere in it or at one end."""

    def __init__(self, postings: Postings) -> None:
        self._view = int(postings.view[0])
        begins = _begins(postings.value, postings.size)
        self._at = np.append(begins, len(postings.entry))
        self.posted = postings.entry
        self._first_test = postings.test
        literals = Literals(postings.value[begins], postings.size[begins])
        self._finder = finder_of(literals, Anchor(int(postings.anchor[0])))

    def keep(self, columns: EntryColumns, strings: Strings, points: _Points, memo: Memo) -> tuple[_Ints, _Ints]:
        hits = self._finder.find(strings.text, strings.offsets[self._view])
        return keep_found(hits, (self._at, self.posted, self._first_test), columns, strings, self._view, points, memo)

    @property
    def n_bytes(self) -> int:
        return self._at.nbytes + self.posted.nbytes + self._first_test.nbytes + self._finder.n_bytes


def _begins(*columns: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """Return where rows of sorted columns differ from the row before."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)
