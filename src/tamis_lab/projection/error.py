"""How often k projections agree on a cover that is none: claims RP1 and RP3 to RP7."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tamis.index.balls.projections import Projections
from tamis_bench.workloads.balls import make_balls
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.intervals import Interval, bootstrap, share_interval
from tamis_lab.plots.charts import Chart
from tamis_lab.projection.covering import Bools, covers_each
from tamis_lab.rows import Row, Rows, changed, column, grouped, interval, per_seed, where
from tamis_lab.scale import Scale
from tamis_lab.verdicts import Decision, Judge, all_above, all_below, below, certain

__all__ = ["EXPERIMENT"]

_DIMENSIONS: Final = (4, 8, 12, 16, 20)


def _configs(scale: Scale) -> list[Config]:
    sizes = {"n": (scale.choose(500, 10_000),), "queries": (scale.choose(50, 1_000),)}
    return grid(d=_DIMENSIONS, radii=("uniform", "pareto"), kind=("gaussian", "orthonormal"), **sizes)


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    """Look for covers of some balls among all others; each further projection leaves fewer candidates."""
    d, n = config["d"], config["n"]
    work = make_balls(config["radii"], n, d, 1, seed=int(rng.integers(2**31)))
    questions = rng.permutation(n)[: config["queries"]]
    others = np.ones((n, len(questions)), np.bool_)
    others[questions, np.arange(len(questions))] = False
    truth = covers_each(work.centers, work.radii, work.centers[questions], work.radii[questions]) & others
    vectors = Projections.drawn(d, d // 2, seed=int(rng.integers(2**31)), kind=config["kind"])
    outer_lo, outer_hi = vectors.rectangles(work.centers, work.radii)
    inner_lo, inner_hi = vectors.rectangles(work.centers[questions], work.radii[questions], inner=True)
    agree, rows = others.copy(), []
    for axis in range(d // 2):
        agree &= outer_lo[:, axis, None] <= inner_lo[None, :, axis]
        agree &= outer_hi[:, axis, None] >= inner_hi[None, :, axis]
        k = axis + 1
        rows.append({"k": k, "bound": (2 / math.pi) ** k, **_errors(agree, truth, others, rng)})
    return rows


def _errors(agree: Bools, truth: Bools, others: Bools, rng: np.random.Generator) -> dict[str, float]:
    """Count false and missed coverings, and how often a random candidate for a covered ball is not a cover of it."""
    covered = np.flatnonzero(truth.any(axis=0))
    drawn = [rng.choice(np.flatnonzero(agree[:, column])) for column in covered]
    missed = sum(not truth[row, column] for row, column in zip(drawn, covered, strict=True))
    return {
        "error": int((agree & ~truth).sum()) / int((others & ~truth).sum()),
        "missed": int((truth & ~agree).sum()),
        "precision": float((agree & truth).sum() / max(agree.sum(), 1)),
        "covered": len(covered),
        "redundant": missed,
    }


def _plain(rows: Rows) -> Rows:
    """Return the rows of independent vectors, as the paper's proof has them."""
    return where(rows, kind="gaussian")


def _of_bound(rows: Rows, name: str = "error") -> dict[tuple[int, int, str], Interval]:
    """Return a column over the bound at each point (d, k, radii) of independent vectors."""
    return {
        point: bootstrap([value / some[0]["bound"] for value in per_seed(some, name)])
        for point, some in grouped(_plain(rows), "d", "k", "radii").items()
    }


def _decide_missed(rows: Rows) -> Decision:
    missed = sum(column(rows, "missed"))
    return Decision([certain(f"{missed} covers missed", missed == 0)], f"{missed} missed")


def _decide_bound(rows: Rows) -> Decision:
    ratios = _of_bound(rows)
    over = [f"d={d} k={k} {radii}" for (d, k, radii), share in ratios.items() if share.low > 1]
    clauses = [all_below("error over the bound", list(ratios.values()), 1)]
    remark = f"Surely above it: {', '.join(over[:5])}{', ...' if len(over) > 5 else ''}." if over else ""
    return Decision(clauses, f"{len(over)} of {len(ratios)} points surely above", remark)


def _decide_a_fifth(rows: Rows) -> Decision:
    late = [row for row in _plain(rows) if row["k"] >= 2]
    errors = {point: interval(some, "error") for point, some in grouped(late, "d", "k", "radii").items()}
    halves = []
    for some in grouped(late, "d", "k").values():
        pareto, uniform = (per_seed(some, "error", radii=radii) for radii in ("pareto", "uniform"))
        halves.append(bootstrap([a / b for a, b in zip(pareto, uniform, strict=True) if b > 0]))
    worst = max(errors, key=lambda point: errors[point].middle)
    clauses = [
        all_below("error", list(errors.values()), 0.2, ".1%"),
        all_below("Pareto over uniform", halves, 0.5),
    ]
    return Decision(clauses, f"at most {errors[worst]:.1%}, at d={worst[0]}, k={worst[1]}, {worst[2]}")


def _decide_small(rows: Rows) -> Decision:
    small = [ratio for (d, k, _), ratio in _of_bound(rows).items() if d == 4 or k <= 2]
    greatest = max(small, key=lambda ratio: ratio.middle)
    return Decision([all_below("error over the bound", small, 0.75)], f"at most {greatest:.2f} of it")


def _decide_large(rows: Rows) -> Decision:
    high = [ratio for (d, k, radii), ratio in _of_bound(rows).items() if d >= 16 and k >= 6 and radii == "uniform"]
    uniform, pareto = (interval(_plain(rows), "error", d=20, k=6, radii=radii) for radii in ("uniform", "pareto"))
    clauses = [
        all_above("d = 16, 20, k >= 6, uniform: error over the bound", high, 1),
        below("d = 20, k = 6: uniform", uniform, 0.1, ".1%"),
        below("Pareto", pareto, 0.03, ".1%"),
    ]
    return Decision(clauses, f"uniform {uniform:.1%}, Pareto {pareto:.1%} at d=20, k=6")


def _decide_find_one(rows: Rows) -> Decision:
    shares = {}
    for (d, k), some in grouped(where(_plain(rows), radii="uniform"), "d", "k").items():
        covered = sum(column(some, "covered"))
        if covered >= _ENOUGH:
            shares[d, k] = share_interval(sum(column(some, "redundant")), covered), some[0]["bound"]
    over = sum(share.low > bound for share, bound in shares.values())
    worst = max(shares.values(), key=lambda pair: pair[0].middle)[0]
    # a share that is certain to be above its bound refutes, one that may be leaves it undecided
    ratios = [Interval(*(end / bound for end in share)) for share, bound in shares.values()]
    remark = "The product's index verifies until a candidate passes, the largest first, and misses none."
    ours = f"up to {worst:.0%}; surely above at {over} of {len(shares)} points"
    return Decision([all_below("share missed over (2/pi)^k", ratios, 1)], ours, remark)


#: Covered balls that a share needs.
_ENOUGH: Final = 10


def _made_up() -> Rows:
    """Make up errors below the bound where the paper has them below, above it where it has them above."""
    rows: list[Row] = []
    for d in _DIMENSIONS:
        for k in range(1, d // 2 + 1):
            bound = (2 / math.pi) ** k
            for radii, share in (("uniform", 1.0), ("pareto", 0.3)):
                error = share * (1.3 if d >= 16 and k >= 6 else 0.4) * bound
                row = {"d": d, "k": k, "radii": radii, "kind": "gaussian", "bound": bound, "error": error, "missed": 0}
                rows += [{**row, "seed": seed, "covered": 1_000, "redundant": 0} for seed in range(20)]
    return rows


def _lower(row: Row) -> Row:
    """Put the error of a row below the bound."""
    return {**row, "error": min(row["error"], 0.4 * row["bound"])}


CLAIMS: Final = {
    "RP1": Judge(
        rule="No cover fails to agree on a projection.",
        reason="Proposition 2.2 has no exceptions.",
        paper_value="no false non-covering",
        decide=_decide_missed,
        passing=_made_up,
        failing={"a cover that is missed": changed(missed=1)},
    ),
    "RP3": Judge(
        rule="At every d, k and distribution of radii the error is below (2/pi)^k.",
        reason="The paper calls it a bound, if an approximate one.",
        paper_value="error <= about (2/pi)^k",
        decide=_decide_bound,
        passing=lambda: [_lower(row) for row in _made_up()],
        failing={
            "above it at one point": changed(error=lambda row: 0.9 if (row["d"], row["k"]) == (20, 9) else row["error"])
        },
    ),
    "RP4": Judge(
        rule="For k >= 2 the error is below 20 % at every point, and with Pareto radii less than half of that with "
        "uniform.",
        reason="Both are sentences of the paper about Figs. 4 to 8.",
        paper_value="< 20 % for k >= 2; Pareto less than half of uniform",
        decide=_decide_a_fifth,
        passing=_made_up,
        failing={
            "a quarter": changed(error=lambda row: 0.25 if row["k"] == 2 else row["error"]),
            "Pareto as uniform": changed(error=lambda row: row["bound"] / 10),
        },
    ),
    "RP5": Judge(
        rule="For d = 4 and for k <= 2 the error is below three quarters of the bound.",
        reason="'Far below' is read as a quarter or more below; small is the least d of the paper or k <= 2.",
        paper_value="far below the bound for small d or small k",
        decide=_decide_small,
        passing=_made_up,
        failing={"just below": changed(error=lambda row: 0.9 * row["bound"])},
    ),
    "RP6": Judge(
        rule="For d = 16, 20, k >= 6 and uniform radii the error is above the bound; for d = 20, k = 6 it is below "
        "10 %, with "
        "Pareto radii below 3 %.",
        reason="These are the paper's sentences.",
        paper_value="d = 16, 20 and k >= 6: uniform above the bound; d=20, k=6: < 10 %, Pareto < 3 %",
        decide=_decide_large,
        passing=_made_up,
        failing={
            "below the bound": _lower,
            "more than 10 %": changed(error=lambda row: 0.2 if row["radii"] == "uniform" else row["error"]),
            "Pareto more than 3 %": changed(error=lambda row: 0.05 if row["radii"] == "pareto" else row["error"]),
        },
    ),
    "RP7": Judge(
        rule="With uniform radii a single candidate, drawn at random, misses a covered ball in a share below "
        "(2/pi)^k, at "
        f"every d and k with {_ENOUGH} covered balls or more.",
        reason="The paper verifies one candidate and says that redundant forwarding is rarer than the bound.",
        paper_value="redundant forwarding of find-one rarer than (2/pi)^k",
        decide=_decide_find_one,
        passing=_made_up,
        failing={"most are missed": changed(redundant=900)},
    ),
}


EXPERIMENT: Final = Experiment(
    name="rp-error",
    paper="projection",
    figure="Figs. 4 to 8",
    set_up="Balls with centres uniform in the unit cube; some of them ask for covers among all others; k = 1 .. d/2.",
    readings=(
        "The error is false coverings over all ordered pairs that do not cover: only this fits the paper's numbers.",
        "Pareto radii: bounded Pareto of shape 1.161 (80-20) on 0.05 to 1.",
        "A tenth of the balls ask, all of them answer.",
        "Independent Gaussian vectors as in the proof; orthonormal ones stand beside them.",
    ),
    configs=_configs,
    run=_run,
    draws=SEEDS,
    claims=CLAIMS,
    design=2,
    charts=tuple(
        Chart(
            f"False coverings, d = {d}",
            "k",
            "error",
            ("radii",),
            beside=("bound",),
            only={"d": d, "kind": "gaussian"},
            log_y=True,
            x_label="projections",
            y_label="share of pairs that do not cover",
        )
        for d in _DIMENSIONS
    ),
)
