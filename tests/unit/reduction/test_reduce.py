"""`reduce`: what is left matches the same events, each reason is a proof, and order does not matter."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tamis.algebra.covers import equivalent, is_covered
from tamis.algebra.evaluate import matches_subscription
from tamis.errors import DuplicateSubscriptionError, ModelError, SchemaError
from tamis.model.language import limits
from tamis.model.language.compiler import compile_text
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import Subscription, SubscriptionId
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Boolean, Number, Region, String, Vector
from tamis.reduction import Reduction, merge, reduce
from tamis.reduction.stages.candidates import CandidateFinder
from tamis.reduction.stages.items import Item

SCHEMA = Schema(
    {"symbol": String(), "price": Number(), "volume": Number(), "halted": Boolean(), "area": Region(), "v": Vector(2)}
)


def mixed(rng: random.Random) -> str:
    """Write one subscription of several kinds of conditions."""
    low, x, y = rng.randint(0, 20), rng.randint(0, 3), rng.randint(0, 3)
    box = f"POLYGON(({x} {y}, {x + 2} {y}, {x + 2} {y + 2}, {x} {y + 2}, {x} {y}))"
    pool = [
        rng.choice([f"symbol = 'S{x}'", "symbol LIKE 'S%'", f"symbol LIKE '%{y}'", "symbol IN ('S1', 'S2')"]),
        rng.choice([f"price < {low}", f"price BETWEEN {low} AND {low + 6}", f"price >= {low}", "price IS NULL"]),
        rng.choice([f"volume > {low}", f"volume <> {low % 3}", f"volume <= {low}"]),
        rng.choice(["halted = TRUE", "halted IS NOT NULL", "halted <> TRUE"]),
        rng.choice([f"S_INTERSECTS(area, {box})", f"S_WITHIN(area, {box})", f"S_DISJOINT(area, {box})"]),
        f"V_WITHIN(v, ({x}, {y}), {rng.randint(0, 4)})",
    ]  # fmt: skip
    text = " AND ".join(rng.sample(pool, rng.choice([1, 1, 2, 2, 3])))
    return f"({text}) OR ({mixed(rng)})" if rng.random() < 0.2 else text


def sample(rng: random.Random) -> dict[str, Any]:
    values = {
        "symbol": rng.choice(["S0", "S1", "S2", "S3", "x", ""]),
        "price": rng.choice([0, 0.5, *range(1, 28)]),
        "volume": rng.randint(-1, 25),
        "halted": rng.random() < 0.5,
        "area": (rng.randint(0, 5), rng.randint(0, 5)),
        "v": [rng.randint(-2, 6), rng.randint(-2, 6)],
    }
    return {name: value for name, value in values.items() if rng.random() < 0.7}


def matching(event: dict[str, Any], some: Any) -> bool:
    return any(matches_subscription(event, subscription) for subscription in some)


def check_reasons(result: Reduction, originals: dict[SubscriptionId, Subscription]) -> None:
    remaining = {subscription.id: subscription for subscription in result.subscriptions}
    assert set(remaining) == {*result.kept, *result.merged}
    for id, by in result.covered.items():
        assert is_covered(originals[id].filters, remaining[by].filters)
    for id, by in result.equivalent.items():
        assert equivalent(originals[id], remaining[by], SCHEMA)
    for id, some in result.subsumed.items():
        assert len(some) > 1
        assert is_covered(originals[id].filters, [filter for by in some for filter in remaining[by].filters])
    for new, ids in result.merged.items():
        assert len(ids) > 1
        union = [filter for id in ids for filter in originals[id].filters]
        assert is_covered(union, remaining[new].filters)
        assert is_covered(remaining[new].filters, union)
    reported = [*result.kept, *result.covered, *result.equivalent, *result.subsumed, *result.impossible]
    reported += [id for ids in result.merged.values() for id in ids]
    assert sorted(map(str, reported)) == sorted(map(str, originals))


@pytest.mark.parametrize("seed", range(6))
def test_the_union_stays_the_same_and_reasons_are_proofs(seed: int) -> None:
    rng = random.Random(seed)
    originals = {id: compile_text(mixed(rng), SCHEMA, id=id) for id in [*range(40), *(f"s{i}" for i in range(40))]}
    result = reduce(originals.values(), SCHEMA)
    assert result.before == 80
    assert result.after < 80
    check_reasons(result, originals)
    for _ in range(400):
        event = SCHEMA.event(sample(rng))
        assert matching(event, originals.values()) == matching(event, result.subscriptions)


def test_the_order_of_the_input_does_not_matter() -> None:
    rng = random.Random(7)
    originals = [compile_text(mixed(rng), SCHEMA, id=f"{i:03}") for i in range(80)]
    first = reduce(originals, SCHEMA)
    rng.shuffle(originals)
    assert reduce(originals, SCHEMA) == first


def test_each_reason_once() -> None:
    result = reduce(
        {
            10: "x < 9", 2: "9 > x", "b": "x < 5", "never": "x < 1 AND x > 2",
            "m1": "y = 1", "m2": "y = 2", "u1": "z < 5", "u2": "z >= 5", "u": "z BETWEEN 1 AND 9",
        }
    )  # fmt: skip
    assert result.equivalent == {10: 2}
    assert result.covered == {"b": 2, "u": "u1+u2"}
    assert result.impossible == ("never",)
    assert result.merged == {"m1+m2": ("m1", "m2"), "u1+u2": ("u1", "u2")}
    assert result.kept == (2,)
    unmerged = reduce({"u1": "z < 5", "u2": "z >= 5", "u": "z BETWEEN 1 AND 9"}, merge=False)
    assert unmerged.subsumed == {"u": ("u1", "u2")}
    assert unmerged.kept == ("u1", "u2")
    assert json.loads(json.dumps(result.as_json()))["before"] == 9
    assert list(result.as_json()) == [
        "before",
        "kept",
        "covered",
        "equivalent",
        "subsumed",
        "merged",
        "impossible",
        "undecided",
    ]
    assert "9 subscriptions -> 3" in result.report()


def test_a_coverer_that_is_covered_is_not_named() -> None:
    result = reduce({"a": "x < 1", "b": "x < 2", "c": "x < 3"})
    assert result.covered == {"a": "c", "b": "c"}


def test_identical_subscriptions_keep_the_smallest_id() -> None:
    result = reduce(dict.fromkeys(["b", "a", 3, 20], "x < 1"))
    assert result.kept == (3,)
    assert result.equivalent == {20: 3, "a": 3, "b": 3}


def test_equivalents_that_are_not_the_same_object() -> None:
    result = reduce({"b": "s LIKE '%a%'", "a": "s LIKE '%%a%'", "c": "s LIKE '%a%%'"})
    assert result.kept == ("a",)
    assert result.equivalent == {"b": "a", "c": "a"}


def test_a_set_of_no_values_is_covered() -> None:
    assert reduce({"a": "x IS NULL OR x < 5", "b": "x IS NULL"}).covered == {"b": "a"}


def test_never_across_namespaces() -> None:
    subscription = compile_text("x < 1", id="a")
    result = reduce([subscription, replace(subscription, id="b", namespace="other"), replace(subscription, id="c")])
    assert result.kept == ("a", "b")
    assert result.equivalent == {"c": "a"}


def test_nothing_is_dropped_for_something_that_ends_earlier() -> None:
    wide, narrow = compile_text("x < 9", id="wide", expires=100), compile_text("x < 5", id="narrow")
    assert reduce([wide, narrow]).kept == ("narrow", "wide")
    assert reduce([wide, replace(narrow, expires=50)]).kept == ("wide",)
    assert reduce([wide, compile_text("9 > x", id="z")]).equivalent == {"wide": "z"}


def test_filters_that_end_at_different_times_are_not_merged() -> None:
    low, high = compile_text("x BETWEEN 0 AND 5", id="low", expires=100), compile_text("x BETWEEN 5 AND 9", id="high")
    assert reduce([low, high]).merged == {}
    together = reduce([low, replace(high, expires=100)])
    assert list(together.merged.values()) == [("high", "low")]
    assert [subscription.expires for subscription in together.subscriptions] == [100]


def test_one_id_in_two_namespaces() -> None:
    wide, narrow = compile_text("x < 9", id="a"), compile_text("x < 5", id="b")
    originals = [wide, narrow, replace(wide, namespace="other"), replace(narrow, namespace="other", id="c")]
    result = reduce(originals)
    assert result.kept == ("default/a", "other/a")
    assert result.covered == {"b": "default/a", "c": "other/a"}
    assert [(subscription.id, subscription.namespace) for subscription in result.subscriptions] == [
        ("a", "default"),
        ("a", "other"),
    ]
    merged = reduce(
        [compile_text(f"y = {i}", id=i) for i in (1, 2)]
        + [replace(compile_text(f"y = {i}", id=i), namespace="other") for i in (1, 2)]
    )
    assert merged.merged == {"1+2": ("default/1", "default/2"), "other/1+2": ("other/1", "other/2")}
    with pytest.raises(DuplicateSubscriptionError, match="'a' exists"):
        reduce([wide, replace(wide, namespace="other"), wide])


def test_errors() -> None:
    subscription = compile_text("x < 1", id="a")
    with pytest.raises(DuplicateSubscriptionError, match="'a' exists"):
        reduce([subscription, subscription])
    with pytest.raises(SchemaError, match="attribute 'x': known as a number"):
        reduce({"a": "x < 1", "b": "x = 'one'"})
    assert reduce({}).report().startswith("0 subscriptions -> 0")


def test_no_coverer_is_left_out_of_the_candidates() -> None:
    rng = random.Random(11)
    originals = [compile_text(mixed(rng), SCHEMA, id=i) for i in range(120)]
    items = [Item(subscription, SCHEMA) for subscription in originals if subscription.filters]
    scan = CandidateFinder(items)
    for row, (item, possible) in enumerate(zip(items, scan.may_cover(items), strict=True)):
        candidates = {candidate for candidate, _ in possible}
        truth = {i for i, other in enumerate(items) if i != row and is_covered(item.filters, other.filters, 50)}
        assert truth <= candidates
        assert {candidate for candidate, is_sure in possible if is_sure} - {row} <= truth
        assert truth <= set(scan.may_help(row, item))


def test_two_thousand_mixed_subscriptions(rng: np.random.Generator) -> None:
    """A few seconds. Counts only: time is for the benchmarks."""
    source = random.Random(int(rng.integers(1 << 30)))
    originals = {i: compile_text(mixed(source), SCHEMA, id=i) for i in range(2_000)}
    result = reduce(originals.values(), SCHEMA)
    check_reasons(result, originals)
    assert result.after < 500


def test_tables_of_boxes_and_texts() -> None:
    boxes = SubscriptionTable.from_boxes(["x", "y"], [[0, 0], [1, 1]], [[9, 9], [2, float("inf")]])
    assert reduce(boxes).kept == (0, 1)
    assert reduce(SubscriptionTable.from_boxes(["x"], [[0], [1]], [[9], [2]], ids=["a", "b"])).covered == {"b": "a"}
    names = [None, None, "other"]
    texts = pa.table({"id": ["a", None, "c"], "filter": ["x < 9", "x < 5", "x < 5"], "namespace": names})
    result = reduce(SubscriptionTable.from_arrow(texts))
    assert result.covered == {1: "a"}
    assert result.kept == ("a", "c")


def texts_of(result: Reduction, schema: Schema) -> list[str]:
    """Write what remains, and read it back."""
    written = [format_filters(subscription.filters, schema) for subscription in result.subscriptions]
    for text, subscription in zip(written, result.subscriptions, strict=True):
        assert compile_text(text, schema).filters == subscription.filters
    return written


def test_a_merge_can_be_read_back() -> None:
    schema = Schema({"x": Number()})
    many = reduce({i: f"x = {2 * i}" for i in range(10_500)}, schema)
    assert many.after == 2
    assert sum(map(len, many.merged.values())) == 10_500
    assert len(texts_of(many, schema)) == 2
    assert max(map(len, many.report().splitlines())) < 120
    assert "and 5,242 more" in many.report()
    long = reduce({i: f"x BETWEEN {10 * i} AND {10 * i + 1}" for i in range(1_200)}, schema)
    assert 1 < long.after < 10
    assert max(map(len, texts_of(long, schema))) <= limits.TEXT.most


def test_two_lists_that_are_too_long_together_are_not_merged() -> None:
    first, second = (f"x IN ({', '.join(str(2 * i + n) for i in range(6_000))})" for n in (0, 20_000))
    assert merge(first, second) is None
    assert reduce({"a": first, "b": second}).kept == ("a", "b")


@pytest.mark.parametrize("wrong", ["x < 2", ["x < 2"], 7, b"x", compile_text("x < 2")])
def test_what_is_not_a_set_of_subscriptions(wrong: Any) -> None:
    with pytest.raises(ModelError, match="expected a mapping of ids to subscriptions"):
        reduce(wrong)


@pytest.mark.parametrize("id", [True, 1.5, None, b"a", 2**63])
def test_ids_that_are_none(id: Any) -> None:
    with pytest.raises(ModelError, match="a subscription id is a string or an int64"):
        reduce({id: "x < 2"})
    with pytest.raises(ModelError, match="a subscription id is a string or an int64"):
        reduce([replace(compile_text("x < 2"), id=id)])


def test_numbering_the_rows_of_a_table_avoids_ids_that_are_given() -> None:
    rows = {"id": [1, None, 5, None], "filter": ["x < 1", "y < 1", "z < 1", "w < 1"]}
    assert reduce(SubscriptionTable.from_arrow(pa.table(rows))).kept == (1, 3, 5, 9)
    assert reduce(SubscriptionTable(2, [1, None], texts=["x < 1", "x < 2"])).covered == {1: 3}


def test_what_was_not_decided_is_named() -> None:
    """A cover that is true and takes 2**12 pieces to prove stays; the pair that differs is decided by an event."""
    either = " AND ".join(f"(x{i} ILIKE '%aa%' OR x{i} NOT ILIKE '%aa%')" for i in range(12))
    some = " AND ".join(f"(x{i} ILIKE '%ab%' OR x{i} NOT ILIKE '%b%')" for i in range(12))
    rules = {"wide": f"y ILIKE '%q%' AND {either}", "narrow": f"y ILIKE '%qq%' AND {some}", "apart": "z ILIKE '%net%'"}
    result = reduce(rules)
    assert (result.kept, result.undecided) == (("apart", "narrow", "wide"), ("narrow",))
    assert result.as_json()["undecided"] == ["narrow"]
    assert "kept, since the proof ran out of its budget\n  narrow" in result.report()
    reduced = reduce({**rules, "narrow": f"y ILIKE '%p%' AND {some}"})
    assert (reduced.kept, reduced.undecided) == (("apart", "narrow", "wide"), ())
