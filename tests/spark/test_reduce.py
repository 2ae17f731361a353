"""Reduce on Spark: what the engine's own reduce keeps, however the set is cut; and no subscriber loses a delivery."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import InvariantError, TableError
from tamis.model.language.compiler import compile_text
from tamis.model.values import moment
from tamis.reduction import cover_partition
from tamis.spark import (
    Reduced,
    ReductionCounts,
    compile_subscriptions,
    match,
    reduce_subscriptions,
    write_snapshot,
)
from tamis.spark.reduction.part_pairs import covered_by_parts
from tests.spark.worlds import COLUMNS, SCHEMA, pairs, rows, texts


def some_texts(n: int, seed: int) -> dict[str, str]:
    """Return questions among which some cover others, alone or together, some are equal, some impossible."""
    rng = random.Random(seed)
    halves = texts(2 * (n // 3), seed)
    filters = {f"t{i:03}": f"({a}) AND {b}" for i, (a, b) in enumerate(zip(halves[::2], halves[1::2], strict=True))}
    for i in range(n - n // 3):
        x, width, y = rng.randrange(0, 90), rng.choice([2, 5, 20, 60]), rng.randrange(5)
        filters[f"b{i:03}"] = f"price BETWEEN {x} AND {x + width} AND volume BETWEEN {y} AND {y + rng.randrange(3)}"
    filters["never"] = "price < 1 AND price > 2"
    for id, (low, high) in {"whole": (0, 10), "left": (-5, 6), "right": (5, 30), "inside": (1, 3)}.items():
        filters[id] = f"volume = -9 AND price BETWEEN {low} AND {high}"
    filters |= {"one": "volume = -5 AND price < 3", "other": "volume = -5 AND price >= 3"}
    filters |= {"pair": "volume = -7 AND symbol = 'Z'", "twin": "symbol = 'Z' AND volume = -7"}
    return filters


@pytest.fixture(scope="module")
def filters() -> dict[str, str]:
    return some_texts(100, seed=31)


@pytest.fixture(scope="module")
def accepted(spark: Any, filters: dict[str, str]) -> Any:
    frame = spark.createDataFrame(list(filters.items()), "id string, filter string")
    return compile_subscriptions(frame, schema=SCHEMA)[0]


@pytest.fixture(scope="module")
def whole(accepted: Any) -> Reduced:
    """The reduction in one piece."""
    return reduce_subscriptions(accepted, schema=SCHEMA)


def reasons_of(reduced: Reduced) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {row["id"]: (row["rule"], tuple(row["by"])) for row in reduced.removed.collect()}


def remaining(reduced: Reduced) -> set[tuple[str, str]]:
    return {(row["id"], row["filter"]) for row in reduced.summary.select("id", "filter").collect()}


def test_it_keeps_what_the_engines_reduce_keeps(filters: dict[str, str], whole: Reduced) -> None:
    wanted = tamis.reduce(filters, SCHEMA)
    reasons = reasons_of(whole)
    assert {id for id, _ in remaining(whole)} == {*wanted.kept, *wanted.merged}
    by_rule = {
        rule: {id for id, (removed_by, _) in reasons.items() if removed_by == rule}
        for rule in ("impossible", "equivalent")
    }
    assert by_rule == {"impossible": set(wanted.impossible), "equivalent": set(wanted.equivalent)}
    merged = {id: new for new, ids in wanted.merged.items() for id in ids}
    assert {id: by for id, (rule, by) in reasons.items() if rule == "merged"} == {
        id: (new,) for id, new in merged.items()
    }
    assert reasons.keys() == filters.keys() - set(wanted.kept)
    assert min(len(wanted.covered), len(wanted.subsumed), len(wanted.merged), len(wanted.equivalent)) > 0
    counts = whole.counts
    assert (counts.before, counts.after, counts.kept) == (len(filters), wanted.after, len(wanted.kept))
    assert (counts.merged, counts.merged_into) == (len(merged), len(wanted.merged))


def test_every_reason_is_a_proof(filters: dict[str, str], whole: Reduced) -> None:
    stays = dict(remaining(whole))
    for id, (rule, by) in reasons_of(whole).items():
        if rule in ("covered", "equivalent", "merged"):
            assert tamis.covers(stays[by[0]], filters[id], SCHEMA), (id, by)
        elif rule == "subsumed":
            assert tamis.subsumed(filters[id], {other: stays[other] for other in by}, SCHEMA).yes, (id, by)
        else:
            assert by == ()


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param({"tile_by": ["price"], "tiles": 7}, marks=pytest.mark.soak),
        {"tile_by": ["price", "volume"], "tiles": 9},
        {"tile_by": ["area"], "tiles": 4},
    ],
)
def test_the_result_does_not_depend_on_how_space_is_cut(accepted: Any, whole: Reduced, cut: dict[str, Any]) -> None:
    reduced = reduce_subscriptions(accepted.repartition(3), schema=SCHEMA, **cut)
    assert remaining(reduced) == remaining(whole)
    assert reasons_of(reduced) == reasons_of(whole)
    assert reduced.counts.replication > 1
    assert whole.counts.replication == 1
    reduced.release()


def test_more_than_one_worker_holds(filters: dict[str, str], accepted: Any, whole: Reduced) -> None:
    """Axes are chosen, who is covered by one other is found all the same, unions and merges are not sought."""
    reduced = reduce_subscriptions(accepted, schema=SCHEMA, at_once=20)
    reasons = reasons_of(reduced)
    assert {rule for rule, _ in reasons.values()} == {"covered", "equivalent", "impossible"}
    assert reduced.counts.untried == reduced.counts.kept == reduced.counts.after > 20
    assert reduced.counts.replication > 1
    kept = {id for id, _ in remaining(reduced)}
    assert kept | reasons.keys() == filters.keys()
    assert reasons.keys() <= reasons_of(whole).keys()
    again = tamis.reduce({id: filters[id] for id in kept}, SCHEMA, merge=False)
    assert (again.covered, again.equivalent, again.impossible) == ({}, {}, ())


def unbounded_texts(n: int, seed: int) -> dict[str, str]:
    """Return questions about text, moments, patterns and balls, none of which bounds a number or a region."""
    rng, filters = random.Random(seed), dict[str, str]()
    for i in range(n):
        day, word, x = rng.randrange(1, 25), rng.choice("ABC") + rng.choice("xy"), rng.randrange(4)
        filters[f"u{i:03}"] = rng.choice(
            [
                f"at >= TIMESTAMP('2026-01-{day:02}T00:00:00Z') AND at < TIMESTAMP('2026-02-{day:02}T00:00:00Z')",
                f"at >= TIMESTAMP('2026-01-{day:02}T00:00:00Z')",
                f"symbol = '{word}'",
                f"symbol LIKE '{word[0]}%' AND halted = {str(bool(x % 2)).upper()}",
                f"symbol IN ('{word}', 'A{x}')",
                f"V_WITHIN(look, ({x}, {x % 2}), {rng.randrange(1, 5)})",
            ]
        )
    return filters | {"never": "symbol = 'A' AND symbol = 'B'", "wide": "symbol LIKE 'A%'", "again": "symbol LIKE 'A%'"}


def test_a_set_that_no_axis_cuts(spark: Any) -> None:
    """Text, moments, patterns and balls: pairs of parts give what one worker gives, and every reason is a proof."""
    filters = unbounded_texts(120, seed=33)
    ends = {"u000": "2050-01-01T00:00:00Z", "again": "2040-01-01T00:00:00Z"}
    table = [(id, text, "blue" if id.endswith("7") else None, ends.get(id)) for id, text in filters.items()]
    frame = spark.createDataFrame(table, "id string, filter string, namespace string, expires string")
    rules, rejected = compile_subscriptions(frame, schema=SCHEMA)
    assert rejected.count() == 0
    rows, cached = covered_by_parts(rules, SCHEMA, 4)
    results = {row["id"]: (row["rule"], row["by"]) for row in rows.collect()}
    cached.unpersist()
    reasons = {id: reason for id, reason in results.items() if reason[0] is not None}
    assert results.keys() == filters.keys()
    wanted, stays = set[Any](), dict[str, list[str]]()
    for space in ("blue", None):
        mine = [row for row in table if row[2] == space]
        compiled = [
            replace(compile_text(text, SCHEMA, id=id), expires=moment(end) if end else None)
            for id, text, _, end in mine
        ]
        local = cover_partition(compiled, SCHEMA)
        wanted |= {*local.covered, *local.equivalent, *local.impossible}
        for id in (id for id, *_ in mine if id in reasons):
            stays[id] = sorted(
                other for other, *_ in mine if other not in reasons and ends.get(other, "9") >= ends.get(id, "9")
            )
    assert reasons.keys() == wanted
    assert reasons.pop("never") == ("impossible", [])
    for id, (rule, by) in reasons.items():
        covers = [other for other in stays[id] if tamis.covers(filters[other], filters[id], SCHEMA).yes]
        assert by == covers[:1], (id, rule)
        assert rule == ("equivalent" if tamis.covers(filters[id], filters[by[0]], SCHEMA).yes else "covered"), id
    assert reasons["again"] == ("equivalent", ["wide"])  # which never ends
    reduced = reduce_subscriptions(rules, schema=SCHEMA, at_once=60)
    assert reduced.counts.replication == 2 * 5 - 1  # five parts: chosen, because no axis is bounded
    assert reasons_of(reduced).keys() >= reasons.keys()
    reduced.release()


def test_boxes_namespaces_and_ends(spark: Any) -> None:
    table = [(i, float(i % 7), float(i % 7 + i % 5), "red" if i % 3 else None, None) for i in range(60)]
    table += [(100, -1.0, 50.0, "blue", "2050-01-01T00:00:00Z"), (101, 0.0, 9.0, "blue", None)]
    frame = spark.createDataFrame(table, "id long, low double, high double, namespace string, expires string")
    boxes, _ = compile_subscriptions(frame, schema=SCHEMA, columns={"price": ("low", "high")})
    reduced = reduce_subscriptions(boxes, schema=SCHEMA, merge=False)
    cut = reduce_subscriptions(boxes, schema=SCHEMA, merge=False, tile_by=["price"], tiles=5)
    assert reasons_of(cut) == reasons_of(reduced)
    for space in ("red", "default"):
        some = {id: f"price BETWEEN {lo} AND {hi}" for id, lo, hi, name, _ in table if (name or "default") == space}
        wanted = tamis.reduce(some, SCHEMA, merge=False)
        kept = reduced.summary.where(f"namespace = '{space}'").select("id").collect()
        assert {int(row["id"]) for row in kept} == set(wanted.kept)
    blue = reduced.summary.where("namespace = 'blue'").collect()
    assert {row["id"] for row in blue} == {"100", "101"}  # the wide one ends, the narrow one does not


def test_every_subscriber_still_gets_what_it_subscribed_to(
    spark: Any, accepted: Any, whole: Reduced, tmp_path: Path
) -> None:
    events = spark.createDataFrame(rows(150, seed=32), COLUMNS)
    write_snapshot(accepted, tmp_path / "off", schema=SCHEMA)
    write_snapshot(accepted, tmp_path / "on", schema=SCHEMA, summary=whole)
    off, on = (pairs(match(events, tmp_path / name)) for name in ("off", "on"))
    assert off == on
    assert {id for _, id in on} & reasons_of(whole).keys()  # covered subscribers are among those that are notified
    write_snapshot(whole.summary, tmp_path / "link", schema=SCHEMA)
    carried = pairs(match(events, tmp_path / "link"))
    assert {event for event, _ in carried} == {
        event for event, _ in on
    }  # the link misses no event, and carries no other


def test_what_a_caller_can_get_wrong(spark: Any, accepted: Any) -> None:
    with pytest.raises(TableError, match="has no column 'namespace'"):
        reduce_subscriptions(spark.range(3), schema=SCHEMA)
    with pytest.raises(TableError, match="at_once: expected a whole number of at least 1, got 0"):
        reduce_subscriptions(accepted, schema=SCHEMA, at_once=0)
    with pytest.raises(tamis.SchemaError, match="cut by a number or a region"):
        reduce_subscriptions(accepted, schema=SCHEMA, tile_by=["symbol"])
    with pytest.raises(InvariantError, match="a subscription was lost"):
        ReductionCounts(10, 4, 2, 1, 1, 1, 1, 0, 0, 1.0).check()


def test_a_schema_that_is_not_that_of_the_subscriptions(spark: Any) -> None:
    frame = spark.createDataFrame([(1, "symbol = 'A'", 0.0, 9.0)], "id int, filter string, low double, high double")
    by_text, _ = compile_subscriptions(frame, schema=SCHEMA)
    boxes, _ = compile_subscriptions(frame, schema=SCHEMA, columns={"price": ("low", "high")})
    number = {"price": tamis.Number()}
    for accepted, schema, problem in (
        (by_text, number, r"attribute 'symbol': unknown \(known are price\), at column 1"),
        (by_text, {"symbol": tamis.Number()}, "attribute 'symbol': it is a number, and 'A' does not fit"),
        (boxes, number, r"a box has 2 numbers, the schema 1 \(price\)"),
        (boxes, {"symbol": tamis.String()}, r"a box has 2 numbers, the schema 0 \(none\)"),
    ):
        hint = "give the schema with which they were compiled"
        message = f"^the schema does not fit the accepted subscriptions: {problem}.*; {hint}$"
        with pytest.raises(tamis.SchemaError, match=message):
            reduce_subscriptions(accepted, schema=tamis.Schema(schema))
