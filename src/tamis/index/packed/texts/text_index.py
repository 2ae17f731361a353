"""The text index: entries found by the literals that their matches must hold.

New entries stand in a short tail that is looked at for every event. When the tail is long it becomes a segment
(`segment`), which takes in the segments before it that are not twice as large: there are few segments, and an entry
moves to a new one a few times only. An entry without a literal is looked at for every event: one kernel call for all.

One thread writes. A reader takes `snapshot` and works on it to the end.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.packed.texts.choosing import SELECTIVE, KeyColumns, TextLengths
from tamis.index.packed.texts.entries import NewEntry, TextEntries, TextKey, TextTest
from tamis.index.packed.texts.literals import Anchor, Group, LiteralKey
from tamis.index.packed.texts.programs import program_of, says_only, view_fold
from tamis.index.packed.texts.segment import TextSegment
from tamis.index.packed.texts.strings import View
from tamis.index.packed.texts.trees import SideStep, TextStep, TreeStep
from tamis.index.saved_arrays import SavedArrays
from tamis.kernels.text.propose import EntryColumns, Memo, Strings, keep_all
from tamis.model.subscription import Like
from tamis.model.text.folding import Fold

__all__ = ["EntryProposals", "TextIndex", "TextPart", "TextSnapshot"]

_Ints = npt.NDArray[np.int32]
_Points = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

#: Entries that are looked at for every event before they become a segment: about 3 us.
TAIL: Final = 32
#: Tests and steps of these together: a rule may have hundreds.
TAIL_TESTS: Final = 256

#: Counters of how often a key is used; two keys may share one.
_COUNTERS: Final = 1 << 13

#: Entries that share a key from which on a box with sides finds them better.
CROWDED: Final = 256

#: Doublings of its use that a literal at an end of the text is worth against one anywhere in it: a text has about a
#: hundred places for that one, and it takes a scan to find it.
_ANYWHERE: Final = 5

#: Groups of keys that are kept of an entry, those of one attribute, and the keys of a group that is not the best.
_MOST_GROUPS: Final = 4
_MOST_OF_ATTRIBUTE: Final = 2
_MOST_KEYS: Final = 16


class TextPart(NamedTuple):
    """What a filter says about text: groups of keys, patterns and a tree to decide, whether nothing else is left."""

    groups: Sequence[Group]
    likes: Sequence[Like]
    is_all: bool
    steps: Sequence[TreeStep] = ()


class EntryProposals(NamedTuple):
    """Pairs of row and entry number, each once; ``sure`` where an event that is a point matches."""

    rows: _Ints
    entries: _Ints
    sure: npt.NDArray[np.bool_]


class _Memos:
    """Answers of tests, one set for each reader that is at work."""

    def __init__(self) -> None:
        self._free: list[Memo] = []

    def take(self, n_tests: int) -> Memo:
        """Return a memo with room for all tests, which no other reader has."""
        try:
            memo = self._free.pop()
        except IndexError:
            memo = Memo(np.zeros(0, np.int64), np.zeros(256, np.uint64), 1)
        if len(memo.answers) >= n_tests:
            return memo
        return Memo(np.zeros(max(64, 2 * n_tests), np.int64), memo.masks, 1)

    def give_back(self, memo: Memo, n_rows: int) -> None:
        """Take a memo back after a table of ``n_rows`` rows."""
        self._free.append(memo._replace(epoch=memo.epoch + n_rows))


class TextSnapshot(NamedTuple):
    """What a reader sees."""

    views: Sequence[View]
    segments: Sequence[TextSegment]
    #: Entries that are looked at for every event.
    unposted: _Ints
    columns: EntryColumns
    number: _Ints
    sure: npt.NDArray[np.bool_]
    memos: _Memos
    keys: KeyColumns
    lengths: TextLengths

    def propose(self, strings: Strings, points: _Points) -> EntryProposals:
        """Return the entries that events may match: their strings in all views, their points on all axes."""
        self.lengths.note(strings)
        for segment in self.segments:
            segment.look(self.keys, self.lengths)
        memo = self.memos.take(len(self.columns.tests.views))
        pairs = [pair for segment in self.segments for pair in segment.keep(self.columns, strings, points, memo)]
        if len(self.unposted):
            pairs.append(keep_all(self.unposted, self.columns, strings, points, memo))
        self.memos.give_back(memo, len(points[0]))
        rows, entries = pairs[0] if pairs else (_NONE, _NONE)
        if len(pairs) > 1:
            rows, entries = (np.concatenate(column) for column in zip(*pairs, strict=True))
        keys = rows.astype(np.int64) << 32 | entries
        if len(keys) > 1:
            keys = np.unique(keys)
        entries = keys & 0xFFFFFFFF
        return EntryProposals((keys >> 32).astype(np.int32), self.number[entries], self.sure[entries])


_NONE = np.zeros(0, np.int32)


class TextIndex:
    """Entries by the literals of their patterns. See the module's text."""

    def __init__(self) -> None:
        self._entries = TextEntries()
        self._views: dict[View, int] = {}
        self._segments: list[TextSegment] = []
        self._unposted = _NONE
        self._tail = _NONE
        self._tail_tests = 0
        self._usage = np.zeros(_COUNTERS, np.int32)
        self._memos = _Memos()
        self._lengths = TextLengths()
        self.snapshot = self._taken()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._entries["living"]))

    def wants(self, part: TextPart, *, has_sides: bool) -> bool:
        """Whether a filter is found better here than by its box; ``has_sides``: the box says more than "present"."""
        if not part.groups:
            likes = [*part.likes, *(s.condition.like for s in part.steps if isinstance(s.condition, TextStep))]
            return not has_sides and any(program_of(like) is not None for like in likes)
        if not has_sides:
            return True
        group = self._rarest(part.groups)
        return _length(group) >= SELECTIVE and max(self._usage[_counter(key)] for key in group) < CROWDED

    def add(
        self,
        numbers: Sequence[int],
        parts: Sequence[TextPart],
        boxes: Sequence[Mapping[int, Any]],
        presence: Mapping[int, str],
    ) -> None:
        """Add entries under numbers above all others, ascending, with the sides of their boxes by axis.

        ``presence`` names the attribute of each axis that says nothing but whether there is a value.
        """
        new = [self._new(*fields, presence) for fields in zip(numbers, parts, boxes, strict=True)]
        positions = np.array(self._entries.append(new), np.int32)
        posted = self._entries.has_keys(positions)
        self._unposted = np.concatenate((self._unposted, positions[~posted]))
        self._tail = np.concatenate((self._tail, positions[posted]))
        self._tail_tests += sum(len(entry.tests) + len(entry.steps) for entry in new)
        if len(self._tail) > TAIL or (len(self._tail) and self._tail_tests > TAIL_TESTS):
            self._make_segment()
            self._tail_tests = 0
        self.snapshot = self._taken()

    def remove(self, numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Remove the entries among these numbers that are here; return those numbers."""
        positions = self._entries.find(numbers)
        if len(positions):
            self._entries.remove(positions)
            self.snapshot = self._taken()
        return np.asarray(self._entries["number"][positions])

    def decides(self, numbers: _Ints) -> npt.NDArray[np.bool_]:
        """Say of each of some numbers, ascending, whether its entry is here and nothing else is left to decide."""
        positions = self._entries.find(numbers)
        return np.isin(numbers, self._entries["number"][positions[self._entries["sure"][positions]]])

    def numbers(self) -> _Ints:
        """Return the numbers of the living entries, ascending."""
        return np.asarray(self._entries["number"][self._entries["living"] == 1])

    @property
    def attributes(self) -> list[str]:
        """The attributes whose strings are looked at."""
        return [name for name, _ in self._views]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return self._entries.n_bytes + sum(segment.n_bytes for segment in self._segments) + self._usage.nbytes

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the entries and the names of the views; segments are built again."""
        arrays = self._entries.to_arrays()
        for i, (name, fold) in enumerate(self._views):
            arrays[f"views.{i}"] = np.frombuffer(f"{fold.value}{name}".encode(), np.uint8)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, n_numbers: int, n_axes: int) -> TextIndex:
        """Open entries, checked, that may be read-only, and post them."""
        index = cls()
        if not len(arrays):  # saved before there was a text index
            return index
        if "mode" not in arrays:
            arrays.refuse_all("text of an earlier layout of format 3: convert it with: tamis migrate OLD NEW_DIRECTORY")
        names = arrays.under("views.")
        for i in range(sum(1 for _ in names)):
            text = names.text(str(i))
            if text[:1] not in ("0", "1", "2", "3"):
                arrays.refuse(f"views.{i}", "does not start with what is ignored in the text")
            index._views[text[1:], Fold(int(text[0]))] = i
        index._entries = TextEntries.from_arrays(arrays, n_numbers, n_axes, len(index._views))
        positions = np.arange(len(index._entries), dtype=np.int32)
        posted = index._entries.has_keys(positions)
        index._unposted, index._tail = positions[~posted], positions[posted]
        if len(index._tail) > TAIL:
            index._make_segment()
        index.snapshot = index._taken()
        return index

    def _new(self, number: int, part: TextPart, sides: Mapping[int, Any], presence: Mapping[int, str]) -> NewEntry:
        tests, is_all = list[TextTest](), part.is_all
        tested: set[str] = set()
        for like in part.likes:
            program = program_of(like)
            if program is None:
                is_all = False
                continue
            tests.append((self._view(like.attribute, view_fold(like)), program, int(like.negated)))
            tested.add(like.attribute)
        tests.sort(key=lambda test: _cost(test[1]))
        steps = self._steps(part.steps)
        if steps is None:
            steps, is_all = [], False
        # A string that meets a test is present: no side has to require it.
        sides = {axis: ends for axis, ends in sides.items() if presence.get(axis) not in tested}
        if sides and part.groups:
            for key in self._rarest(part.groups):
                self._usage[_counter(key)] += 1
        groups = [self._posted(group, tests) for group in _promising(part.groups)]
        return NewEntry(number, sides, tests, groups, is_all, steps)

    def _posted(self, group: Group, tests: Sequence[TextTest]) -> tuple[list[TextKey], TextTest | None]:
        """Return the keys of a group, and the test that its only key decides."""
        keys = [(self._view(key.attribute, key.fold), key.anchor, key.literal) for key in group]
        return keys, next((test for test in tests if len(keys) == 1 and _decides(keys[0], test)), None)

    def _steps(self, steps: Sequence[TreeStep]) -> list[tuple[TextTest | SideStep, int, int]] | None:
        """Return steps for columns; None when no kernel can take them."""
        written: list[tuple[TextTest | SideStep, int, int]] = []
        for condition, yes, no in steps:
            if isinstance(condition, SideStep):
                written.append((condition, yes, no))
                continue
            program = program_of(condition.like)
            if program is None:
                return None
            view = self._view(condition.like.attribute, view_fold(condition.like))
            written.append(((view, program, condition.like.negated + condition.or_missing), yes, no))
        return written

    def _view(self, attribute: str, fold: Fold) -> int:
        return self._views.setdefault((attribute, fold), len(self._views))

    def _rarest(self, groups: Sequence[Group]) -> Group:
        """Return the group that is found least often, as far as one can tell without events; there is at least one.

        A literal that many entries use is common; one at an end of a text is rarer than one anywhere in it. Among
        equals the longest literal is the rarest.
        """
        return min(groups, key=lambda group: (_length(group) < SELECTIVE, self._frequency(group), -_length(group)))

    def _frequency(self, group: Group) -> int:
        return max(
            int(self._usage[_counter(key)]).bit_length() + (key.anchor is Anchor.NONE) * _ANYWHERE for key in group
        )

    def _make_segment(self) -> None:
        entries = self._tail
        while self._segments and len(self._segments[-1].entries) < 2 * len(entries):
            entries = np.concatenate((self._segments.pop().entries, entries))
        living = entries[self._entries["living"][entries] == 1]
        if len(living):
            self._segments.append(TextSegment(living, self._entries.key_columns(), len(self._views), self._lengths))
        self._tail = _NONE

    def _taken(self) -> TextSnapshot:
        entries = self._entries
        return TextSnapshot(
            tuple(self._views),
            tuple(self._segments),
            np.concatenate((self._unposted, self._tail)),
            entries.kernel_columns(),
            entries["number"],
            entries["sure"],
            self._memos,
            entries.key_columns(),
            self._lengths,
        )


def _counter(key: LiteralKey) -> int:
    return zlib.crc32(key.literal, key.anchor) % _COUNTERS


def _decides(key: TextKey, test: TextTest) -> bool:
    """Whether a test holds wherever a key is found."""
    key_view, anchor, literal = key
    view, program, mode = test
    return mode == 0 and key_view == view and says_only(program, literal, anchor)


def _promising(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups among which keys are chosen: few, and of different attributes as far as possible."""
    if len(groups) <= _MOST_OF_ATTRIBUTE:
        return groups
    chosen: list[Group] = []
    uses = Counter[str]()
    for group in sorted(groups, key=_promise):
        uses[group[0].attribute] += 1
        if not chosen or (uses[group[0].attribute] <= _MOST_OF_ATTRIBUTE and len(group) <= _MOST_KEYS):
            chosen.append(group)
    return chosen[:_MOST_GROUPS]


def _promise(group: Group) -> tuple[bool, bool, int]:
    length = _length(group)
    return length < SELECTIVE, any(key.anchor is Anchor.NONE for key in group), -length


def _length(group: Group) -> int:
    return min(len(key.literal) for key in group)


def _cost(program: bytes) -> int:
    """Return what a program costs, roughly: pieces that must be looked for, not those at an end."""
    return program.count(0xFE) if program[-1:] == b"\xfe" or (program[:1] == b"\xfe" and program.count(0xFE) > 1) else 0
