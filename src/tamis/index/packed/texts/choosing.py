"""Which of its required literals each entry is looked for by: chosen for many entries at once, by what texts cost.

An entry may be found by any of its groups of keys (`literals`). A key costs what it is expected to propose: more the
more entries use it, and, for a literal anywhere in a text, the longer the texts of its view are. A view that is
scanned for literals costs time for every byte as well, so it is given up where its entries are found about as well
elsewhere.

How long texts are is learned from events (`TextLengths`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.packed.texts.literals import LONGEST, Anchor
from tamis.kernels.text.propose import Strings

__all__ = ["SELECTIVE", "KeyColumns", "Postings", "TextLengths", "chosen_postings"]

_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]

#: Mean length of a view's texts before events are known.
_USUAL_LENGTH: Final = 96.0

#: Events after which lengths are looked at for the first time; four times as many for each further time.
_FIRST_LOOK: Final = 256

#: What a key at an end of a text costs in places of a text where a literal may stand.
_PLACES: Final = 3.0

#: Bytes of a literal from which on it is worth a look whatever else is known, and what a shorter one costs.
SELECTIVE: Final = 3
_SHORT: Final = 1024.0

#: What scanning costs per byte, in units of what an entry under a key at an end of the text costs.
_SCAN: Final = 300.0


class KeyColumns(NamedTuple):
    """The groups of entry e are ``group_at[e]:group_at[e + 1]``, their keys ``posting_at[g]:posting_at[g + 1]``.

    ``says[g]`` is the test that holds wherever the only key of a group is found, or -1.
    """

    living: npt.NDArray[np.uint8]
    group_at: _Longs
    says: _Ints
    posting_at: _Longs
    key_view: _Ints
    key_anchor: npt.NDArray[np.uint8]
    key_at: _Longs
    key: npt.NDArray[np.uint8]
    test_at: _Longs
    test: _Ints


class Postings(NamedTuple):
    """Entries that are looked at when a view holds a literal, or has it at an end, and their first open test.

    A literal is a number, its first byte highest, and a length; a test of -1 says that an entry has none. ``says`` is
    the test that the literal decides, or -1.
    """

    view: _Ints
    anchor: npt.NDArray[np.uint8]
    value: npt.NDArray[np.uint64]
    size: _Longs
    entry: _Ints
    test: _Ints
    says: _Ints

    def part(self, some: slice | npt.NDArray[Any]) -> Postings:
        """Return some of the postings."""
        return Postings._make(column[some] for column in self)


class TextLengths:
    """The mean length of the texts of each view, over the events seen; readers may note at the same time."""

    def __init__(self) -> None:
        self._bytes = np.zeros(0, np.float64)
        self._rows = 0
        self._next_look = _FIRST_LOOK
        #: Grows when enough further events were seen for another look.
        self.looks = 0

    def note(self, strings: Strings) -> None:
        """Take in the strings of events."""
        lengths = strings.offsets[:, -1] - strings.offsets[:, 0]
        if len(self._bytes) < len(lengths):
            self._bytes = np.append(self._bytes, np.zeros(len(lengths) - len(self._bytes)))
        self._bytes[: len(lengths)] += lengths
        self._rows += strings.offsets.shape[1] - 1
        while self._rows >= self._next_look:
            self._next_look *= 4
            self.looks += 1

    def means(self, n_views: int) -> _Floats:
        """Return the mean length for each view."""
        if not self.looks:
            return np.full(n_views, _USUAL_LENGTH)
        measured = self._bytes[:n_views] / self._rows
        return np.append(measured, np.full(n_views - len(measured), _USUAL_LENGTH))


class _Keys(NamedTuple):
    """The keys of groups, in the order of the groups."""

    view: _Ints
    anchor: npt.NDArray[np.uint8]
    value: npt.NDArray[np.uint64]
    size: _Longs


def chosen_postings(columns: KeyColumns, entries: _Ints, lengths: _Floats) -> Postings:
    """Return the postings of the living among some entries, all of which have keys, each under its cheapest group."""
    living = entries[columns.living[entries] == 1]
    groups, group_starts = _expanded(columns.group_at, living)
    keys = _keys(columns, groups)
    key_starts = np.append(0, np.cumsum(np.diff(columns.posting_at)[groups]))[:-1]
    if not len(living):
        return _postings(columns, living, groups[:0])
    costs = np.add.reduceat(_costs(keys, lengths), key_starts)
    for view in sorted(np.unique(keys.view).tolist(), key=lambda view: -float(lengths[view])):
        is_scanned = (keys.view == view) & (keys.anchor == Anchor.NONE)
        others = np.where(np.logical_or.reduceat(is_scanned, key_starts), np.inf, costs)
        more = np.minimum.reduceat(others, group_starts).sum() - np.minimum.reduceat(costs, group_starts).sum()
        if more < _SCAN * lengths[view]:
            costs = others
    counts = np.diff(np.append(group_starts, len(groups)))
    is_best = np.flatnonzero(costs == np.repeat(np.minimum.reduceat(costs, group_starts), counts))
    best = is_best[np.searchsorted(is_best, group_starts)]
    return _postings(columns, living, groups[best])


def _postings(columns: KeyColumns, entries: _Ints, groups: _Longs) -> Postings:
    """Return the postings of entries under a group each."""
    keys = _keys(columns, groups)
    counts = np.diff(columns.posting_at)[groups]
    says = columns.says[groups]
    tests = np.append(columns.test, np.int32(-1))
    at = columns.test_at[entries]
    at = at + ((tests[at] == says) & (says >= 0))
    first = tests[np.where(at < columns.test_at[entries + 1], at, -1)]
    return Postings(*keys, *(np.repeat(column, counts) for column in (entries, first, says)))


def _keys(columns: KeyColumns, groups: _Longs) -> _Keys:
    keys, _ = _expanded(columns.posting_at, groups)
    starts, sizes = columns.key_at[keys], np.diff(columns.key_at)[keys]
    values, text = np.zeros(len(keys), np.uint64), np.append(columns.key, np.zeros(LONGEST, np.uint8))
    for i in range(LONGEST):
        values = values << np.uint64(8) | np.where(i < sizes, text[starts + i], 0).astype(np.uint64)
    return _Keys(columns.key_view[keys], columns.key_anchor[keys], values, sizes)


def _costs(keys: _Keys, lengths: _Floats) -> _Floats:
    """Return what each key costs; among equals the longest literal is the rarest."""
    order = np.lexsort((keys.size, keys.value, keys.anchor, keys.view))
    differs = np.ones(len(order), np.bool_)
    differs[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in keys])
    number = np.cumsum(differs) - 1
    uses = np.empty(len(order), np.float64)
    uses[order] = np.bincount(number)[number]
    places = np.where(keys.anchor == Anchor.NONE, np.maximum(1.0, lengths[keys.view] / _PLACES), 1.0)
    rarity = np.where(keys.size < SELECTIVE, _SHORT, 1.0) * (1.0 + 0.01 * (LONGEST - keys.size))
    return np.asarray(uses * places * rarity)


def _expanded(at: _Longs, some: npt.NDArray[Any]) -> tuple[_Longs, _Longs]:
    """Return the members of some ranges ``at[i]:at[i + 1]``, joined, and where those of each begin."""
    first, counts = at[some], at[some + 1] - at[some]
    starts = np.cumsum(counts) - counts
    return np.repeat(first - starts, counts) + np.arange(counts.sum()), starts
