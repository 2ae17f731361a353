"""The message about a change of the union of a link's ranges, and its encoding as bytes.

The bytes of a plan: a mark, the version of the spaces, whether it is a snapshot, and for each space the ranges that
come and those that go. Ranges are ascending, so each is two small numbers, the keys left out before it and the keys
beyond its first, written seven bits to a byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tamis.curves.runs import Runs, difference, union
from tamis.errors import LimitError, ModelError

__all__ = ["MAX_PLAN_BYTES", "RangeDelta", "RangePlan"]

_MARK = b"MICS1"
#: A message (promise S14).
MAX_PLAN_BYTES = 256 * 1024
_KEY_BITS = 62


@dataclass(frozen=True, eq=False)
class RangeDelta:
    """The change of one union: ranges that are added first, then ranges that are removed."""

    added: Runs
    removed: Runs

    def then(self, later: RangeDelta) -> RangeDelta:
        """Return one change that does what this and a later one do."""
        removed = union(difference(self.removed, later.added), later.removed)
        return RangeDelta(union(self.added, later.added), removed)


@dataclass(frozen=True, eq=False)
class RangePlan:
    """A change of all unions of a link, one `RangeDelta` for each space; ``is_full``: it replaces the previous sets."""

    version: str
    parts: tuple[RangeDelta, ...]
    is_full: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is no change."""
        return not self.is_full and not self.n_ranges

    @property
    def n_ranges(self) -> int:
        """The number of ranges come and go."""
        return sum(len(part.added) + len(part.removed) for part in self.parts)

    def then(self, later: RangePlan) -> RangePlan:
        """Return one plan in place of this one and a later one, as for a subscription that replaces another."""
        if later.is_full:
            return later
        if later.version != self.version or len(later.parts) != len(self.parts):
            raise ModelError("plans of different spaces cannot be joined; send a snapshot")
        parts = tuple(part.then(other) for part, other in zip(self.parts, later.parts, strict=True))
        return RangePlan(self.version, parts, self.is_full)

    def to_bytes(self) -> bytes:
        """Return the plan as bytes; `LimitError` for a snapshot that no message can hold."""
        version = self.version.encode()
        numbers = [len(version), *version, int(self.is_full), len(self.parts)]
        for runs in (runs for part in self.parts for runs in (part.added, part.removed)):
            numbers += [len(runs), *_steps(runs)]
        written = _MARK + b"".join(map(_varint, numbers))
        if len(written) > MAX_PLAN_BYTES:
            raise LimitError("bytes of a range plan", len(written), MAX_PLAN_BYTES)
        return written

    @classmethod
    def from_bytes(cls, data: bytes) -> RangePlan:
        """Read a plan; raise `ModelError` if the bytes are not valid."""
        if len(data) > MAX_PLAN_BYTES:
            raise LimitError("bytes of a range plan", len(data), MAX_PLAN_BYTES)
        if not data.startswith(_MARK):
            raise ModelError("these bytes are not a range plan")
        try:
            return cls._read(_numbers(data[len(_MARK) :]))
        except ValueError as error:  # of UnicodeDecodeError, too
            raise ModelError(f"a range plan that cannot be read: {error}") from None

    @classmethod
    def _read(cls, numbers: Iterator[int]) -> RangePlan:
        version = bytes([_take(numbers) for _ in range(_take(numbers, MAX_PLAN_BYTES))])
        is_full, n_parts = _take(numbers, 1), _take(numbers, MAX_PLAN_BYTES)
        parts = [RangeDelta(_read_runs(numbers), _read_runs(numbers)) for _ in range(n_parts)]
        if next(numbers, None) is not None:
            raise ValueError("there are bytes after its end")
        return cls(version.decode("ascii"), tuple(parts), bool(is_full))


def _steps(runs: Runs) -> Iterator[int]:
    """Yield for each range the keys left out before it, and the keys beyond its first."""
    end = 0
    for first, last in runs.tolist():
        yield first - end
        yield last - first
        end = last + 1


def _read_runs(numbers: Iterator[int]) -> Runs:
    count, end = _take(numbers, MAX_PLAN_BYTES), 0
    runs = np.empty((count, 2), np.int64)
    for i in range(count):
        left_out = _take(numbers)
        if i and not left_out:
            raise ValueError("two ranges touch")
        first = end + left_out
        last = first + _take(numbers)
        if last >> _KEY_BITS:
            raise ValueError(f"{last} is too large for a key")
        runs[i] = first, last
        end = last + 1
    return runs


def _take(numbers: Iterator[int], most: int | None = None) -> int:
    """Return the next number, which must be there and must not be above ``most``."""
    number = next(numbers, None)
    if number is None:
        raise ValueError("it ends too early")
    if most is not None and number > most:
        raise ValueError(f"{number} is above the limit of {most}")
    return number


def _varint(number: int) -> bytes:
    """Write a number seven bits to a byte, the low ones first.

    >>> _varint(5).hex(), _varint(300).hex()
    ('05', 'ac02')
    """
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield number
            number = shift = 0
        elif shift > _KEY_BITS:
            raise ValueError("a number is too large")
    if shift:
        raise ValueError("it ends too early")
