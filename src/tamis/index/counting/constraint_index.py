"""The interface of constraint indexes, and an index that evaluates every constraint.

A constraint index holds the unique constraints of one kind on one attribute, under numbers its owner gives
out, and tells which of them a value satisfies. A type brings its own by implementing `ConstraintIndex`;
`ScanIndex` serves every kind that has none: LIKE and balls. Regions have the CR-tree (`tamis.index.counting.cr_tree`);
another index plugs in like it::

    CountingMatcher({**DEFAULT_INDEXES, Spatial: ScanIndex})

One thread may write while others read. So a reader gets copies, or structures that are replaced and never
changed; and numbers are never used again, so that a number a reader holds cannot come to mean another
constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from tamis.algebra.evaluate import constraint_holds
from tamis.index.protocols import Guarantee
from tamis.model.subscription import Constraint
from tamis.model.values import Value

__all__ = ["ConstraintIndex", "ScanIndex", "Wanted"]

#: Whether the answer for a constraint, named by its number, still matters.
Wanted = Callable[[int], bool]


class ConstraintIndex(Protocol):
    """The unique constraints of one kind on one attribute.

    An index must be COMPLETE. If it is not SOUND as well, what it reports is verified on the raw values.
    """

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the results; COMPLETE at least."""

    @property
    def evaluations(self) -> int:
        """The number of single constraints that were evaluated so far."""

    def add(self, number: int, constraint: Constraint) -> None:
        """Add a constraint under a number that was never used."""

    def remove(self, number: int, constraint: Constraint) -> None:
        """Remove an existing constraint."""

    def satisfied(self, value: Value | None, wanted: Wanted | None = None) -> Iterable[int]:
        """Return the numbers of the constraints that a value satisfies, each once; None is the missing value.

        A constraint that is not ``wanted`` may be left out. Laziness pays: the caller stops when it knows
        enough.
        """

    def __len__(self) -> int: ...

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the structure contradicts itself."""


class ScanIndex:
    """Evaluates each constraint in turn, lazily. Exact; slow beyond a few hundred constraints."""

    guarantee = Guarantee.EXACT

    def __init__(self) -> None:
        #: ``{number: constraint}``, all on one attribute.
        self._constraints: dict[int, Constraint] = {}
        self.evaluations = 0

    def __len__(self) -> int:
        return len(self._constraints)

    def add(self, number: int, constraint: Constraint) -> None:
        """Add a constraint under a number that was never used."""
        self._constraints[number] = constraint

    def remove(self, number: int, constraint: Constraint) -> None:
        """Remove an existing constraint."""
        del self._constraints[number]

    def satisfied(self, value: Value | None, wanted: Wanted | None = None) -> Iterator[int]:
        """Yield the numbers of the wanted constraints that a value satisfies."""
        for number, constraint in list(self._constraints.items()):
            if wanted is None or wanted(number):
                self.evaluations += 1
                if constraint_holds({} if value is None else {constraint.attribute: value}, constraint):
                    yield number

    def check_invariants(self) -> None:
        """Do nothing: the structure cannot be inconsistent."""
