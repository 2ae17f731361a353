"""Three linked brokers for a demonstration: storms at one, the counties of two coasts at the others.

Positions of storms are published at the broker ``storms``, which also holds the questions of some people. The counties
of the Gulf and of the Atlantic coast subscribe at brokers of their own: a storm on the open sea never reaches them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import shapely

from tamis.demo.datasets import counties, storms
from tamis.demo.storm_questions import QUESTIONS, ask_about_county
from tamis.model.geometry_text import read_wkb
from tamis.model.schema import Schema
from tamis.model.subscription import SubscriptionId

__all__ = ["COASTS", "HUB", "coast_questions", "people_questions", "storm_events", "storm_schema"]

#: The broker at which storms are published.
HUB = "storms"

#: By broker: the states whose counties subscribe there.
COASTS = {
    "gulf": ("TX", "LA", "MS", "AL", "FL"),
    "atlantic": ("GA", "SC", "NC", "VA", "MD", "DE", "NJ", "NY", "CT", "RI", "MA", "PR"),
}

#: The first storm of the replay: the season of Katrina, Rita and Wilma.
_FIRST = "2005-08"


def people_questions() -> dict[SubscriptionId, str]:
    """Return the questions that people ask at the hub, by id; those that can never match are left out.

    >>> people_questions()["katrina"]
    "storm = 'Katrina-2005'"
    """
    return {id: text for id, text in QUESTIONS.items() if id != "impossible"}


def coast_questions(broker: str) -> dict[SubscriptionId, str]:
    """Return what the counties of one coast ask, by id: storms whose wind field reaches the county.

    >>> len(coast_questions("gulf"))
    551
    """
    table = counties()
    coast = table.filter(pc.is_in(table["state"], pa.array(COASTS[broker])))
    return dict(ask_about_county(**county) for county in coast.select(["fips", "part", "region"]).to_pylist())


def storm_schema() -> str:
    """Return the schema of storm positions as JSON, as brokers read it.

    >>> storm_schema()[:40]
    '{"attributes":{"id":{"type":"string"},"s'
    """
    return Schema.from_arrow(storms()).to_json()


def storm_events() -> list[dict[str, Any]]:
    """Return all positions with a measured wind field as a publisher writes them, from August 2005 on, then from 2004.

    >>> events = storm_events()
    >>> len(events), events[0]["at"][:7], "category" in events[0]
    (7104, '2005-08', False)
    """
    table = storms()
    rows = table.filter(pc.is_valid(table["disc"])).to_pylist()
    for row in rows:
        row["at"] = row["at"].isoformat()
        row["disc"] = shapely.to_wkt(read_wkb(row["disc"]), rounding_precision=4)
    events = [{name: value for name, value in row.items() if value is not None} for row in rows]
    first = next(number for number, event in enumerate(events) if event["at"] >= _FIRST)
    return events[first:] + events[:first]
