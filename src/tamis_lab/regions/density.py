"""Algorithm 1 against the exact relation: claims SP1 to SP3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import shapely

from tamis.geometry.relations import RELATIONS, relation_of, relations
from tamis.model.subscription import Relation
from tamis_bench.workloads.regions import UNIVERSE, synthetic_regions
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.intervals import Interval, bootstrap, share_interval
from tamis_lab.plots.charts import Chart
from tamis_lab.regions.find_relation import find_relation
from tamis_lab.rows import Row, Rows, changed, column, interval, per_seed, slopes, where
from tamis_lab.timing import seconds
from tamis_lab.verdicts import Change, Decision, Judge, all_above, below, between

__all__ = ["EXPERIMENT"]

#: Pairs on which the exact ways are timed.
_TIMED: Final = 100
#: The densities that the paper names.
_NAMED: Final = (2_000, 12_000)


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    n, density = config["pairs"], config["points"] / sum(UNIVERSE)
    a, b = synthetic_regions(n, rng), synthetic_regions(n, rng)
    truth = [RELATIONS[code] for code in relations(a, b)]
    answers: list[Any] = []
    checks = np.zeros(1, np.int64)
    find_relation(a[0], b[0], density)  # compile
    spent = seconds(
        lambda: answers.extend(find_relation(x, y, density, checks=checks) for x, y in zip(a, b, strict=True))
    )
    repaired = [find_relation(x, y, density, repaired=True) for x, y in zip(a, b, strict=True)]
    intersecting = shapely.intersects(a, b)
    return [
        {
            "wrong_binary": int(((np.array(answers) != Relation.DISJOINT) != intersecting).sum()),
            "wrong": _count_different(answers, truth),
            "wrong_repaired": _count_different(repaired, truth),
            "checks": float(checks[0]) / n,
            "algorithm_seconds": spent / n,
            **_exact_times(a[:_TIMED], b[:_TIMED]),
        }
    ]


def _count_different(relations: Sequence[Any], truth: Sequence[Any]) -> int:
    return sum(x is not y for x, y in zip(relations, truth, strict=True))


def _exact_times(a: Any, b: Any) -> dict[str, float]:
    return {
        "intersection_seconds": seconds(lambda: shapely.intersection(a, b)) / len(a),
        "relate_seconds": seconds(lambda: shapely.relate(a, b)) / len(a),
        "exact_seconds": seconds(lambda: [relation_of(x, y) for x, y in zip(a, b, strict=True)]) / len(a),
    }


def _share(rows: Rows, name: str, points: int) -> Interval:
    chosen = where(rows, points=points)
    return share_interval(sum(column(chosen, name)), sum(column(chosen, "pairs")))


def _decide_errors(rows: Rows) -> Decision:
    few, many = (_share(rows, "wrong_binary", points) for points in _NAMED)
    clauses = [
        between("wrong intersections at 2000", few, 0.0003, 0.0015, ".3%"),
        below("wrong intersections at 12000", many, 0.0003, ".3%"),
    ]
    eight = ", ".join(f"{_share(rows, name, points):.3%}" for name, points in (("wrong", 2_000), ("wrong", 12_000)))
    remark = (
        f"Wrong among the eight relations: {eight}; with loop 2 repaired {_share(rows, 'wrong_repaired', 2_000):.3%} "
        "at "
        "2000. The product's relation is exact."
    )
    return Decision(clauses, f"{few:.3%} and {many:.3%}", remark)


def _decide_speed(rows: Rows) -> Decision:
    few, many = (_times_as_fast(rows, "intersection", points) for points in _NAMED)
    exact = _times_as_fast(rows, "exact", 2_000)
    remark = (
        "Depends on the implementation: ours runs compiled, with some fixed cost of Python; the paper compared with "
        "CGAL. "
        f"The exact relation of the product takes {exact:.2f} of the time of Algorithm 1 at 2000."
    )
    clauses = [all_above("time of an exact intersection over Algorithm 1's", [few, many], 1)]
    return Decision(clauses, f"{few:.2f}x and {many:.2f}x as fast as GEOS's intersection", remark)


def _times_as_fast(rows: Rows, name: str, points: int) -> Interval:
    exact, ours = (per_seed(rows, f"{way}_seconds", points=points) for way in (name, "algorithm"))
    return bootstrap([a / b for a, b in zip(exact, ours, strict=True)])


def _decide_linear(rows: Rows) -> Decision:
    named = where(rows, points=_NAMED)
    exponents = {name: bootstrap(slopes(named, name, by="points")) for name in ("checks", "algorithm_seconds")}
    clauses = [
        between("exponent of point checks", exponents["checks"], 0.8, 1.2),
        between("exponent of time", exponents["algorithm_seconds"], 0.8, 1.2),
    ]
    ours = (
        f"point checks grow as density^{exponents['checks']:.2f}, time as density^{exponents['algorithm_seconds']:.2f}"
    )
    return Decision(clauses, ours, f"{interval(named, 'checks', points=2_000):,.0f} checks per pair at 2000.")


def _made_up() -> Rows:
    return [
        {
            "seed": seed,
            "points": points,
            "pairs": 100_000,
            "wrong_binary": wrong,
            "wrong": wrong,
            "wrong_repaired": wrong,
        }
        | {"checks": 3.0 * points, "algorithm_seconds": 1e-6 * points * (1 + seed / 100)}
        | {"intersection_seconds": 1.0, "exact_seconds": 1.0}
        for seed in range(2)
        for points, wrong in ((2_000, 89), (12_000, 15))
    ]


CLAIMS: Final = {
    "SP1": Judge(
        rule="Algorithm 1 and an exact polygon intersection disagree about whether two regions intersect in 0.03 to "
        "0.15 % of "
        "pairs at 2000 and in less than 0.03 % at 12000.",
        reason="The paper compares with a binary intersection, so the binary answer is judged and the eight "
        "relations stand "
        "beside it. The limits are the stated shares within a factor of about 2.",
        paper_value="0.089 % at 2000, about 0.015 % at 12000",
        decide=_decide_errors,
        passing=_made_up,
        failing={
            "ten times as many": changed(wrong_binary=lambda row: 10 * row["wrong_binary"]),
            "none at 2000": changed(wrong_binary=lambda row: 0 if row["points"] == 2_000 else row["wrong_binary"]),
            "no fewer at 12000": changed(wrong_binary=89),
        },
        history=(
            Change(
                "2026-11-17",
                "the same limits for the share of pairs with a wrong one of eight relations",
                "held (0.102 % and 0.026 %)",
                "The paper's metric is binary.",
            ),
        ),
    ),
    "SP2": Judge(
        rule="Algorithm 1 takes less time than an exact intersection at 2000 and at 12000.",
        reason="The paper's 6x is a ratio of its own implementation and CGAL's; only the direction can be asked of "
        "others.",
        paper_value="about 6x an exact intersection at 2000, still faster at 12000",
        decide=_decide_speed,
        passing=_made_up,
        failing={"slower": changed(algorithm_seconds=2.0)},
    ),
    "SP3": Judge(
        rule="From 2000 to 12000 the point checks of Algorithm 1 and its time both grow as density^e with e from 0.8 "
        "to 1.2.",
        reason="Linear is an exponent of 1. Checks are what the algorithm does, time is what the paper plots.",
        paper_value="time about linear in the density",
        decide=_decide_linear,
        passing=_made_up,
        failing={
            "checks that stop growing": changed(checks=900.0),
            "time that stops growing": changed(algorithm_seconds=1.0),
            "quadratic time": changed(algorithm_seconds=lambda row: 1e-9 * row["points"] ** 2),
        },
        history=(
            Change(
                "2026-11-17",
                "points on a boundary per density vary by less than 1.5x",
                "held",
                "That is the definition of the density, so the rule could not fail; time was recorded and not used.",
            ),
        ),
    ),
}


EXPERIMENT: Final = Experiment(
    name="sp-density",
    paper="crtree",
    figure="section 5.1",
    set_up="Pairs of synthetic regions of 20 points, each a tenth of the universe or more: Algorithm 1 as printed "
    "against the exact relation.",
    readings=(
        (
            "Error: the share of pairs whose intersection is answered wrongly; any relation but disjoint is an "
            "intersection."
        ),
        "Density: points per half-length of the universe.",
    ),
    configs=lambda scale: grid(
        points=scale.choose((500, 2_000, 12_000), (500, 1_000, 2_000, 4_000, 8_000, 12_000)),
        pairs=(scale.choose(50, 5_000),),
        seed=range(SEEDS),
    ),
    run=_run,
    claims=CLAIMS,
    design=2,
    charts=(
        Chart(
            "Wrong answers by density",
            "points",
            "wrong_binary",
            beside=("wrong",),
            x_label="density",
            y_label="pairs of a seed",
        ),
        Chart(
            "Time of a relation",
            "points",
            "algorithm_seconds",
            beside=("intersection_seconds", "relate_seconds", "exact_seconds"),
            log_y=True,
            x_label="density",
            y_label="seconds",
        ),
    ),
)
