"""Subscriptions of three kinds for networks of brokers, each with about 0.6 matches per event at 100,000 subscriptions.

=======  =====================================================================================================
ranges   four ranges, as `tamis bench serve` has them (uniform4)
texts    a symbol of 100,000 and a limit of its price; one in five with OR, one in five with a prefix of a venue
regions  stars of eight vertices in a square of 1,000; an event is a point
=======  =====================================================================================================

*Drawn* events are independent of the subscriptions. *Aimed* events lie in a subscription each, so that latencies of
deliveries can be measured with few subscriptions, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import shapely

from tamis.engine import Engine
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number, Region, String
from tamis_bench.workloads.boxes import box_events, box_texts, make_boxes
from tamis_bench.workloads.regions import star_regions

__all__ = ["KINDS", "NetworkWork", "make_network_work"]

_N_SYMBOLS: Final = 100_000
_VENUES: Final = ("amsterdam", "london", "newyork", "tokyo")
#: At most this far are the vertices of a region from its centre: 6 of 1,000,000 units of area are inside.
_RADIUS: Final = 2.15

Events = list[dict[str, Any]]


#: Event and subscription of each match, int64[matches] both.
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class NetworkWork:
    """Subscriptions as text and the pool of events: ``n_drawn`` drawn ones, aimed ones behind them.

    ``find_pairs`` is the oracle: from the pool it returns all matches.
    """

    kind: str
    schema: Schema
    texts: list[str]
    events: Events
    n_drawn: int
    find_pairs: Callable[[Events], Pairs]


def make_network_work(kind: str, n: int, n_drawn: int, n_aimed: int, seed: int = 1) -> NetworkWork:
    """Make one of `KINDS`: the same arguments give the same subscriptions and events everywhere.

    >>> work = make_network_work("texts", 100, 10, 5)
    >>> len(work.texts), len(work.events), set(range(10, 15)) <= set(work.find_pairs(work.events)[0].tolist())
    (100, 15, True)
    """
    schema, texts, drawn, aimed, find_pairs = KINDS[kind](np.random.default_rng(seed), n, n_drawn, n_aimed)
    return NetworkWork(kind, schema, texts, drawn + aimed, n_drawn, find_pairs)


_Parts = tuple[Schema, list[str], Events, Events, Callable[[Events], Pairs]]


def _engine_pairs(schema: Schema, table: SubscriptionTable, events: Events) -> Pairs:
    """Return what one engine says."""
    engine = Engine(schema)
    engine.subscribe_table(table)
    matches = engine.match_table(pa.table({name: [event[name] for event in events] for name in schema}))
    return np.repeat(np.arange(len(events)), np.diff(matches.offsets)), matches.rows.astype(np.int64)


def _ranges(rng: np.random.Generator, n: int, n_drawn: int, n_aimed: int) -> _Parts:
    work = make_boxes("uniform4", n, n_drawn)
    rows = rng.integers(0, n, n_aimed)
    points = work.lo[rows] + rng.random((n_aimed, 4)) * (work.hi - work.lo)[rows]
    aimed = [dict(zip(work.names, point, strict=True)) for point in points.tolist()]
    schema = Schema({name: Number(0, 1_000) for name in work.names})
    table = SubscriptionTable.from_boxes(work.names, work.lo, work.hi)
    oracle = partial(_engine_pairs, schema, table)
    return schema, box_texts(work), box_events(work, range(n_drawn)), aimed, oracle


def _texts(rng: np.random.Generator, n: int, n_drawn: int, n_aimed: int) -> _Parts:
    symbols, limits = rng.integers(0, _N_SYMBOLS, (n, 2)), np.round(rng.random(n) * 1_000, 2)
    forms, venues = rng.integers(0, 5, n), rng.integers(0, len(_VENUES), n)
    texts = []
    for (symbol, other), limit, form, venue in zip(symbols.tolist(), limits.tolist(), forms, venues, strict=True):
        text = f"symbol = 'S{symbol:06}' AND price <= {limit}"
        if form == 0:
            text = f"{text} OR symbol = 'S{other:06}' AND price >= {limit}"
        elif form == 1:
            text = f"{text} AND venue LIKE '{_VENUES[venue][:3]}%'"
        texts.append(text)
    drawn = _trades(rng, rng.integers(0, _N_SYMBOLS, n_drawn), np.full(n_drawn, 1_000.0), rng.integers(0, 4, n_drawn))
    rows = rng.integers(0, n, n_aimed)
    schema = Schema({"symbol": String(), "price": Number(0, 1_000), "venue": String()})
    oracle = partial(_engine_pairs, schema, SubscriptionTable.from_arrow(pa.table({"filter": texts})))
    return schema, texts, drawn, _trades(rng, symbols[rows, 0], limits[rows], venues[rows]), oracle


def _trades(rng: np.random.Generator, symbols: Any, highest: Any, venues: Any) -> Events:
    """Return trades at prices below ``highest``."""
    prices = (rng.random(len(symbols)) * highest).tolist()
    return [
        {"symbol": f"S{symbol:06}", "price": price, "venue": _VENUES[venue]}
        for symbol, price, venue in zip(symbols.tolist(), prices, venues.tolist(), strict=True)
    ]


def _regions(rng: np.random.Generator, n: int, n_drawn: int, n_aimed: int) -> _Parts:
    stars = star_regions(n, 8, _RADIUS, rng)
    texts = [f"S_INTERSECTS(area, {wkt})" for wkt in shapely.to_wkt(stars, rounding_precision=6).tolist()]
    inside = shapely.point_on_surface(stars[rng.integers(0, n, n_aimed)])
    drawn = shapely.points(rng.random((n_drawn, 2)) * 1_000)
    return Schema({"area": Region()}), texts, _points(drawn), _points(inside), partial(_tree_pairs, texts)


def _tree_pairs(texts: list[str], events: Events) -> Pairs:
    """Return what shapely's tree says of the regions as they are written in the texts."""
    regions = shapely.from_wkt([text.removeprefix("S_INTERSECTS(area, ").removesuffix(")") for text in texts])
    points = shapely.from_wkt([event["area"] for event in events])
    numbers, rows = shapely.STRtree(regions).query(points, predicate="intersects")
    return numbers, rows


def _points(points: Any) -> Events:
    return [{"area": wkt} for wkt in shapely.to_wkt(points, rounding_precision=9).tolist()]


#: How each kind is made.
KINDS: Final[dict[str, Callable[[np.random.Generator, int, int, int], _Parts]]] = {
    "ranges": _ranges,
    "texts": _texts,
    "regions": _regions,
}
