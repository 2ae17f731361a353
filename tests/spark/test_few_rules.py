"""Few rules decided in the driver, without Spark: the version afterwards is what the table says, by least change."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis.spark.snapshots.differences import _ROW_BYTES, _changed
from tamis.spark.snapshots.few_rules import DELETED, decide
from tamis.spark.snapshots.fingerprints import Buckets
from tamis.spark.subscriptions.compiling import Compile

SCHEMA = tamis.Schema({"price": tamis.Number()})
METADATA = pa.map_(pa.string(), pa.string())
CHANGES = pa.schema(
    {"id": pa.string(), "namespace": pa.string(), "expires": pa.string(), "metadata": METADATA, "filter": pa.string()}
    | {DELETED: pa.bool_()}
)
SAVED = pa.schema(
    {"part": pa.int32(), "row": pa.int32(), "namespace": pa.string(), "id": pa.string(), "filter": pa.string()}
    | {"expires": pa.int64(), "metadata": METADATA}
)
SIDES = pa.list_(pa.float64())
FORM = pa.schema(
    {"id": pa.string(), "namespace": pa.string(), "filter": pa.string(), "expires": pa.int64(), "metadata": METADATA}
    | {"lo": SIDES, "hi": SIDES, "reason": pa.string(), "position": pa.int32()}
)

#: What rules say: two that differ in metadata or end alone, some that cannot be compiled, and none at all.
SAYINGS: list[tuple[str | None, str | None, list[tuple[str, str]] | None]] = [
    ("price < 1", None, None),
    ("price < 1", None, [("a", "1")]),
    ("price < 1", "2030-01-01T00:00:00Z", None),
    ("price < 2", None, None),
    ("price < 3", None, None),
    ("price < 1", None, []),  # the same as no metadata
    ("price < 1", "2030-01-01t02:00:00+02:00", None),  # an equal end in another text, one that Spark does not read
    ("price >>", None, None),
    ("price < 1", "tomorrow", None),
    ("price < 1", "--5", None),
    ("price < 1", "9" * 5_000, None),
    (None, None, None),
]
END = 1893456000000000
ENDS = (None, "2030-01-01T00:00:00Z", "2030-01-01t02:00:00+02:00")
GOOD = 7


def meaning(saying: tuple[Any, ...]) -> tuple[Any, ...]:
    text, expires, metadata = saying
    return text, END if expires else None, tuple(metadata or ())


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_version_afterwards_is_what_the_table_says(seed: int, whole: bool) -> None:
    chance = random.Random(seed)
    keys = [(space, name) for space in ("default", "other") for name in "abcdefgh"]
    saved = {key: chance.choice(SAYINGS[:GOOD]) for key in keys if chance.random() < 0.6}
    changes = [(key, chance.choice(SAYINGS)) for key in keys if chance.random() < 0.7]
    changes += [
        (key, chance.choice([saying, chance.choice(SAYINGS)])) for key, saying in changes if chance.random() < 0.3
    ]
    removed = set() if whole else {key for key in keys if chance.random() < 0.2} - {key for key, _ in changes}
    few = decide(
        _changes_table(changes, removed), _saved_table(saved), Compile(SCHEMA.to_json(), None), FORM, whole=whole
    )

    sayings: dict[Any, set[Any]] = {}
    for key, saying in changes:
        sayings.setdefault(key, set()).add((saying[0], saying[1], tuple(saying[2] or ())))
    # The oracle: a rule is what its only saying means, if that can be compiled; else it is none.
    wanted = {
        key: meaning(saying) for key, saying in saved.items() if not whole and key not in sayings.keys() | removed
    }
    compiled = {meaning(saying) for saying in SAYINGS[:GOOD]}
    for key, alternatives in sayings.items():
        [first, *others] = alternatives
        if not others and first[1] in ENDS and meaning(first) in compiled:
            wanted[key] = meaning(first)

    rows = dict(enumerate(saved))
    left = {rows[row] for row in few.leaving["row"].to_pylist()}
    entered = {(row["namespace"], row["id"]): row for row in few.entering.to_pylist()}
    result = {key: meaning(saying) for key, saying in saved.items() if key not in left}
    assert not result.keys() & entered.keys()
    result |= {
        key: (row["filter"], row["expires"], tuple(map(tuple, row["metadata"] or ()))) for key, row in entered.items()
    }
    assert result == wanted
    before = {key: meaning(saying) for key, saying in saved.items()}
    assert entered.keys() == {key for key in wanted if before.get(key) != wanted[key]}  # nothing enters without need
    assert few.counts == Counter(
        added=len(wanted.keys() - before.keys()),
        changed=len(entered.keys() & before.keys()),
        removed=len(before.keys() - wanted.keys()),
        unchanged=len({key for key in sayings if key in wanted and before.get(key) == wanted[key]}),
    )
    rejected = Counter((row["namespace"], row["id"]) for row in few.rejected.to_pylist())
    assert rejected.keys() == sayings.keys() - wanted.keys()
    assert all(row["reason"] for row in few.rejected.to_pylist())


def test_rows_without_an_id_are_rejected() -> None:
    nameless = [(("default", None), SAYINGS[0]), (("default", None), SAYINGS[0])]
    few = decide(_changes_table(nameless, set()), _saved_table({}), Compile(SCHEMA.to_json(), None), FORM, whole=True)
    assert [row["reason"] for row in few.rejected.to_pylist()] == ["there is no id"]
    assert (len(few.leaving), len(few.entering), few.counts) == (0, 0, Counter())


def test_rules_in_the_driver_take_no_more_than_they_are_counted_as() -> None:
    n = 2_000
    saved = {("default", f"rule {i}"): (f"price < {i}", None, [("owner", "x")]) for i in range(n)}
    # The most: every rule changes.
    changes = [(key, (f"price <= {i}", None, [("owner", "x")])) for i, key in enumerate(saved)]
    tables = _changes_table(changes, set()), _saved_table(saved)
    decide(tables[0].slice(0, 1), tables[1].slice(0, 1), Compile(SCHEMA.to_json(), None), FORM, whole=False)
    tracemalloc.start()
    decide(*tables, Compile(SCHEMA.to_json(), None), FORM, whole=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * n * _ROW_BYTES


def test_the_rules_of_a_version_are_counted_as_the_given_ones() -> None:
    buckets = Buckets.of(1_000)
    part = SimpleNamespace(n_rows=1_000, files={"rules.arrow": SimpleNamespace(bytes=24_000)})
    unequal = pa.table({"bucket": pa.array(range(1 << buckets.bits), pa.int32()), "bytes": [0] * (1 << buckets.bits)})
    changed = _changed(buckets, unequal, 0, SimpleNamespace(parts=[part]))  # type: ignore[arg-type]
    assert changed.n_bytes == 24_000 + 1_000 * _ROW_BYTES


def _changes_table(changes: list[Any], removed: set[Any]) -> pa.Table:
    rows = [
        {"namespace": key[0], "id": key[1], "filter": text, "expires": expires, "metadata": metadata, DELETED: False}
        for key, (text, expires, metadata) in changes
    ]
    rows += [{"namespace": space, "id": name, DELETED: True} for space, name in sorted(removed)]
    return pa.Table.from_pylist(rows, schema=CHANGES)


def _saved_table(saved: dict[Any, Any]) -> pa.Table:
    rows = [
        {"part": 0, "row": row, "namespace": key[0], "id": key[1], "filter": text}
        | {"expires": END if expires else None, "metadata": metadata}
        for row, (key, (text, expires, metadata)) in enumerate(saved.items())
    ]
    return pa.Table.from_pylist(rows, schema=SAVED)
