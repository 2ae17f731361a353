"""The spatial paper: relations by sampling, the CR-tree, the simplifier; synthetic and real regions.

The paper's three GIS data sets are lost. In their place stand the counties of the United States and the provinces
around a week of earthquakes, which come with tamis. The counting matcher and its CR-tree are the product's, and ask
the exact relation; Algorithm 1 as printed is measured on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import shapely

from tamis.algebra.simplify import simplify_filters
from tamis.geometry.find_relation import discretize, find_relation
from tamis.geometry.relations import RELATIONS, relation_of, relations
from tamis.index.counting.constraint_index import ScanIndex
from tamis.index.counting.matcher import DEFAULT_INDEXES, CountingMatcher
from tamis.lab.experiment import Config, Experiment, Finding, Row, column, grid, judged, where
from tamis.model.subscription import Spatial, Subscription
from tamis.plots.charts import Chart
from tamis.workload.datasets import counties, quake_regions
from tamis.workload.regions import (
    UNIVERSE,
    constraint_filters,
    message_regions,
    one_filter_each,
    predicates,
    synthetic_regions,
)

__all__ = ["EXPERIMENTS"]

_TYPES: Final = ("A", "B", "C")
#: CR-tree off / on and simplifier off / on by type, as the ratios of Table 3.
_TABLE_3: Final = {"A": (25, 372), "B": (45, 144), "C": (216, 37)}


def _real(name: str, n: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return at most n real polygons of a data set, moved into the universe of the generators."""
    table = counties() if name == "counties" else quake_regions()
    column_name = next(field.name for field in table.schema if field.name in ("area", "region", "county"))
    polygons = shapely.from_wkb(np.array(table[column_name].to_pylist(), dtype=object))
    if name == "counties":  # the mainland; Alaska and the islands would leave most of the universe empty
        west, south, east, north = shapely.bounds(polygons).T
        polygons = polygons[(west > -125) & (east < -66) & (south > 24) & (north < 50)]
    polygons = rng.permutation(polygons)[:n]
    low = shapely.total_bounds(polygons)[:2]
    size = shapely.total_bounds(polygons)[2:] - low
    moved: npt.NDArray[Any] = shapely.transform(polygons, lambda xy: (xy - low) / size * UNIVERSE)
    return moved


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# ---- Algorithm 1 against the exact relation: SP1 to SP3


def _density_run(config: Config, rng: np.random.Generator) -> list[Row]:
    pairs, density = config["pairs"], config["points"] / sum(UNIVERSE)
    a, b = synthetic_regions(pairs, rng), synthetic_regions(pairs, rng)
    truth = [RELATIONS[code] for code in relations(a, b)]
    find_relation(a[0], b[0], density)
    found: list[Any] = []
    seconds = _seconds(lambda: found.extend(find_relation(x, y, density) for x, y in zip(a, b, strict=True)))
    repaired = [find_relation(x, y, density, repaired=True) for x, y in zip(a, b, strict=True)]
    few = slice(0, min(pairs, 500))
    return [
        {
            "wrong": sum(x is not y for x, y in zip(found, truth, strict=True)),
            "wrong_repaired": sum(x is not y for x, y in zip(repaired, truth, strict=True)),
            "samples": float(np.mean([len(discretize(x, density)) for x in a[few]])),
            "algorithm_seconds": seconds / pairs,
            "intersection_seconds": _seconds(lambda: shapely.intersection(a[few], b[few])) / len(a[few]),
            "relate_seconds": _seconds(lambda: shapely.relate(a[few], b[few])) / len(a[few]),
            "exact_seconds": _seconds(lambda: [relation_of(x, y) for x, y in zip(a[few], b[few], strict=True)])
            / len(a[few]),
        }
    ]


def _judge_density(rows: Sequence[Row]) -> list[Finding]:
    share = {row["points"]: row["wrong"] / row["pairs"] for row in rows}
    least = 1 / max(column(rows, "pairs"))
    at = {row["points"]: row for row in rows}
    speed = {points: at[points]["intersection_seconds"] / at[points]["algorithm_seconds"] for points in (2_000, 12_000)}
    samples = [at[points]["samples"] / points for points in sorted(at)]
    exact = at[2_000]["algorithm_seconds"] / at[2_000]["exact_seconds"]
    return [
        judged(
            "SP1",
            0.0003 <= share[2_000] <= 0.0015 and share[12_000] <= max(0.0003, least),
            "0.089 % at 2000, about 0.015 % at 12000",
            f"{share[2_000]:.3%} and {share[12_000]:.3%}",
            f"Share of pairs of synthetic regions with a wrong relation, to the nearest {least:.3%}; pass is 0.03 to 0.15 % and at "
            f"most 0.03 %. With loop 2 repaired: {at[2_000]['wrong_repaired'] / at[2_000]['pairs']:.3%}. The product's relation is exact.",
        ),
        judged(
            "SP2",
            speed[2_000] > 1 and speed[12_000] > 1,
            "about 6x an exact intersection at 2000, still faster at 12000",
            f"{speed[2_000]:.2f}x and {speed[12_000]:.2f}x GEOS's intersection",
            f"Depends on the implementation: ours runs compiled, with some fixed cost of Python. The exact relation of the product "
            f"takes {1 / exact:.2f} of the time of Algorithm 1 at 2000.",
        ),
        judged(
            "SP3",
            max(samples[1:]) / min(samples[1:]) < 1.5,
            "time about linear in the density",
            f"{min(samples[1:]):.2f} to {max(samples[1:]):.2f} points per unit of density",
            "Points on a boundary per density; the end points are few.",
        ),
    ]


# ---- the CR-tree and the simplifier: SP4, SP5, SP7


def _fill(matcher: CountingMatcher, subscriptions: Iterable[Subscription]) -> CountingMatcher:
    for subscription in subscriptions:
        matcher.add(int(subscription.id), subscription)
    return matcher


def _scan() -> CountingMatcher:
    return CountingMatcher({**DEFAULT_INDEXES, Spatial: ScanIndex})


def _match(matcher: CountingMatcher, regions: Iterable[shapely.Polygon]) -> tuple[float, float, list[Any]]:
    """Return the seconds and the constraints evaluated per message, and what matched."""
    events = [{"area": region} for region in regions]
    before = int(matcher.statistics().details["evaluations"])
    found = [matcher.match(event).tolist() for event in events]
    asked = int(matcher.statistics().details["evaluations"]) - before
    seconds = min(_seconds(lambda: [matcher.match(event) for event in events]) for _ in range(3))
    return seconds / len(events), asked / len(events), found


def _crtree_run(config: Config, rng: np.random.Generator) -> list[Row]:
    n = config["n"]
    regions = synthetic_regions(n, rng) if config["data"] == "synthetic" else _real(config["data"], n, rng)
    subscriptions = one_filter_each(constraint_filters(regions, rng))
    scan, tree = _fill(_scan(), subscriptions), _fill(CountingMatcher(), subscriptions)
    rows: list[Row] = []
    for kind in _TYPES:
        messages = message_regions(kind, config["messages"], rng)
        slow, fast = _match(scan, messages), _match(tree, messages)
        row = {"type": kind, "constraints": len(regions), "scan_seconds": slow[0], "tree_seconds": fast[0]}
        rows.append(row | {"evaluated": fast[1] / slow[1], "speedup": slow[0] / fast[0], "same": slow[2] == fast[2]})
    return rows


def _simplifier_run(config: Config, rng: np.random.Generator) -> list[Row]:
    n = config["n"]
    regions = synthetic_regions(n, rng) if config["data"] == "synthetic" else _real(config["data"], n, rng)
    raw = predicates(constraint_filters(regions, rng, per_filter=2), config["predicates"])
    simple = [replace(each, filters=simplify_filters(each.filters)) for each in raw]
    plain, simplified = _fill(CountingMatcher(), raw), _fill(CountingMatcher(), simple)
    left = sum(len(each.filters) for each in simple) / sum(len(each.filters) for each in raw)
    rows: list[Row] = []
    for kind in _TYPES:
        messages = message_regions(kind, config["messages"], rng)
        off, on = _match(plain, messages), _match(simplified, messages)
        row = {"type": kind, "constraints": len(regions), "off_seconds": off[0], "on_seconds": on[0], "left": left}
        rows.append(
            row | {"evaluated_off": off[1], "evaluated_on": on[1], "speedup": off[0] / on[0], "same": off[2] == on[2]}
        )
    return rows


def _judge_crtree(rows: Sequence[Row]) -> list[Finding]:
    synthetic = where(rows, data="synthetic")
    shares, same = column(synthetic, "evaluated"), all(column(rows, "same"))
    told = "; ".join(
        f"{kind}: {np.mean(column(where(synthetic, type=kind), 'evaluated')):.0%}, {np.mean(column(where(synthetic, type=kind), 'speedup')):.1f}x"
        for kind in _TYPES
    )
    return [
        judged(
            "SP4",
            same and max(shares) < 1 and min(column(synthetic, "speedup")) > 1,
            "the CR-tree beats a linear scan even for large regions",
            f"evaluated, and speedup, by type: {told}",
            f"Constraints whose relation is computed, as a share of all. Same answers: {same}.",
        )
    ]


def _judge_simplifier(rows: Sequence[Row]) -> list[Finding]:
    synthetic, same = where(rows, data="synthetic"), all(column(rows, "same"))
    sizes = sorted(set(column(synthetic, "n")))
    flattening, asked = {}, {}
    for state in ("off", "on"):
        asked[state] = mean = [float(np.mean(column(where(synthetic, n=n), f"evaluated_{state}"))) for n in sizes]
        flattening[state] = (mean[-1] / mean[0]) / (sizes[-1] / sizes[0])
    fewer = asked["on"][-1] / asked["off"][-1]
    return [
        judged(
            "SP5",
            same and max(flattening.values()) < 1 and fewer < 1,
            "time flattens as predicates grow; the simplifier flattens it earlier",
            f"evaluations grow {flattening['off']:.2f} times as fast as constraints without it, {flattening['on']:.2f} with it",
            f"From {sizes[0]:,} to {sizes[-1]:,} constraints in 5, 15 and 25 predicates; simplified sets evaluate {fewer:.0%} of the "
            f"constraints at the largest. Same answers: {same}.",
        ),
    ]


def _judge_real(rows: Sequence[Row]) -> list[Finding]:
    tree, simple = where(rows, part="tree"), where(rows, part="simplifier")
    told, held = [], all(column(rows, "same"))
    for kind in _TYPES:
        ours = [float(np.mean(column(where(some, type=kind), "speedup"))) for some in (tree, simple)]
        held &= ours[0] > 1 and ours[1] > 1
        told.append(f"{kind} {ours[0]:.0f}x, {ours[1]:.1f}x")
    stated = "; ".join(f"{kind} {a}x, {b}x" for kind, (a, b) in _TABLE_3.items())
    why = (
        "Ratios only, on other data: CR-tree off over on, simplifier off over on; the paper's are for California. "
        f"The simplifier leaves {np.mean(column(simple, 'left')):.0%} of the filters. Same answers everywhere."
    )
    return [judged("SP7", held, stated, "; ".join(told), why)]


def _real_run(config: Config, rng: np.random.Generator) -> list[Row]:
    return (_crtree_run if config["part"] == "tree" else _simplifier_run)({**config, "predicates": 25}, rng)


# ---- how much a higher density changes: SP6


def _precision_run(config: Config, rng: np.random.Generator) -> list[Row]:
    """Compare the matches of each density with those of the next; only pairs whose MBRs meet can differ."""
    regions = _real(config["data"], config["n"], rng)
    operators = rng.integers(8, size=len(regions))
    messages = message_regions(config["type"], config["messages"], rng)
    tree = shapely.STRtree(regions)
    pairs = [(m, int(c)) for m, region in enumerate(messages) for c in tree.query(region)]
    matched: dict[int, list[bool]] = {}
    for points in range(0, 50_001, 10_000):
        density = points / sum(UNIVERSE)
        found = (find_relation(messages[m], regions[c], density) for m, c in pairs)
        matched[points] = [each is RELATIONS[operators[c]] for each, (_, c) in zip(found, pairs, strict=True)]
    whole = len(messages) * len(regions)
    return [
        {"points": p, "difference": sum(a != b for a, b in zip(matched[p], matched[p + 10_000], strict=True)) / whole}
        for p in range(0, 40_001, 10_000)
    ]


def _judge_precision(rows: Sequence[Row]) -> list[Finding]:
    means = [float(np.mean(column(where(rows, points=p), "difference"))) for p in range(0, 40_001, 10_000)]
    told = ", ".join(f"{mean:.4%}" for mean in means)
    why = "Mean over data and types, at 0, 10,000 .. 40,000 further points; a difference is one predicate that matches at one only."
    holds = (
        max(means) < 0.01
        and means[-1] <= means[0]
        and all(b <= a * 1.5 + 1e-5 for a, b in zip(means, means[1:], strict=False))
    )
    return [judged("SP6", holds, "tiny and falling", told, why)]


EXPERIMENTS: Final = (
    Experiment(
        name="sp-density",
        paper="crtree",
        figure="section 5.1",
        claims=("SP1", "SP2", "SP3"),
        set_up="Pairs of synthetic regions of 20 points, each a tenth of the universe or more: Algorithm 1 as printed against the exact relation.",
        readings=(
            "Error: the share of pairs with another relation than the exact one. Density: points per half-length of the universe.",
        ),
        configs=lambda scale: grid(
            points=scale.choose((500, 2_000, 12_000), (500, 1_000, 2_000, 4_000, 8_000, 12_000)),
            pairs=(scale.choose(2_000, 50_000),),
        ),
        run=_density_run,
        judge=_judge_density,
        charts=(
            Chart("Wrong relations by density", "points", "wrong", log_x=True),
            Chart("Time of Algorithm 1", "points", "algorithm_seconds"),
        ),
    ),
    Experiment(
        name="sp-crtree",
        paper="crtree",
        figure="Fig. 4a",
        claims=("SP4",),
        set_up="Predicates of one constraint on large synthetic regions; the CR-tree against a scan of all constraints.",
        configs=lambda scale: grid(
            data=("synthetic",),
            n=scale.choose((500, 1_000), (1_000, 2_500, 5_000, 10_000)),
            messages=(scale.choose(10, 20),),
        ),
        run=_crtree_run,
        judge=_judge_crtree,
        charts=(
            Chart("Share of constraints evaluated", "n", "evaluated", ("type",)),
            Chart("Time with the CR-tree", "n", "tree_seconds", ("type",)),
        ),
    ),
    Experiment(
        name="sp-simplifier",
        paper="crtree",
        figure="Fig. 4b",
        claims=("SP5",),
        set_up="Filters of two constraints shared out over 5, 15 or 25 predicates, as they are and simplified.",
        configs=lambda scale: grid(
            data=("synthetic",),
            n=scale.choose((200, 800), (500, 1_000, 2_000, 4_000)),
            predicates=(5, 15, 25),
            messages=(scale.choose(10, 20),),
        ),
        run=_simplifier_run,
        judge=_judge_simplifier,
        charts=(
            Chart("Constraints evaluated, as they are", "n", "evaluated_off", ("predicates",)),
            Chart("Constraints evaluated, simplified", "n", "evaluated_on", ("predicates",)),
        ),
    ),
    Experiment(
        name="sp-precision",
        paper="crtree",
        figure="Fig. 5",
        claims=("SP6",),
        set_up="Real regions, messages of three types: how many matches change when 10,000 points are added.",
        readings=("The paper's data are lost: counties of the United States, provinces of the world.",),
        configs=lambda scale: grid(
            data=("counties", "provinces"), type=_TYPES, n=(scale.choose(300, 3_000),), messages=(scale.choose(3, 30),)
        ),
        run=_precision_run,
        judge=_judge_precision,
        charts=(Chart("Matches that change with 10,000 more points", "points", "difference", ("data", "type")),),
    ),
    Experiment(
        name="sp-real",
        paper="crtree",
        figure="Table 3",
        claims=("SP7",),
        set_up="Real regions: the CR-tree off and on with a predicate per constraint; 25 predicates with the simplifier off and on.",
        readings=("The paper's data are lost: counties of the United States, provinces of the world.",),
        configs=lambda scale: grid(
            part=("tree", "simplifier"),
            data=("counties", "provinces"),
            n=(scale.choose(400, 4_000),),
            messages=(scale.choose(5, 20),),
        ),
        run=_real_run,
        judge=_judge_real,
        charts=(Chart("CR-tree off / on", "constraints", "speedup", ("type",), only={"part": "tree"}),),
    ),
)
