"""Compile the kernels of a job before the job needs them.

Kernels are compiled at their first call, for the types they meet. `compile_kernels` therefore runs a small job, on a
few counties, storms and earthquakes, and leaves everything in the cache on disk, where Spark's workers find it:
otherwise each worker compiles the same kernels beside the others.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from tamis.demo import datasets
from tamis.engine import Engine
from tamis.kernels.cache import mark_path
from tamis.model.schema import Schema
from tamis.model.tables import EventTable, SubscriptionTable
from tamis.reduction.reduce import reduce

__all__ = ["are_kernels_compiled", "compile_kernels"]

#: Subscriptions and events of the small job: enough for an index of more than one block.
_COUNTIES = 400
_EVENTS = 2_000


def are_kernels_compiled() -> bool:
    """Return whether `compile_kernels` has filled the cache for this machine; True if there is no cache to fill."""
    mark = mark_path()
    return mark is None or mark.exists()


def compile_kernels() -> None:
    """Compile the kernels that indexing, matching and reducing use, unless the cache has them."""
    if are_kernels_compiled():
        return
    storms = datasets.storms()
    with_field = storms.filter(storms["disc"].is_valid()).slice(0, _EVENTS)
    counties = datasets.county_subscriptions()
    _match(pa.concat_tables([counties.slice(0, _COUNTIES), counties.slice(counties.num_rows - 20)]), with_field)
    quakes = datasets.earthquakes()
    asked: dict[int | str, Any] = {}
    asked.update(datasets.quake_subscriptions())
    regions = [row for row in datasets.quake_regions().to_pylist() if row["code"].startswith("US-")]  # most quakes
    wkt = _wkt([row["region"] for row in regions])
    asked |= {row["code"]: f"S_WITHIN(epicentre, {text})" for row, text in zip(regions, wkt, strict=True)}
    _match(pa.table({"id": list(asked), "filter": list(asked.values())}), quakes)
    reduce(asked, Schema.from_arrow(quakes))
    mark = mark_path()
    if mark is not None:
        mark.touch()


def _match(subscriptions: pa.Table, events: pa.Table) -> None:
    """Index subscriptions, save the index, open it as a worker does, and match events with it."""
    schema = Schema.from_arrow(events)
    engine = Engine(schema)
    engine.subscribe_table(SubscriptionTable.from_arrow(subscriptions))
    engine.wait()
    with tempfile.TemporaryDirectory(prefix="tamis-kernels-") as directory:
        engine.save(Path(directory) / "saved")
        opened = Engine.load(Path(directory) / "saved")
        for some in (events.slice(0, 1), events):
            opened.match_table(EventTable.of(some, schema), on_bad="skip")


def _wkt(regions: list[bytes]) -> list[str]:
    import shapely

    return list(shapely.to_wkt(shapely.from_wkb(regions), rounding_precision=17))
