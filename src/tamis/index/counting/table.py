"""The global index of unique constraints: every constraint once, with the filters that use it.

Equal constraints share a number; a constraint lives as long as a filter uses it. Constraints of one kind on
one attribute share a `ConstraintIndex`, which lives as long as it is not empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tamis.errors import InvariantError
from tamis.index.counting.constraint_index import ConstraintIndex, ScanIndex, Wanted
from tamis.index.counting.cr_tree import CRTree
from tamis.index.counting.value_sets import ValueSetIndex
from tamis.index.protocols import Guarantee, demand
from tamis.model.derived.formulas import event_value
from tamis.model.schema import Event
from tamis.model.subscription import Ball, Clock, Constraint, Cosine, Filter, Geometric, Like, Spatial, Values
from tamis.model.value_set import ANYTHING

__all__ = ["DEFAULT_INDEXES", "ConstraintTable", "CountedFilter", "Indexes"]

#: How the index of each kind of constraint is made.
Indexes = Mapping[type[Constraint], Callable[[], ConstraintIndex]]

DEFAULT_INDEXES: Indexes = {
    Values: ValueSetIndex,
    Like: ScanIndex,
    Ball: ScanIndex,
    Cosine: ScanIndex,
    Clock: ScanIndex,
    Spatial: CRTree,
    Geometric: ScanIndex,
}

#: The order in which kinds are evaluated: the cheap ones first, because they may make the others unnecessary.
KINDS: tuple[type[Constraint], ...] = (Values, Like, Ball, Cosine, Clock, Spatial, Geometric)

#: The constraint of a filter that has none. No attribute has this name, so it is always missing, and fits.
_ALWAYS = Values("", ANYTHING)


@dataclass(eq=False, slots=True)
class CountedFilter:
    """One filter of one row; compared by identity, so that nothing removed can be taken for something new."""

    #: The row and the interface it belongs to.
    groups: tuple[int, int | str]
    filter: Filter
    #: Its constraints by number, each once, and how many; the filter is complete when all are satisfied.
    numbers: tuple[int, ...] = ()
    needed: int = 0
    #: The number of `Values` among them, which are evaluated first.
    n_cheap: int = 0
    #: Whether raw values must confirm a complete count.
    proposes: bool = False


class ConstraintTable:
    """Unique constraints, their numbers, their users and their indexes."""

    def __init__(self, indexes: Indexes) -> None:
        self._makers = indexes
        guarantees = {kind: indexes[kind]().guarantee for kind in KINDS}
        for guarantee in guarantees.values():
            demand(Guarantee.COMPLETE, guarantee)
        #: The kinds whose indexes only propose.
        self._proposing = {kind for kind, guarantee in guarantees.items() if Guarantee.SOUND not in guarantee}
        self._numbers: dict[Constraint, int] = {}
        self._constraints: dict[int, Constraint] = {}
        #: ``{number: filters}``, none empty: its length is the constraint's reference count. Read by copies.
        self.users: dict[int, dict[CountedFilter, None]] = {}
        #: ``{kind: {attribute: index}}``, none empty.
        self._indexes: dict[type[Constraint], dict[str, ConstraintIndex]] = {kind: {} for kind in KINDS}
        self._next_number = 0
        #: Evaluations by indexes that are gone.
        self._past_evaluations = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def n_postings(self) -> int:
        """The number of uses of all constraints."""
        return sum(map(len, list(self.users.values())))

    @property
    def evaluations(self) -> int:
        """The number of single constraints that were evaluated so far."""
        return self._past_evaluations + sum(index.evaluations for _, _, index in self._every_index())

    def add(self, user: CountedFilter) -> None:
        """Register a filter under each of its constraints, and store their numbers in it."""
        unique = list(dict.fromkeys(user.filter.constraints or (_ALWAYS,)))
        user.numbers, user.needed = tuple(self._number(constraint) for constraint in unique), len(unique)
        user.n_cheap = sum(isinstance(constraint, Values) for constraint in unique)
        user.proposes = user.filter.rest is not None or any(
            type(constraint) in self._proposing for constraint in unique
        )
        # The filter is finished before the first posting: a reader that meets it knows how far to count.
        for number, constraint in zip(user.numbers, unique, strict=True):
            users = self.users.setdefault(number, {})
            users[user] = None
            if len(users) == 1:
                self._index(constraint).add(number, constraint)

    def remove(self, user: CountedFilter) -> None:
        """Remove a filter from each of its constraints; a constraint without users is dropped."""
        for number in user.numbers:
            users = self.users[number]
            del users[user]
            if users:
                continue
            constraint = self._constraints.pop(number)
            del self.users[number], self._numbers[constraint]
            same_kind = self._indexes[type(constraint)]
            index = same_kind[constraint.attribute]
            index.remove(number, constraint)
            if not len(index):
                self._past_evaluations += index.evaluations
                del same_kind[constraint.attribute]

    def satisfied(self, event: Event, wanted: Wanted) -> Iterator[int]:
        """Yield the numbers of the constraints an event satisfies, each once; expensive ones are evaluated last.

        ``wanted`` is asked about those that cost only, when all cheap ones were reported.
        """
        for kind, attribute, index in self._every_index():
            yield from index.satisfied(event_value(event, attribute), None if kind is Values else wanted)

    def check_invariants(self) -> None:
        """Raise `InvariantError` unless numbers, users and indexes tell of the same constraints."""
        back = {number: constraint for constraint, number in self._numbers.items()}
        if not back == self._constraints or back.keys() != self.users.keys() or not all(self.users.values()):
            raise InvariantError(f"{len(back)} numbers, {len(self._constraints)} constraints, {len(self.users)} used")
        indexes = list(self._every_index())
        if sum(len(index) for _, _, index in indexes) != len(back):
            raise InvariantError(f"{len(back)} constraints, {[len(index) for _, _, index in indexes]} in indexes")
        for kind, attribute, index in indexes:
            n_constraints = sum(
                type(constraint) is kind and constraint.attribute == attribute for constraint in back.values()
            )
            if not n_constraints == len(index) > 0:
                raise InvariantError(f"{n_constraints} constraints on {attribute!r}, {len(index)} in their index")
            index.check_invariants()

    def _number(self, constraint: Constraint) -> int:
        number = self._numbers.get(constraint)
        if number is None:
            number = self._numbers[constraint] = self._next_number
            self._next_number += 1
            self._constraints[number] = constraint
        return number

    def _index(self, constraint: Constraint) -> ConstraintIndex:
        same_kind = self._indexes[type(constraint)]
        index = same_kind.get(constraint.attribute)
        if index is None:
            index = same_kind[constraint.attribute] = self._makers[type(constraint)]()
        return index

    def _every_index(self) -> Iterator[tuple[type[Constraint], str, ConstraintIndex]]:
        for kind in KINDS:
            for attribute, index in list(self._indexes[kind].items()):
                yield kind, attribute, index
