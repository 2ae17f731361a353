"""What the cluster tests match: trades, the questions put to them, and the answer of the slow oracle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tamis
from tamis.model.tables import EventTable, SubscriptionTable

__all__ = [
    "EVENTS",
    "FORMS",
    "JOINED",
    "LEFT",
    "QUESTIONS",
    "SCHEMA",
    "SETTINGS",
    "SYNCED",
    "Pairs",
    "Tables",
    "bad_events",
    "engine",
    "expected",
    "matches",
    "pairs",
    "questions",
    "trades",
]

SCHEMA = tamis.Schema({"symbol": tamis.String(), "price": tamis.Number(), "volume": tamis.Number()})

#: How often each (event, subscription) was delivered: what may be neither lost nor doubled.
Pairs = Counter[tuple[int, str]]

_SYMBOLS = ["ACME", "BOLT", "CORK", "DUNE", "ECHO"]
#: An event in this number has a price that is not a number.
_BAD_EVERY = 17


def questions(n: int, seed: int) -> pa.Table:
    """Return subscriptions (id, filter); each seed asks other questions under the same ids."""
    rng = np.random.default_rng(seed)
    lows, widths, volumes = rng.uniform(0, 90, n).round(2), rng.uniform(1, 8, n).round(2), rng.integers(0, 1000, n)
    names = rng.choice(_SYMBOLS, n)
    kinds = [
        "price BETWEEN {low} AND {high}",
        "symbol = '{name}' AND price BETWEEN {low} AND 95",
        "volume >= {volume} AND price < 20",
        "symbol IN ('{name}', 'ECHO') AND volume < 200 AND NOT (price BETWEEN {low} AND {high})",
        "symbol LIKE '%K' AND price > {low} OR volume = {volume}",
    ]
    rows = zip(lows, lows + widths, volumes, names, strict=True)
    filters = [
        kinds[place % len(kinds)].format(low=low, high=round(float(high), 2), volume=volume, name=name)
        for place, (low, high, volume, name) in enumerate(rows)
    ]
    return pa.table({"id": [f"q{place}" for place in range(n)], "filter": filters})


def trades(n: int, seed: int, first: int = 0) -> pa.Table:
    """Return events (event_id, symbol, price, volume); some have no price, some an impossible one."""
    rng = np.random.default_rng(seed)
    prices = rng.uniform(0, 100, n).round(2)
    prices[_BAD_EVERY - 1 :: _BAD_EVERY] = np.inf
    absent = rng.random(n) < 0.05
    return pa.table(
        {
            "event_id": np.arange(first, first + n),
            "symbol": rng.choice(_SYMBOLS, n),
            "price": pa.array(prices, mask=absent),
            "volume": rng.integers(0, 1000, n),
        }
    )


def bad_events(events: pa.Table) -> list[int]:
    """Return the ids of the events that must be rejected."""
    prices, ids = events["price"].to_pylist(), events["event_id"].to_pylist()
    return [id for id, price in zip(ids, prices, strict=True) if price is not None and np.isinf(price)]


def engine(subscriptions: pa.Table, matcher: str = "linear") -> tamis.Engine:
    """Return an engine of this process that holds the subscriptions."""
    loaded = tamis.Engine(SCHEMA, matcher)
    loaded.subscribe_table(SubscriptionTable.from_arrow(subscriptions))
    return loaded


def matches(engine: tamis.Engine, events: pa.Table) -> Pairs:
    """Return the pairs that an engine of this process finds."""
    pairs = engine.match_table(EventTable.of(events.select(list(SCHEMA)), SCHEMA), on_bad="skip")
    ids = events["event_id"].to_pylist()
    return Counter((ids[place], str(id)) for place, id in zip(pairs.event.tolist(), pairs.subscription, strict=True))


#: What every batch test matches.
QUESTIONS, EVENTS = questions(900, seed=1), trades(600, seed=2)
#: The forms of the one verb that `Tables.verb` tries.
FORMS = ("match", "ids", "sql", "stream")
#: What the commands ``sync`` and ``sync_changes`` of a driver answer together (added, changed, removed, unchanged,
#: rejected), and what they leave.
SYNCED = [[2, 0, 0, 0, 1], [1, 1, 0, 1, 0], [1, 0, 1, 0, 0]]
LEFT = {"b": "price < 3", "c": "price > 2", "d": "price > 5"}
#: What the command ``join`` answers.
JOINED = {
    "covers": [["a", "a"], ["b", "a"], ["b", "b"]],
    "find": [["a", "b"]],
    "relation": [[1, 2, "covered_by"]],
    "ball": [[1, 7]],
    "range": [[1, 9]],
    "backtest": [["a", 1], ["b", 2]],
    "parquet": [[1, "a"], [1, "b"], [2, "b"]],
    "jsonl": [[1, "a"], [1, "b"], [2, "b"]],
}
#: Settings of Spark under which these small tables are still several tasks.
SETTINGS = {"spark_sql_shuffle_partitions": 2, "spark_sql_files_maxPartitionBytes": "16k"}


def expected() -> Pairs:
    """Return the pairs of `QUESTIONS` and `EVENTS`."""
    return matches(engine(QUESTIONS), EVENTS)


def pairs(rows: list[list[Any]]) -> Pairs:
    """Return the pairs that a driver answered."""
    return Counter((event, subscription) for event, subscription in rows)


class Tables:
    """`QUESTIONS` and `EVENTS` on disk, where every process of a test finds them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.subscriptions, self.events, self.snapshots = (str(place / name) for name in ("s", "e", "snapshots"))
        for path, table in ((self.subscriptions, QUESTIONS), (self.events, EVENTS)):
            Path(path).mkdir()
            half = len(table) // 2
            for number, part in enumerate((table.slice(0, half), table.slice(half))):
                pq.write_table(part, f"{path}/{number}.parquet")

    def write(self, directory: str = "") -> dict[str, Any]:
        """Return the command that compiles and indexes the subscriptions, in three parts."""
        where = {"subscriptions": self.subscriptions, "directory": directory or self.snapshots}
        return {"do": "write", "schema": SCHEMA.to_json(), "part_size": 300, **where}

    def match(self, directory: str = "") -> dict[str, Any]:
        """Return the command that matches the events, in small batches."""
        return {"do": "match", "events": self.events, "directory": directory or self.snapshots, "rows_per_batch": 100}

    def verb(self) -> dict[str, Any]:
        """Return the command that matches the events in each of `FORMS`."""
        return {"do": "verb", "events": self.events, "directory": self.snapshots, "place": str(self.place / "verb")}
