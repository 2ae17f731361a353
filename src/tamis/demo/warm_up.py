"""Compile the kernels of a job before the job needs them.

Kernels are compiled at their first call, for the types they meet. The functions of `PARTS` therefore run small jobs, on
counties, storms and earthquakes, and leave everything in the cache on disk, where Spark's workers find it: otherwise
each worker compiles the same kernels beside the others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tamis.demo import datasets
from tamis.demo.storm_questions import QUESTIONS
from tamis.engine import Engine
from tamis.kernels.cache import mark_path
from tamis.model.geometry_text import read_wkbs
from tamis.model.schema import Schema
from tamis.model.tables import EventTable, SubscriptionTable
from tamis.reduction.reduce import reduce

__all__ = ["PARTS", "are_kernels_compiled", "leave_mark"]

#: Counties of the small job: enough for an index of more than one block.
_COUNTIES = 400


def are_kernels_compiled() -> bool:
    """Return whether all of `PARTS` have filled the cache for this machine; True if there is no cache to fill."""
    mark = mark_path()
    return mark is None or mark.exists()


def leave_mark() -> None:
    """Note in the cache that all of `PARTS` ran."""
    mark = mark_path()
    if mark is not None:
        mark.touch()


def _compile_regions() -> None:
    """Match storms with questions of all kinds, and find the covers among the regions of earthquakes."""
    counties = datasets.county_subscriptions()
    _match(pa.concat_tables([counties.slice(0, _COUNTIES), _general_questions(counties)]), datasets.storms())
    quakes = datasets.earthquakes()
    reduce(_quake_questions(), Schema.from_arrow(quakes))


def _compile_values() -> None:
    """Match storms and earthquakes with questions about numbers, strings and text; those about regions come last."""
    _match(_general_questions(datasets.county_subscriptions()), datasets.storms())
    questions = _quake_questions()
    _match(pa.table({"id": list(questions), "filter": list(questions.values())}), datasets.earthquakes())


#: What is compiled, by name. The parts start with different kernels: processes beside each other share the work.
PARTS: dict[str, Callable[[], None]] = {"regions": _compile_regions, "values": _compile_values}


def _general_questions(counties: pa.Table) -> pa.Table:
    """Return the questions about storms that name no county: the last ones of the table."""
    return counties.slice(counties.num_rows - len(QUESTIONS))


def _quake_questions() -> dict[int | str, Any]:
    """Return the questions about earthquakes, and one for each region."""
    regions = datasets.quake_regions().to_pylist()
    wkt = _wkt([row["region"] for row in regions])
    texts = {row["code"]: f"S_WITHIN(epicentre, {text})" for row, text in zip(regions, wkt, strict=True)}
    return dict(datasets.quake_subscriptions()) | texts


def _match(subscriptions: pa.Table, events: pa.Table) -> None:
    """Index subscriptions, save the index, open it as a worker does, and match events with it."""
    schema = Schema.from_arrow(events)
    engine = Engine(schema)
    engine.subscribe_table(SubscriptionTable.from_arrow(subscriptions))
    engine.wait()
    with tempfile.TemporaryDirectory(prefix="tamis-kernels-") as directory:
        engine.save(Path(directory) / "saved")
        opened = Engine.load(Path(directory) / "saved")
        for batch in (events.slice(0, 1), events):
            opened.match_table(EventTable.of(batch, schema), on_bad="skip")


def _wkt(regions: list[bytes]) -> list[str]:
    import shapely

    return list(shapely.to_wkt(read_wkbs(regions), rounding_precision=17))
