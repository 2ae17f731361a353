"""The benchmark of regions: joins, the relation itself, the CR-tree and the simplifier, each beside a peer in one run.

*Joins*: standing polygons of 12 vertices meet a table of events, through the public engine. Peers have the polygons
parsed and kept, as the engine has; sedonadb builds its index again in each query, as it always does. A peer's pairs on
a sample must be ours, or the run stops. *Ours* reads the events from WKB each time, *ours, parsed* has them as an
`EventTable`, as the peers have them in their own form, and *ours, threads* is the same on as many threads as there are
processors. STRtree and relate take one thread, sedonadb as many as it likes: rows note how many processors were busy.
*Real* does the same with the bundled maps.

*CR-tree* and *simplifier* are [crtree] Table 3 in ratios: constraints with random operators on synthetic regions, met
by messages of the types A (round), B (irregular) and C (narrow).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import shapely

from tamis.algebra.simplify import simplify_filters
from tamis.demo import datasets
from tamis.engine import Engine
from tamis.engine.matches import Matches
from tamis.errors import InvariantError
from tamis.geometry.relations import checked_regions, relations
from tamis.index.counting import DEFAULT_INDEXES, CountingMatcher, ScanIndex
from tamis.model.language.literals import region_text
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Spatial, Subscription
from tamis.model.tables import EventTable, SubscriptionTable
from tamis.model.types import Region
from tamis_bench.rows import Row
from tamis_bench.timing import Effort, best_of
from tamis_bench.workloads.regions import (
    MESSAGE_TYPES,
    UNIVERSE,
    constraint_filters,
    message_regions,
    one_filter_each,
    predicates,
    star_regions,
    synthetic_regions,
)

__all__ = ["PARTS", "measure_regions"]

#: Vertices and radius of the standing polygons; the radius of events that are to cover some.
_VERTICES, _RADIUS, _LARGE_RADIUS = 12, 5.0, 20.0
_EVENTS: Final = 10_000
#: Events of the sample that is checked, and of a system that takes one pair at a time.
_SAMPLE, _FEW = 200, 500
#: Pairs for the relation, with this many vertices each.
_PAIRS, _PAIR_VERTICES = 20_000, 20
#: Messages of each type; predicates of scenario 2.
_MESSAGES, _PREDICATES = 20, 25

Pairs = npt.NDArray[np.int64]
Matcher = Callable[[npt.NDArray[Any]], Pairs]


class _Join(NamedTuple):
    """What is asked: by the engine, by sedonadb (s standing, e event), by STRtree, and as a pattern of relate."""

    function: str
    sql: str
    predicate: str
    pattern: str
    #: The radius of the events; None: points.
    radius: float | None


_JOINS: Final = {
    "contains point": _Join("S_WITHIN", "ST_Contains(s.g, e.g)", "within", "T*F**F***", None),
    "intersects": _Join("S_INTERSECTS", "ST_Intersects(e.g, s.g)", "intersects", "T********", _RADIUS),
    "covers": _Join("S_CONTAINS", "ST_Covers(e.g, s.g)", "covers", "T*****FF*", _LARGE_RADIUS),
}


def measure_regions(parts: Sequence[str], n: int, effort: Effort) -> Iterator[Row]:
    """Yield a row for every number, as soon as it is known; ``n`` standing regions."""
    for part in parts:
        yield from PARTS[part](n, effort)


def _joins(n: int, effort: Effort) -> Iterator[Row]:
    rng = np.random.default_rng(7)
    regions = star_regions(n, _VERTICES, _RADIUS, rng)
    n_events = min(_EVENTS, 2 * n)
    for work, join in _JOINS.items():
        if join.radius is None:
            events = shapely.points(rng.random((n_events, 2)) * UNIVERSE)
        else:
            events = star_regions(n_events, _VERTICES, join.radius, rng)
        yield from _JoinBench(work, join, regions, events, effort).measure()


def _real(n: int, effort: Effort) -> Iterator[Row]:
    """Join real regions, up to n of them: counties with the wind fields of storms, provinces with earthquakes."""
    storms, quakes = datasets.storms()["disc"].drop_null(), datasets.earthquakes()["epicentre"]
    for work, join, regions, events in (
        ("storms over counties", _JOINS["intersects"], datasets.counties(), storms),
        ("quakes in provinces", _JOINS["contains point"], datasets.quake_regions(), quakes),
    ):
        standing, coming = (shapely.from_wkb(some.to_numpy()) for some in (regions["region"], events))
        yield from _JoinBench(work, join, standing[:n], coming[: 10 * n], effort).measure()


@dataclass
class _JoinBench:
    """One join: who has which regions, and how quickly each finds the pairs."""

    work: str
    join: _Join
    regions: npt.NDArray[Any]
    events: npt.NDArray[Any]
    effort: Effort

    def measure(self) -> Iterator[Row]:
        """Yield the rates of tamis, STRtree with relate (the base of ratios), STRtree and sedonadb."""
        engine = self._engine()
        ours = self._ours(engine, _wkb_table)
        sample = self.events[:_SAMPLE]
        want = _ordered(ours(sample))
        base = self._rate(self._strtree_and_relate(), self.events[:_FEW])
        yield self._row("strtree+relate", base, base, f"timed on {len(self.events[:_FEW]):,} events")
        rate = self._rate(ours, self.events)
        pairs = len(ours(self.events)) / len(self.events)
        yield self._row("ours", rate, base, f"{pairs:.1f} matches an event")
        peers: tuple[tuple[str, Callable[[], Matcher]], ...] = (
            ("ours, parsed", partial(self._ours, engine, partial(_parsed_table, engine.schema))),
            ("ours, threads", partial(self._ours_in_threads, engine)),
            ("strtree", self._strtree),
            ("sedonadb", self._sedonadb),
        )
        for name, make in peers:
            if name == "sedonadb" and importlib.util.find_spec(name) is None:
                yield self._row(
                    name, None, base, "left out: sedonadb is not installed; pip install 'tamis-bench[peers]'"
                )
                continue
            peer = make()
            if not np.array_equal(_ordered(peer(sample)), want):
                raise InvariantError(f"{name} and tamis disagree on {self.work}")
            yield self._row(name, self._rate(peer, self.events), base, _busy(partial(peer, self.events)))

    def _rate(self, system: Matcher, events: npt.NDArray[Any]) -> float:
        return len(events) / best_of(lambda: system(events), replace(self.effort, seconds=5 * self.effort.seconds))

    def _row(self, system: str, rate: float | None, base: float, note: str = "") -> Row:
        ratio = None if rate is None else rate / base
        return Row(self.work, len(self.regions), system, "match", rate, ratio, note=note)

    def _engine(self) -> Engine:
        texts = [f"{self.join.function}(area, {region_text(region)})" for region in self.regions]
        engine = Engine(Schema({"area": Region()}))
        engine.subscribe_table(SubscriptionTable.from_arrow(pa.table({"id": np.arange(len(texts)), "filter": texts})))
        engine.wait()
        return engine

    def _ours(self, engine: Engine, make_table: Callable[[npt.NDArray[Any]], Any]) -> Matcher:
        tables: dict[int, Any] = {}

        def match(events: npt.NDArray[Any]) -> Pairs:
            table = tables.get(len(events))
            if table is None:
                table = tables[len(events)] = make_table(events)
            return _pairs(engine.match_table(table))

        match(self.events)  # kernels are compiled, the table is made
        return match

    def _ours_in_threads(self, engine: Engine) -> Matcher:
        pool = ThreadPoolExecutor(os.cpu_count())
        make = partial(_parsed_table, engine.schema)
        tables: dict[int, list[tuple[int, EventTable]]] = {}

        def match(events: npt.NDArray[Any]) -> Pairs:
            if len(events) not in tables:
                shares = np.array_split(np.arange(len(events)), os.cpu_count() or 1)
                tables[len(events)] = [(int(some[0]), make(events[some])) for some in shares if some.size]
            parts = pool.map(lambda share: _pairs(engine.match_table(share[1]), share[0]), tables[len(events)])
            return np.concatenate(list(parts))

        match(self.events)
        return match

    def _strtree(self) -> Matcher:
        tree = shapely.STRtree(self.regions)
        return lambda events: tree.query(events, predicate=self.join.predicate).T

    def _strtree_and_relate(self) -> Matcher:
        tree = shapely.STRtree(self.regions)

        def match(events: npt.NDArray[Any]) -> Pairs:
            event, region = tree.query(events)
            holds = shapely.relate_pattern(events[event], self.regions[region], self.join.pattern)
            return np.column_stack([event[holds], region[holds]])

        return match

    def _sedonadb(self) -> Matcher:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sedonadb warns of optional libraries, which are not used here
            sedona = importlib.import_module("sedonadb").connect()
        tables: dict[int, str] = {}

        def keep(name: str, shapes: npt.NDArray[Any]) -> str:
            table = pa.table({"id": np.arange(len(shapes)), "wkb": pa.array(list(shapely.to_wkb(shapes)), pa.binary())})
            sedona.create_data_frame(table).to_view(f"raw_{name}", overwrite=True)
            parsed = sedona.sql(f"SELECT id, ST_GeomFromWKB(wkb) AS g FROM raw_{name}")
            parsed.to_memtable().to_view(name, overwrite=True)
            return name

        standing = keep("standing", self.regions)

        def match(events: npt.NDArray[Any]) -> Pairs:
            size = len(events)
            if size not in tables:
                tables[size] = keep(f"events_{size}", events)
            query = f"SELECT e.id AS event, s.id AS region FROM {tables[size]} e JOIN {standing} s ON {self.join.sql}"
            pairs = pa.table(sedona.sql(query))
            return np.column_stack([pairs["event"].to_numpy(), pairs["region"].to_numpy()])

        return match


def _wkb_table(events: npt.NDArray[Any]) -> pa.Table:
    return pa.table({"area": pa.array(list(shapely.to_wkb(events)), pa.binary())})


def _parsed_table(schema: Schema, events: npt.NDArray[Any]) -> EventTable:
    return EventTable.of(_wkb_table(events), schema)


def _pairs(matches: Matches, first: int = 0) -> Pairs:
    """Return pairs of an event, numbered from ``first``, and a row."""
    event = first + np.repeat(np.arange(len(matches.offsets) - 1), np.diff(matches.offsets))
    return np.column_stack([event, matches.rows])


def _busy(call: Callable[[], object]) -> str:
    """Say how many processors a call kept busy."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return f"{(time.process_time() - cpu) / (time.perf_counter() - wall):.1f} processors busy"


def _ordered(pairs: Pairs) -> Pairs:
    ordered: Pairs = np.unique(np.asarray(pairs, np.int64), axis=0)
    return ordered


def _relation(n: int, effort: Effort) -> Iterator[Row]:
    """Compare `tamis.relations` with shapely.relate on pairs that are mostly near each other."""
    rng = np.random.default_rng(5)
    size = min(_PAIRS, n)
    room = (300.0, 300.0)
    a, b = (star_regions(size, _PAIR_VERTICES, 100.0, rng, room) for _ in range(2))
    relations(a[:10], b[:10])
    mine, yours = checked_regions(a), checked_regions(b)
    base = size / best_of(lambda: shapely.relate(a, b), effort)
    yield Row("relation", size, "shapely.relate", "pairs", base, 1.0)
    for system, call in (
        ("ours", lambda: relations(mine, yours)),
        ("ours, with checking", lambda: relations(a, b)),
    ):
        rate = size / best_of(call, effort)
        yield Row("relation", size, system, "pairs", rate, rate / base)


def _cr_tree(n: int, effort: Effort) -> Iterator[Row]:
    """Table 3, scenario 1: a predicate per constraint; the CR-tree against asking every constraint."""
    rng = np.random.default_rng(11)
    n = min(n, 10_000)
    subscriptions = one_filter_each(constraint_filters(star_regions(n, 20, 20.0, rng), rng))
    scan = {**DEFAULT_INDEXES, Spatial: ScanIndex}
    yield from _compared(
        "cr-tree", n, ("scan", "cr-tree"), (CountingMatcher(scan), CountingMatcher()), subscriptions, effort
    )


def _simplifier(n: int, effort: Effort) -> Iterator[Row]:
    """Table 3, scenario 2: 25 predicates of filters with two constraints; as they are, and simplified."""
    rng = np.random.default_rng(13)
    n = min(n, 2_000)
    raw = predicates(constraint_filters(synthetic_regions(n, rng), rng, per_filter=2), _PREDICATES)
    simple = [replace(subscription, filters=simplify_filters(subscription.filters)) for subscription in raw]
    left = _count_filters(simple) / _count_filters(raw)
    plain, simplified = CountingMatcher(), CountingMatcher()
    for matcher, some in ((plain, raw), (simplified, simple)):
        _fill(matcher, some)
    note = f"{left:.0%} of the filters are left"
    yield from _timed("simplifier", n, ("off", "on"), (plain, simplified), effort, note)


def _match_all(matcher: CountingMatcher, events: Sequence[Event]) -> None:
    for event in events:
        matcher.match(event)


def _count_filters(subscriptions: Sequence[Subscription]) -> int:
    return sum(len(subscription.filters) for subscription in subscriptions)


def _fill(matcher: CountingMatcher, subscriptions: Sequence[Subscription]) -> None:
    for subscription in subscriptions:
        matcher.add(int(subscription.id), subscription)


def _compared(
    work: str,
    n: int,
    names: tuple[str, str],
    matchers: tuple[CountingMatcher, CountingMatcher],
    subscriptions: Sequence[Subscription],
    effort: Effort,
) -> Iterator[Row]:
    for matcher in matchers:
        _fill(matcher, subscriptions)
    yield from _timed(work, n, names, matchers, effort, "")


def _timed(
    work: str,
    n: int,
    names: tuple[str, str],
    matchers: tuple[CountingMatcher, CountingMatcher],
    effort: Effort,
    note: str,
) -> Iterator[Row]:
    """Yield the rates of two matchers on each message type; the first is the base. Their matches must be equal."""
    rng = np.random.default_rng(17)
    for kind in MESSAGE_TYPES:
        events = [{"area": region} for region in message_regions(kind, _MESSAGES, rng)]
        matches = [[matcher.match(event).tolist() for event in events] for matcher in matchers]
        if matches[0] != matches[1]:
            raise InvariantError(f"{names[0]} and {names[1]} disagree on messages of type {kind}")
        base = 0.0
        for name, matcher in zip(names, matchers, strict=True):
            before = int(matcher.statistics().details["evaluations"])
            rate = len(events) / best_of(partial(_match_all, matcher, events), replace(effort, repeat=1))
            evaluated = (int(matcher.statistics().details["evaluations"]) - before) / len(events)
            base = base or rate
            yield Row(f"{work} {kind}", n, name, "match", rate, rate / base, note=note if name == names[1] else "")
            yield Row(f"{work} {kind}", n, name, "evaluations", evaluated)


#: The parts of this benchmark by name.
PARTS: Final[dict[str, Callable[[int, Effort], Iterator[Row]]]] = {
    "joins": _joins,
    "real": _real,
    "relation": _relation,
    "cr-tree": _cr_tree,
    "simplifier": _simplifier,
}
