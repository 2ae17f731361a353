"""Small worlds: pools of conditions, and for each pool enough values to tell any two combinations apart.

A pool's values hold every end that its conditions mention, the places between the ends, the places beyond
them and the missing value (None). Two Boolean combinations of the pool's conditions match the same events
of the whole world iff they match the same of these, so brute force over them is the truth.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tamis.algebra.evaluate import matches_subscription
from tamis.model.language.compiler import compile_text
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription
from tamis.model.types import AttributeType, Boolean, Number, String, Timestamp


@dataclass(frozen=True)
class World:
    """One attribute: its type, conditions on it (``@`` is its name), and the values that tell them apart."""

    kind: AttributeType
    conditions: tuple[str, ...]
    values: tuple[Any, ...]


NUMBERS = World(
    Number(),
    (
        "@ < 1", "@ <= 1", "@ > 1", "@ >= 2", "@ = 1", "@ <> 2", "@ BETWEEN 1 AND 2", "@ NOT BETWEEN 1 AND 3",
        "@ IN (0, 2, 3)", "@ NOT IN (1, 2)", "@ IS NULL", "@ IS NOT NULL", "@ < 1 OR @ IS NULL",
    ),
    (None, -1, 0, 0.5, 1, 1.5, 2, Decimal("2.5"), 3, 4.0),
)  # fmt: skip
CLOSE_NUMBERS = World(  # neighbours among the float64: only a decimal lies between them
    Number(),
    ("@ <= 0.1", "@ < 0.1", "@ < 0.10000000000000002", "@ >= 0.10000000000000002", "@ > 0.1"),
    (None, 0, 0.1, Decimal("0.10000000000000001"), 0.10000000000000002, 1),
)
STRINGS = World(
    String(),
    (
        "@ = ''", "@ < 'ab'", "@ >= 'b'", "@ LIKE 'a%'", "@ NOT LIKE 'ab%'", "@ IN ('a', 'ab', 'b')", "@ <> 'ab'",
        "@ IS NULL", "@ LIKE '%b'", "@ NOT LIKE 'a_'", "@ LIKE '%a%'",
    ),
    (None, *("".join(s) for n in range(5) for s in itertools.product("\0abz", repeat=n))),
)  # fmt: skip
BOOLEANS = World(
    Boolean(),
    ("@ = TRUE", "@ = FALSE", "@ <> TRUE", "@ IS NULL", "@ IS NOT NULL", "@ IN (TRUE, FALSE)", "NOT (@ = FALSE)"),
    (None, False, True),
)
_DAY = "TIMESTAMP('2026-01-01T00:00:00.00000{}Z')"
_MIDNIGHT = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
MOMENTS = World(
    Timestamp(),
    tuple(
        condition.replace("t1", _DAY.format(1)).replace("t3", _DAY.format(3))
        for condition in ("@ < t1", "@ <= t1", "@ > t1", "@ >= t3", "@ BETWEEN t1 AND t3", "@ <> t1", "@ IS NULL")
    ),
    (None, *(_MIDNIGHT + i for i in range(-1, 6))),
)
WORLDS = {"numbers": NUMBERS, "close": CLOSE_NUMBERS, "strings": STRINGS, "booleans": BOOLEANS, "moments": MOMENTS}


def compiled(texts: Sequence[str], schema: Schema) -> list[Subscription]:
    return [compile_text(text, schema, id=place) for place, text in enumerate(texts)]


def conditions(world: World, name: str) -> Iterator[str]:
    return (condition.replace("@", name) for condition in world.conditions)


def events(schema: Schema, **worlds: World) -> list[dict[str, Any]]:
    """Return every combination of values, canonical."""
    names = list(worlds)
    return [
        schema.event({name: value for name, value in zip(names, values, strict=True) if value is not None})
        for values in itertools.product(*(worlds[name].values for name in names))
    ]


def match_sets(subscriptions: Sequence[Subscription], all_events: Sequence[dict[str, Any]]) -> list[int]:
    """Return per subscription the set of matched events, as the bits of one number."""
    return [
        sum(1 << place for place, event in enumerate(all_events) if matches_subscription(event, subscription))
        for subscription in subscriptions
    ]
