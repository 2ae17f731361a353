"""Expressions, functions and types of users through Spark: workers import the modules that register them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.model.derived.functions import function_modules
from tamis.model.types import registry
from tamis.spark import check_events, compile_subscriptions, match, write_snapshot

SCHEMA = tamis.Schema({"weight": tamis.Number(), "zone": tamis.String(), "paid": tamis.Number(), "fee": tamis.Number()})
TEXTS = {
    "unpaid": "shipping(weight, zone) > paid",
    "dear": "shipping(weight, zone) + fee >= 12",
    "sum": "paid + fee > weight",
}
EVENTS = [
    {"id": 0, "weight": 3.0, "zone": "near", "paid": 5.0, "fee": 0.5},
    {"id": 1, "weight": 3.0, "zone": "near", "paid": 6.0, "fee": 6.0},
    {"id": 2, "weight": 3.0, "zone": "moon", "paid": 1.0, "fee": 9.0},
    {"id": 3, "weight": 3.0, "zone": "far", "paid": 1.0, "fee": None},
]
EXPECTED = {(0, "unpaid"), (0, "sum"), (1, "dear"), (1, "sum"), (2, "sum"), (3, "unpaid")}


@pytest.fixture
def own_functions() -> Iterator[str]:
    """The module that registers the functions; other tests list all functions there are."""
    module = importlib.import_module("tests.spark.own_functions")
    yield module.__name__
    tamis.unregister_function("shipping")
    del sys.modules[module.__name__]


def test_workers_import_the_functions_of_users(spark: Any, tmp_path: Path, own_functions: str) -> None:
    assert own_functions in function_modules()
    rows = list(TEXTS.items())
    frame = spark.createDataFrame(rows, "id string, filter string")
    accepted, rejected = compile_subscriptions(frame, schema=SCHEMA)
    assert rejected.count() == 0
    write_snapshot(accepted, tmp_path / "rules", schema=SCHEMA)
    form = "id long, weight double, zone string, paid double, fee double"
    events = spark.createDataFrame([tuple(event.values()) for event in EVENTS], form)
    deliveries = match(events, tmp_path / "rules", event_id="id").collect()
    assert {(row["event_id"], row["subscription_id"]) for row in deliveries} == EXPECTED


@pytest.fixture
def percent() -> Iterator[type[tamis.AttributeType]]:
    """A type of a user's own, forgotten afterwards."""
    module = importlib.import_module("tests.spark.own_types")
    yield module.Percent
    registry._TYPES.pop("percent")
    registry._IN_ORDER.remove(module.Percent)
    del sys.modules[module.__name__]


def test_workers_import_the_types_of_users(spark: Any, percent: type[tamis.AttributeType]) -> None:
    schema = tamis.Schema({"share": percent(), "shares": tamis.Many(percent())})
    rules = spark.createDataFrame([("large", "share > '9 %'"), ("one", "shares = '5 %'")], "id string, filter string")
    rows = [(1, "10 %", ["1 %"]), (2, "9 %", ["1 %", "5 %"]), (3, "ten", None)]
    events = spark.createDataFrame(rows, "event_id int, share string, shares array<string>")
    pairs = {(row["event_id"], row["subscription_id"]) for row in match(events, rules, schema=schema).collect()}
    assert pairs == {(1, "large"), (2, "one")}
    [bad] = check_events(events, schema=schema).collect()
    assert (bad["event_id"], "expected a share such as" in bad["reason"]) == (3, True)
