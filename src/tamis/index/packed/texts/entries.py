"""What is left to decide for each entry of the text index, in columns that grow.

An entry has a number in the store (``number``), the sides of its box, tests of text, steps of a tree (`trees`), and the
keys under which it is posted. ``sure`` says that they decide; otherwise they only propose. Equal tests are shared
(`interning`): what one entry has asked of a row, another need not ask again.
Columns below their length never change, but for ``living``, and are replaced when they are full: readers keep theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.index.packed.arrays import Growing
from tamis.index.packed.texts.choosing import KeyColumns
from tamis.index.packed.texts.interning import InternedTests
from tamis.index.packed.texts.literals import LONGEST, Anchor
from tamis.index.packed.texts.trees import ACCEPT, REJECT, SideStep
from tamis.index.saved_arrays import Ascending, Below, Declared, Flags, Offsets, SavedArrays, Size
from tamis.kernels.text.interning import StoredTests
from tamis.kernels.text.propose import EntryColumns, TextTreeColumns

__all__ = ["NewEntry", "TextEntries", "TextKey", "TextTest"]

_Array = npt.NDArray[Any]

_TYPES: Final = {
    "number": np.int32,
    "sure": np.bool_,
    "living": np.uint8,
    "side_at": np.int64,
    "axis": np.int32,
    "low": np.float64,
    "high": np.float64,
    "test_at": np.int64,
    "test": np.int32,
    "test_view": np.int32,
    "mode": np.uint8,
    "step_at": np.int64,
    "step": np.int32,
    "yes": np.int32,
    "no": np.int32,
    "choice_axis": np.int32,
    "choice_low": np.float64,
    "choice_high": np.float64,
    "choice_not": np.uint8,
    "program_at": np.int64,
    "program": np.uint8,
    "group_at": np.int64,
    "says": np.int32,
    "posting_at": np.int64,
    "key_view": np.int32,
    "key_anchor": np.uint8,
    "key_at": np.int64,
    "key": np.uint8,
}

#: Columns of offsets, which start with 0.
_OFFSETS: Final = ("side_at", "test_at", "step_at", "program_at", "group_at", "posting_at", "key_at")

#: A test of text: the number of a view, a program, and its mode (`tamis.kernels.text.propose`).
TextTest = tuple[int, bytes, int]

#: The number of a view, where in it a literal stands, and the literal.
TextKey = tuple[int, Anchor, bytes]


class NewEntry(NamedTuple):
    """An entry to be added: views are numbers. Without ``groups`` of keys it has to be looked at for every event."""

    number: int
    sides: Mapping[int, tuple[float, float]]
    tests: Sequence[TextTest]
    #: Keys of which every match holds one, and the test that holds whenever the only key is found.
    groups: Sequence[tuple[Sequence[TextKey], TextTest | None]]
    sure: bool
    #: Steps of a tree: a test of text or a side, and where to go on.
    steps: Sequence[tuple[TextTest | SideStep, int, int]] = ()


class TextEntries:
    """The entries of the text index, by position."""

    def __init__(self, columns: Mapping[str, _Array] | None = None) -> None:
        own = columns or {name: np.zeros(1 if name in _OFFSETS else 0, dtype) for name, dtype in _TYPES.items()}
        self._columns = {name: Growing(own[name]) for name in _TYPES}
        self._interned = InternedTests()

    def __len__(self) -> int:
        return self._columns["number"].n

    def __getitem__(self, name: str) -> _Array:
        return self._columns[name].values

    def append(self, entries: Sequence[NewEntry]) -> range:
        """Add entries whose numbers are above all others, ascending; return their positions."""
        start, columns = len(self), self._columns
        number_of = self._interned_tests(
            dict.fromkeys(
                itertools.chain.from_iterable(
                    [*entry.tests, *(test for test, _, _ in entry.steps if not isinstance(test, SideStep))]
                    for entry in entries
                )
            )
        )
        self._append_steps(entries, number_of)
        sides = [(axis, *ends) for entry in entries for axis, ends in entry.sides.items()]
        for i, name in enumerate(("axis", "low", "high")):
            columns[name].extend([side[i] for side in sides])
        columns["test"].extend([number_of[test] for entry in entries for test in entry.tests])
        self._append_groups(entries, number_of)
        self._append_offsets("side_at", [len(entry.sides) for entry in entries])
        self._append_offsets("test_at", [len(entry.tests) for entry in entries])
        columns["sure"].extend([entry.sure for entry in entries])
        columns["living"].extend([1] * len(entries))
        columns["number"].extend([entry.number for entry in entries])
        return range(start, len(self))

    def _interned_tests(self, tests: Iterable[TextTest]) -> dict[TextTest, int]:
        """Return the numbers of different tests; those that are new are added."""
        columns, distinct = self._columns, list(tests)
        stored = StoredTests(self["test_view"], self["mode"], self["program_at"], self["program"])
        numbers = self._interned.find(distinct, stored)
        new = [test for test, number in zip(distinct, numbers, strict=True) if number < 0]
        number_of = {test: number for test, number in zip(distinct, numbers, strict=True) if number >= 0}
        first = columns["test_view"].n
        columns["test_view"].extend([view for view, _, _ in new])
        columns["mode"].extend([mode for _, _, mode in new])
        self._append_bytes("program", [program for _, program, _ in new])
        self._interned.add(StoredTests(self["test_view"], self["mode"], self["program_at"], self["program"]))
        return number_of | {test: first + i for i, test in enumerate(new)}

    def _append_steps(self, entries: Sequence[NewEntry], number_of: Mapping[TextTest, int]) -> None:
        columns = self._columns
        steps = [step for entry in entries for step in entry.steps]
        sides = [side for side, _, _ in steps if isinstance(side, SideStep)]
        numbers = itertools.count(columns["choice_axis"].n)
        columns["step"].extend(
            [~next(numbers) if isinstance(test, SideStep) else number_of[test] for test, _, _ in steps]
        )
        columns["yes"].extend([yes for _, yes, _ in steps])
        columns["no"].extend([no for _, _, no in steps])
        for i, name in enumerate(("choice_axis", "choice_low", "choice_high", "choice_not")):
            columns[name].extend([side[i] for side in sides])
        self._append_offsets("step_at", [len(entry.steps) for entry in entries])

    def _append_groups(self, entries: Sequence[NewEntry], number_of: Mapping[TextTest, int]) -> None:
        columns = self._columns
        groups = [group for entry in entries for group in entry.groups]
        keys = [key for members, _ in groups for key in members]
        columns["says"].extend([-1 if test is None else number_of[test] for _, test in groups])
        columns["key_view"].extend([view for view, _, _ in keys])
        columns["key_anchor"].extend([anchor for _, anchor, _ in keys])
        self._append_bytes("key", [literal for _, _, literal in keys])
        self._append_offsets("posting_at", [len(members) for members, _ in groups])
        self._append_offsets("group_at", [len(entry.groups) for entry in entries])

    def _append_bytes(self, name: str, parts: Sequence[bytes]) -> None:
        self._columns[name].extend(np.frombuffer(b"".join(parts), np.uint8))
        self._append_offsets(f"{name}_at", [len(part) for part in parts])

    def _append_offsets(self, name: str, lengths: Sequence[int]) -> None:
        column = self._columns[name]
        column.extend(column.values[-1] + np.cumsum(lengths, dtype=np.int64))

    def find(self, numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return the positions of the entries among these numbers."""
        all_numbers = self["number"]
        positions = np.searchsorted(all_numbers, numbers)
        positions = positions[positions < len(all_numbers)] if len(all_numbers) else positions[:0]
        return positions[np.isin(all_numbers[positions], numbers)]

    def remove(self, positions: npt.NDArray[np.int64]) -> None:
        """Let entries be found no more."""
        column = self._columns["living"]
        column.extend([])
        column.values[positions] = 0

    def key_columns(self) -> KeyColumns:
        """Return what is needed to choose keys."""
        return KeyColumns(**{name: self[name] for name in KeyColumns._fields})

    def has_keys(self, positions: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Say of each entry whether it is posted under some key."""
        at = self["group_at"]
        return np.asarray(at[positions + 1] > at[positions])

    def kernel_columns(self) -> EntryColumns:
        """Return the columns as kernels read them; read-only ones are copied: kernels are compiled for one kind."""
        own = {name: np.require(self[name], requirements="W") for name in _TYPES}
        tests = StoredTests(own["test_view"], own["mode"], own["program_at"], own["program"])
        tree = TextTreeColumns(**{name: own[name] for name in TextTreeColumns._fields})
        plain = {name: own[name] for name in EntryColumns._fields if name in own}
        return EntryColumns(**plain, tests=tests, tree=tree)

    @property
    def n_bytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.values.nbytes for column in self._columns.values())

    def to_arrays(self) -> dict[str, _Array]:
        """Return the columns by name."""
        return {name: self[name] for name in _TYPES}

    @classmethod
    def from_arrays(cls, arrays: SavedArrays, n_numbers: int, n_axes: int, n_views: int) -> TextEntries:
        """Open columns, checked, that may be read-only; in those of earlier versions literals stand anywhere."""
        if "key_anchor" not in arrays:
            arrays = arrays.with_array("key_anchor", np.zeros(len(arrays["key_view"]), np.uint8))
        if "group_at" not in arrays:
            arrays = _with_groups(arrays)
        columns, _ = arrays.take(_ARRAYS, numbers=n_numbers, axes=n_axes, views=n_views)
        _check_steps(arrays, columns)
        if not ((columns["says"] >= -1) & (columns["says"] < len(columns["test_view"]))).all():
            arrays.refuse("says", f"names a test outside the {len(columns['test_view'])} tests")
        if not (np.diff(columns["posting_at"]) > 0).all():
            arrays.refuse("posting_at", "has a group without keys")
        lengths = np.diff(columns["key_at"])
        if lengths.size and not 0 < lengths.min() <= lengths.max() <= LONGEST:
            arrays.refuse("key_at", f"holds a literal that has not 1 to {LONGEST} bytes")
        return cls(columns)


def _with_groups(arrays: SavedArrays) -> SavedArrays:
    """Return arrays of an earlier version, in which an entry has one group of keys or none, with a column of groups."""
    form = Declared(np.int64, (Size("entries", plus=1),), Offsets("keys"))
    at = arrays.take({"posting_at": form}, keys=len(arrays["key_view"]))[0]["posting_at"]
    has_keys = np.diff(at) > 0
    group_at = np.append(0, np.cumsum(has_keys))
    says = np.full(group_at[-1], -1, np.int32)
    posting_at = np.append(0, at[1:][has_keys])
    return arrays.with_array("group_at", group_at).with_array("says", says).with_array("posting_at", posting_at)


def _check_steps(arrays: SavedArrays, columns: Mapping[str, _Array]) -> None:
    """Refuse steps that lead backwards, or beyond the last one: a kernel would not end."""
    lengths = np.diff(columns["step_at"])
    own = np.arange(len(columns["step"])) - np.repeat(columns["step_at"][:-1], lengths)
    last = np.repeat(lengths, lengths)
    for name in ("yes", "no"):
        target = columns[name]
        if not ((target == ACCEPT) | (target == REJECT) | ((target > own) & (target < last))).all():
            arrays.refuse(name, "has a step that does not lead forward")
    tests, sides = len(columns["test_view"]), len(columns["choice_axis"])
    if not ((columns["step"] < tests) & (columns["step"] >= -sides)).all():
        arrays.refuse("step", f"names a condition outside the {tests} tests and {sides} sides")


_ARRAYS: Final = {
    "number": Declared(np.int32, ("entries",), Ascending("numbers")),
    "sure": Declared(np.bool_, ("entries",), Flags()),
    "living": Declared(np.uint8, ("entries",), Flags()),
    "side_at": Declared(np.int64, (Size("entries", plus=1),), Offsets("sides")),
    "axis": Declared(np.int32, ("sides",), Below("axes")),
    "low": Declared(np.float64, ("sides",)),
    "high": Declared(np.float64, ("sides",)),
    "test_at": Declared(np.int64, (Size("entries", plus=1),), Offsets("uses")),
    "test": Declared(np.int32, ("uses",), Below("tests")),
    "test_view": Declared(np.int32, ("tests",), Below("views")),
    "mode": Declared(np.uint8, ("tests",), Below(3)),
    "step_at": Declared(np.int64, (Size("entries", plus=1),), Offsets("steps")),
    "step": Declared(np.int32, ("steps",)),
    "yes": Declared(np.int32, ("steps",)),
    "no": Declared(np.int32, ("steps",)),
    "choice_axis": Declared(np.int32, ("choices",), Below("axes")),
    "choice_low": Declared(np.float64, ("choices",)),
    "choice_high": Declared(np.float64, ("choices",)),
    "choice_not": Declared(np.uint8, ("choices",), Flags()),
    "program_at": Declared(np.int64, (Size("tests", plus=1),), Offsets("program")),
    "program": Declared(np.uint8, ("program",)),
    "group_at": Declared(np.int64, (Size("entries", plus=1),), Offsets("groups")),
    "says": Declared(np.int32, ("groups",)),
    "posting_at": Declared(np.int64, (Size("groups", plus=1),), Offsets("keys")),
    "key_view": Declared(np.int32, ("keys",), Below("views")),
    "key_anchor": Declared(np.uint8, ("keys",), Below(len(Anchor))),
    "key_at": Declared(np.int64, (Size("keys", plus=1),), Offsets("key")),
    "key": Declared(np.uint8, ("key",)),
}
