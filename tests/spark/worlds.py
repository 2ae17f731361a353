"""Random subscriptions and events of every type, and the laptop's answers to compare with."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import shapely

import tamis

SCHEMA = tamis.Schema(
    {
        "symbol": tamis.String(),
        "price": tamis.Number(0, 100),
        "volume": tamis.Number(),
        "halted": tamis.Boolean(),
        "at": tamis.Timestamp(),
        "area": tamis.Region(),
        "look": tamis.Vector(2),
    }
)
#: The same columns for Spark.
COLUMNS = """event_id long, symbol string, price double, volume long, halted boolean, at timestamp, area binary,
             look array<double>"""

#: Filters that need other kernels: those about regions, and the others.
HALVES = ("regions", "others")

_SYMBOLS = ["IBM", "ACME", "O'Neill", "Ünicode", ""]


def texts(n: int, seed: int) -> list[str]:
    """Return n filters over `SCHEMA`."""
    rng = random.Random(seed)
    return [" AND ".join(_condition(rng) for _ in range(rng.choice([1, 1, 2, 3]))) for _ in range(n)]


def _condition(rng: random.Random) -> str:
    x, y = rng.uniform(0, 90), rng.uniform(0, 90)
    quoted = rng.choice(_SYMBOLS).replace("'", "''")
    return rng.choice(
        [
            f"price BETWEEN {x:.3f} AND {x + 10:.3f}",
            f"price < {x:.2f}",
            f"NOT price < {x:.2f}",
            f"symbol = '{quoted}'",
            f"symbol LIKE '{quoted[:1]}%'",
            "symbol IS NULL",
            f"volume >= {rng.randrange(2**60)}",
            f"volume IN ({rng.randrange(5)}, {rng.randrange(5)})",
            f"(halted = TRUE OR price > {x:.2f})",
            f"at < TIMESTAMP('2020-01-0{rng.randrange(1, 9)}T00:00:00Z')",
            f"S_INTERSECTS(area, POLYGON(({x} {y}, {x + 30} {y}, {x} {y + 30}, {x} {y})))",
            f"S_DISJOINT(area, POLYGON(({x} {y}, {x + 30} {y}, {x} {y + 30}, {x} {y})))",
            f"V_WITHIN(look, ({x:.2f}, {y:.2f}), 20)",
        ]
    )


def rows(n: int, seed: int) -> list[dict[str, Any]]:
    """Return n events; one value in six is missing."""
    rng = random.Random(seed)
    return [{"event_id": i, **_event(rng)} for i in range(n)]


def _event(rng: random.Random) -> dict[str, Any]:
    x, y = rng.uniform(0, 90), rng.uniform(0, 90)
    area = shapely.Point(x, y) if rng.random() < 0.5 else shapely.box(x, y, x + 5, y + 5)
    values = {
        "symbol": rng.choice(_SYMBOLS),
        "price": rng.choice([x, round(x, 2), 10.0]),
        "volume": rng.choice([rng.randrange(5), rng.randrange(2**62)]),
        "halted": rng.random() < 0.5,
        "at": dt.datetime(2020, 1, rng.randrange(1, 10), tzinfo=dt.UTC),
        "area": shapely.to_wkb(area),
        "look": [x, y],
    }
    return {name: None if rng.random() < 1 / 6 else value for name, value in values.items()}


def laptop(filters: Sequence[tuple[Any, str]], events: list[dict[str, Any]], matcher: str = "linear") -> set[Any]:
    """Return {(event_id, subscription id)} as one engine in this process says."""
    engine = tamis.Engine(SCHEMA, matcher)
    for id, text in filters:
        engine.subscribe(text, id=id)
    matches = engine.match_table(columns_of(events))
    ids = [row["event_id"] for row in events]
    return {(ids[event], id) for event, id in zip(matches.event.tolist(), matches.subscription, strict=True)}


def columns_of(events: list[dict[str, Any]]) -> pa.Table:
    """Return events as a table of the attributes."""
    columns = {name: [row.get(name) for row in events] for name in SCHEMA}
    return pa.table({**columns, "at": pa.array(columns["at"], pa.timestamp("us", "UTC"))})


def compile_kernels(half: str, place: Path) -> None:
    """Index filters, reduce, save, open and match: what workers do, so that the kernels are in the cache when they do.

    What is left out here is compiled by two workers at once, which costs twice as much.
    """
    filters = {id: text for id, text in enumerate(texts(400, seed=1)) if ("area" in text) == (half == "regions")}
    engine = tamis.Engine(SCHEMA)
    for id, text in filters.items():
        engine.subscribe(text, id=id)
    engine.save(place)
    tamis.Engine.load(place).match_table(columns_of(rows(500, seed=2)))
    tamis.reduce({id: filters[id] for id in list(filters)[:40]}, SCHEMA)


def pairs(deliveries: Any) -> list[tuple[Any, Any]]:
    """Return the rows of a DataFrame of deliveries, sorted: a repeated one would show."""
    return sorted((row["event_id"], row["subscription_id"]) for row in deliveries.collect())


def main() -> None:
    """Compile the kernels of all halves: `make test` does so on one core, while the other one lints."""
    for half in HALVES:
        with tempfile.TemporaryDirectory() as place:
            compile_kernels(half, Path(place))


if __name__ == "__main__":
    main()
