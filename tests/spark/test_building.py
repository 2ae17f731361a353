"""What the workers write, without Spark around them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import tamis
from tamis.engine import snapshot
from tamis.errors import SnapshotError
from tamis.spark.snapshots.building import Build, build_batches, read_built
from tamis.spark.subscriptions.compile import accepted_form

SCHEMA = tamis.Schema({"price": tamis.Number(), "volume": tamis.Number()})
FORM = to_arrow_schema(accepted_form("string"), timezone="UTC")
INFINITY = float("inf")


def built(rows: list[dict[str, object]], directory: Path) -> Path:
    """Return the version that a builder makes of accepted rows."""
    batch = pa.RecordBatch.from_pylist([{"namespace": "default", **row} for row in rows], schema=FORM)
    with snapshot.building(directory) as place:
        [reports] = build_batches(iter([batch]), task=Build(place.address, SCHEMA.to_json()))
        parts = [read_built(part) for part in reports.column("part").to_pylist()]
        return Path(snapshot.seal(place, snapshot.EngineState(SCHEMA, False, "packed", 0), parts))


def test_a_box_keeps_its_end_and_its_metadata(tmp_path: Path) -> None:
    box = {"lo": [1.0, -INFINITY], "hi": [INFINITY, 0.1]}
    rows = [{"id": "plain", **box}, {"id": "ends", "expires": 100, **box}, {"id": "told", **box}]
    rows[2]["metadata"] = [("who", "ann")]
    rows.append({"id": "everything", "expires": 100, "lo": [-INFINITY] * 2, "hi": [INFINITY] * 2})
    version = built(rows, tmp_path)
    event = {"price": 1.0, "volume": 0.1}
    early, late = (tamis.Engine.load(version, clock=lambda now=now: now) for now in (99, 100))
    assert early.match(event) == ["ends", "everything", "plain", "told"]
    assert late.match(event) == ["plain", "told"]
    assert early.match({"price": 1.0, "volume": 0.2}) == ["everything"]
    assert {subscription.id: dict(subscription.metadata) for subscription in late} == {
        "plain": {},
        "told": {"who": "ann"},
    }


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([{"id": "a", "namespace": "default", "filter": "price < 1"}], schema=FORM)
    task = Build(str(tmp_path / "gone" / ".building"), SCHEMA.to_json())
    with pytest.raises(SnapshotError, match="gone: this process cannot see the directory; every process"):
        next(build_batches(iter([batch]), task=task))


def test_a_place_that_takes_no_file(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist([{"id": "a", "namespace": "default", "filter": "price < 1"}], schema=FORM)
    (tmp_path / "place").touch()
    with pytest.raises(SnapshotError, match="cannot be written: Not a directory"):
        next(build_batches(iter([batch]), task=Build(str(tmp_path / "place"), SCHEMA.to_json())))
