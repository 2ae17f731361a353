"""Random filters and events in bulk for the small world of the contract tests, with timestamps and decimals too."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import shapely

from tamis.model.language.nodes import (
    And,
    Between,
    Compare,
    Constant,
    IsIn,
    IsLike,
    IsNull,
    Node,
    Not,
    Or,
    SpatialTest,
    WithinBall,
)
from tests.contract.strategies import (
    FUNCTIONS,
    MOMENTS,
    NUMBERS,
    OPERATORS,
    PATTERNS,
    POLYGONS,
    SCHEMA,
    STRINGS,
    VECTORS,
)

DECIMALS = [Decimal("0.10000000000000000001"), Decimal("2.50000000000000000001")]
LITERALS: dict[str, list[Any]] = {
    "x": NUMBERS,
    "y": [*NUMBERS, *DECIMALS],
    "name": STRINGS,
    "on": [False, True],
    "at": MOMENTS,
}
VALUES: dict[str, list[Any]] = {
    "x": [*NUMBERS, -1, 0.5, 1.5],
    "y": [*NUMBERS, *DECIMALS, -1, 0.1],
    "name": [*STRINGS, "c", "aab", "a\0"],
    "on": [False, True],
    "at": [-1, *MOMENTS, 3],
    "area": [*POLYGONS, shapely.Point(1, 1), shapely.Point(2, 1), shapely.Point(9, 9)],
    "look": VECTORS,
}


class World:
    """Draws filters and events with one random generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one_of(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def leaf(self) -> Node:
        kind = int(self.rng.integers(9))
        if kind == 0:
            return IsLike("name", self.one_of(PATTERNS), self.one_of([False, True]))
        if kind == 1:
            return SpatialTest(self.one_of(FUNCTIONS), "area", self.one_of(POLYGONS))
        if kind == 2:
            return WithinBall("look", self.one_of(VECTORS), self.one_of([0.0, 1.0, 5.0]))
        if kind == 3:
            return IsNull(self.one_of(list(SCHEMA)), self.one_of([False, True]))
        return self.scalar_leaf()

    def scalar_leaf(self) -> Node:
        name = self.one_of(list(LITERALS))
        literals, negated = LITERALS[name], self.one_of([False, True])
        kind = int(self.rng.integers(4))
        if kind == 0:
            return Between(name, self.one_of(literals), self.one_of(literals), negated)
        if kind == 1:
            return IsIn(name, tuple(self.one_of(literals) for _ in range(self.rng.integers(1, 4))), negated)
        return Compare(name, self.one_of(OPERATORS), self.one_of(literals))

    def node(self, depth: int = 2) -> Node:
        kind = int(self.rng.integers(8))
        if depth == 0 or kind < 3:
            return Constant(self.one_of([False, True])) if self.rng.random() < 0.02 else self.leaf()
        if kind == 3:
            return Not(self.node(depth - 1))
        parts = tuple(self.node(depth - 1) for _ in range(self.rng.integers(2, 4)))
        return Or(parts) if kind == 4 else And(parts)

    def event(self) -> dict[str, Any]:
        carried = [name for name in VALUES if self.rng.random() < 0.8]
        return SCHEMA.event({name: self.one_of(VALUES[name]) for name in carried})
