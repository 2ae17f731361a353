"""A segment: the literals of many entries with a finder for each view and end, and the entries under each literal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tamis.index.packed.texts.choosing import KeyColumns, Postings, TextLengths, chosen_postings
from tamis.index.packed.texts.finders import Literals, finder_of
from tamis.index.packed.texts.literals import Anchor
from tamis.kernels.text.propose import EntryColumns, Memo, Strings, keep_found

__all__ = ["TextSegment"]

_Ints = npt.NDArray[np.int32]
_Points = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

#: By how much the mean length of a view's texts has to differ from what was assumed for keys to be chosen again.
_DIFFERENCE = 1.5


class TextSegment:
    """Entries that never change, posted under keys; which of them live stands in the columns.

    Keys are chosen again when texts turn out to be shorter or longer than assumed. That is seen when events are
    matched, and the reader that sees it does the work; other readers go on with the keys of before.
    """

    def __init__(self, entries: _Ints, keys: KeyColumns, n_views: int, lengths: TextLengths) -> None:
        self.entries = entries
        #: Empty while a reader chooses: taking the token is one step.
        self._tokens = [True]
        self._looks, self._assumed = lengths.looks, lengths.means(n_views)
        self._scanners = _scanners(chosen_postings(keys, entries, self._assumed))

    def look(self, keys: KeyColumns, lengths: TextLengths) -> None:
        """Choose keys again if the lengths of texts are known better than before, and differ."""
        if self._looks == lengths.looks:
            return
        try:
            token = self._tokens.pop()
        except IndexError:
            return
        try:
            self._looks = lengths.looks
            means = lengths.means(len(self._assumed))
            ratio = (means + 1.0) / (self._assumed + 1.0)
            if max(ratio.max(), 1.0 / ratio.min()) > _DIFFERENCE:
                self._assumed = means
                self._scanners = _scanners(chosen_postings(keys, self.entries, means))
        finally:
            self._tokens.append(token)

    def keep(self, columns: EntryColumns, strings: Strings, points: _Points, memo: Memo) -> list[tuple[_Ints, _Ints]]:
        """Return rows and entries that are met; a pair may come twice.

        A literal is not empty, so views without text need no scanner: of the hundreds of fields that a set of rules
        may name, an event has a dozen.
        """
        has_text = (strings.offsets[:, -1] > strings.offsets[:, 0]).tolist()
        return [scanner.keep(columns, strings, points, memo) for scanner in self._scanners if has_text[scanner.view]]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.entries.nbytes + sum(scanner.n_bytes for scanner in self._scanners)


def _scanners(postings: Postings) -> Sequence[_Scanner]:
    ordered = postings.part(np.lexsort((postings.entry, postings.size, postings.value, postings.anchor, postings.view)))
    begins = _begins(ordered.view, ordered.anchor)
    spans = zip(begins, [*begins[1:], len(ordered.entry)], strict=True)
    return [_Scanner(ordered.part(slice(start, stop))) for start, stop in spans]


class _Scanner:
    """The literals of one view, anywhere in it or at one end."""

    def __init__(self, postings: Postings) -> None:
        self.view = int(postings.view[0])
        begins = _begins(postings.value, postings.size)
        self._at = np.append(begins, len(postings.entry))
        self._posted, self._first_test = postings.entry, postings.test
        self._says = np.maximum.reduceat(postings.says, begins)
        literals = Literals(postings.value[begins], postings.size[begins])
        self._finder = finder_of(literals, Anchor(int(postings.anchor[0])))

    def keep(self, columns: EntryColumns, strings: Strings, points: _Points, memo: Memo) -> tuple[_Ints, _Ints]:
        hits = self._finder.find(strings.text, strings.offsets[self.view])
        postings = self._at, self._posted, self._first_test, self._says
        return keep_found(hits, postings, columns, strings, self.view, points, memo)

    @property
    def n_bytes(self) -> int:
        postings = self._at, self._posted, self._first_test, self._says
        return sum(array.nbytes for array in postings) + self._finder.n_bytes


def _begins(*columns: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """Return where rows of sorted columns differ from the row before."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)
