"""The benchmark of a broker runs, and what it delivers is checked; no figure decides anything here."""

from __future__ import annotations

import pytest

from tamis.errors import InvariantError
from tamis.workload.bench.serve import Load, Run, _check, measure_serve
from tamis.workload.bench.serve_clients import Arrivals
from tests.server.mosquitto import needs_mosquitto

FEW = Load(n=300, readers=3, events=600, singles=40, seconds=0.2)


def test_every_number_of_a_broker_is_there() -> None:
    rows = {row.what: row for row in measure_serve(FEW, ["ours"])}
    assert list(rows) == [
        *("serve load", "serve", "serve cpu", "serve single", "serve single cpu"),
        *("serve p50", "serve p99", "serve memory"),
    ]
    assert all(row.rate is not None and row.rate >= 0 for row in rows.values())
    assert rows["serve"].as_json()["unit"] == "events/s"


@needs_mosquitto
def test_every_number_of_mosquitto_is_there() -> None:
    rows = list(measure_serve(FEW, ["mosquitto"]))
    assert [row.what for row in rows] == ["serve single", "serve p50", "serve p99"]
    assert all(row.rate for row in rows)


def test_a_copy_too_few_or_too_many_stops_it() -> None:
    run = Run(None, Arrivals.__new__(Arrivals), [1, 0, 2], published=3)  # type: ignore[arg-type]
    run.arrivals.seen = [(1, 0.0), (3, 0.0), (3, 0.1)]
    _check(run)
    run.arrivals.seen = [(1, 0.0), (2, 0.0), (3, 0.1)]
    with pytest.raises(InvariantError, match="1 copies are missing, 1 are too many"):
        _check(run)
