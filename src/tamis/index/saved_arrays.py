"""Checks arrays from a file: a structure declares the form of each of its arrays, and the check follows from that.

Kernels read arrays by address and trust every number in them, so nothing from a file reaches a kernel unchecked. A
structure declares its arrays once, as a table of `Declared`: the type, the shape in named sizes, and a rule for the
values. `SavedArrays.take` compares the arrays with the table: first all types and shapes, by which sizes become known,
then all rules. A rule is one or two vectorised passes over its array.

>>> declared = {
...     "start": Declared(np.int64, (Size("rings", plus=1),), Offsets("points")),
...     "xy": Declared(np.float64, ("points", 2)),
... }
>>> arrays = SavedArrays({"start": np.array([0, 9]), "xy": np.zeros((4, 2))}, source="saved/v000001/0.arrays")
>>> arrays.take(declared)
Traceback (most recent call last):
tamis.errors.SnapshotError: saved/v000001/0.arrays: the array 'start' must ascend from 0 to 4, the number of points
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from tamis.errors import SnapshotError

__all__ = [
    "MOST_ROWS",
    "Ascending",
    "Below",
    "Declared",
    "Finite",
    "Flags",
    "Intervals",
    "Offsets",
    "SavedArrays",
    "Size",
]

#: Rows are int32.
MOST_ROWS = 2**31 - 1

_Array = npt.NDArray[Any]
_Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Size:
    """A length ``times * size + plus``, where ``size`` is known by name."""

    name: str
    times: int = 1
    plus: int = 0


class Rule(Protocol):
    """A rule for the values of an array."""

    def find_problem(self, array: _Array, sizes: _Sizes) -> str | None:
        """Return the problem with the values, as the end of a sentence; None if there is none."""


@dataclass(frozen=True, slots=True)
class Below:
    """Whole numbers from ``least`` to a limit, which itself is excluded; ``complement``: or ``~n`` for such an n."""

    limit: str | int
    least: int = 0
    complement: bool = False

    def find_problem(self, array: _Array, sizes: _Sizes) -> str | None:
        """Check the least and the greatest number."""
        limit = sizes[self.limit] if isinstance(self.limit, str) else self.limit
        least = -limit if self.complement else self.least
        if not array.size or (int(array.min()) >= least and int(array.max()) < limit):
            return None
        of = f", the number of {self.limit}" if isinstance(self.limit, str) else ""
        return f"has a number outside {least} to {limit - 1}{of and f' ({limit}{of})'}"


@dataclass(frozen=True, slots=True)
class Ascending:
    """Whole numbers from 0 to below a limit, each above the one before; not ``strict``: or equal to it."""

    limit: str
    strict: bool = True

    def find_problem(self, array: _Array, sizes: _Sizes) -> str | None:
        """Compare neighbours, and look at both ends."""
        compare = np.less if self.strict else np.less_equal
        if not array.size:
            return None
        if int(array[0]) >= 0 and int(array[-1]) < sizes[self.limit] and compare(array[:-1], array[1:]).all():
            return None
        return f"must ascend inside 0 to {sizes[self.limit] - 1} (the number of {self.limit} is {sizes[self.limit]})"


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of spans in another array: start at 0, never decrease, and end at its length, the size named ``into``."""

    into: str

    def find_problem(self, array: _Array, sizes: _Sizes) -> str | None:
        """Compare neighbours, and look at both ends."""
        if array.size and array[0] == 0 and array[-1] == sizes[self.into] and (array[:-1] <= array[1:]).all():
            return None
        return f"must ascend from 0 to {sizes[self.into]}, the number of {self.into}"


@dataclass(frozen=True, slots=True)
class Finite:
    """Numbers that are neither NaN nor infinite, and not below ``least``."""

    least: float = -math.inf

    def find_problem(self, array: _Array, sizes: _Sizes) -> str | None:
        """Check the least and the greatest number; if there is a NaN, both are NaN."""
        if not array.size:
            return None
        low, high = float(array.min()), float(array.max())
        if math.isfinite(low) and math.isfinite(high) and low >= self.least:
            return None
        return "has a number that is NaN or infinite" + (f" or below {self.least}" if self.least > -math.inf else "")


@dataclass(frozen=True, slots=True)
class Intervals:
    """Closed intervals float64[n, 2]: no NaN, the lower end not above the upper, and a finite number in each."""

    def find_problem(self, array: _Array, sizes: _Sizes) -> str | None:
        """Compare the ends."""
        if not len(array):
            return None
        low, high = array[:, 0], array[:, 1]
        if (low <= high).all() and low.max() < math.inf and high.min() > -math.inf:
            return None
        return "has an interval that is empty or has NaN for an end"


@dataclass(frozen=True, slots=True)
class Flags:
    """Bytes that are 0 or 1."""

    def find_problem(self, array: _Array, sizes: _Sizes) -> str | None:
        """Check the bytes, also of booleans: NumPy assumes that those are 0 or 1."""
        return "has a flag that is neither 0 nor 1" if array.size and array.view(np.uint8).max() > 1 else None


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared form of an array: a length may be a number, a `Size`, or the name of one."""

    dtype: type[np.generic]
    shape: tuple[int | str | Size, ...] = ()
    rule: Rule | None = None


class SavedArrays(Mapping[str, _Array]):
    """Arrays by name that were read from ``source``, with methods that check and refuse them.

    ``prefix`` is what their names begin with in the file.
    """

    def __init__(self, arrays: Mapping[str, _Array], source: str = "arrays", prefix: str = "") -> None:
        self._arrays = arrays
        self._source = source
        self._prefix = prefix

    @classmethod
    def of(cls, arrays: Mapping[str, _Array]) -> SavedArrays:
        """Return the arrays unchanged if they are `SavedArrays` already."""
        return arrays if isinstance(arrays, SavedArrays) else cls(arrays)

    def __getitem__(self, name: str) -> _Array:
        if name not in self._arrays:
            self.refuse(name, "is missing")
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def under(self, prefix: str) -> SavedArrays:
        """Return the arrays whose names start with a prefix, under the rest of their names."""
        own = {name.removeprefix(prefix): array for name, array in self._arrays.items() if name.startswith(prefix)}
        return SavedArrays(own, self._source, self._prefix + prefix)

    def with_array(self, name: str, array: _Array) -> SavedArrays:
        """Return the arrays and one that an earlier version did not save."""
        return SavedArrays({**self._arrays, name: array}, self._source, self._prefix)

    def take(self, declared: Mapping[str, Declared], **other_sizes: int) -> tuple[dict[str, _Array], dict[str, int]]:
        """Return the declared arrays and all sizes, or raise `SnapshotError` for the first that is not as declared.

        ``other_sizes`` are sizes that do not follow from the shapes of these arrays.
        """
        sizes = dict(other_sizes)
        for name, form in declared.items():
            self._check_form(name, form, sizes)
        for name, form in declared.items():
            problem = form.rule.find_problem(self[name], sizes) if form.rule is not None else None
            if problem is not None:
                self.refuse(name, problem)
        return {name: self[name] for name in declared}, sizes

    def text(self, name: str) -> str:
        """Return the text of an array of UTF-8 bytes."""
        self.take({name: Declared(np.uint8, ("bytes",))})
        try:
            return bytes(self[name]).decode()
        except UnicodeDecodeError:
            self.refuse(name, "is not UTF-8")

    def refuse(self, name: str, problem: str) -> NoReturn:
        """Raise `SnapshotError` about an array."""
        raise SnapshotError(self._source, f"the array {self._prefix + name!r} {problem}")

    def refuse_all(self, problem: str) -> NoReturn:
        """Raise `SnapshotError` about several arrays together."""
        raise SnapshotError(self._source, problem)

    def _check_form(self, name: str, form: Declared, sizes: dict[str, int]) -> None:
        array, dtype = self[name], np.dtype(form.dtype)
        if array.dtype != dtype:
            self.refuse(name, f"is {array.dtype.str}, not {dtype.str}")
        fits = array.ndim == len(form.shape)
        for length, wanted in zip(array.shape, form.shape, strict=False):
            size = Size(wanted) if isinstance(wanted, str) else wanted
            if isinstance(size, Size):
                count, rest = divmod(length - size.plus, size.times)
                fits &= rest == 0 and count >= 0 and sizes.setdefault(size.name, count) == count
            else:
                fits &= length == size
        if not fits:
            self.refuse(name, f"has the shape {array.shape}, which does not fit the others")
        if not (array.flags.c_contiguous and array.flags.aligned):
            self.refuse(name, "is not laid out in one piece")
