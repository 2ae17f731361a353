"""Containment trees as overlays, one for all attributes and one for each, beside the R-tree of peers: claim D9.

In a containment tree the parent of a subscription is the smallest one around it, and a virtual root has those that
nothing contains. An event goes down from the root to every child that contains it. In one tree for all attributes each
peer that is reached wants the event; with a tree for each attribute a peer is reached when one attribute fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis_lab.drtree.trees import DEFAULT, READINGS, Floats, draw, grow
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.intervals import Interval
from tamis_lab.peers.containment import SIDE, containment_parents
from tamis_lab.peers.tree_statistics import tree_statistics
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, interval, ratio, where
from tamis_lab.verdicts import Decision, Judge, above, all_above

__all__ = ["EXPERIMENT"]

_R_TREE: Final = "R-tree"
_SINGLE: Final = "one containment tree"
_EACH: Final = "one per attribute"
_EVENTS: Final = ("uniform", "zipf")
_ZIPF: Final = np.cumsum(1 / np.arange(1, SIDE + 2))


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    lo, hi = draw("zipf-25:75", config["n"], 4, rng)
    parents = {
        _SINGLE: [containment_parents(lo, hi)],
        _EACH: [containment_parents(lo[:, [axis]], hi[:, [axis]]) for axis in range(lo.shape[1])],
    }
    seats = grow(lo, hi, "quadratic")
    shape = tree_statistics(seats)
    tops = np.array([seat.mbr(seat.top) for seat in seats]) * SIDE
    boxes = np.array([seat.box for seat in seats]) * SIDE
    rows: list[Row] = []
    for events in _EVENTS:
        points = _draw_events(events, config["events"], rng)
        base = {"events_drawn": events}
        wanted = _inside(points, lo, hi)
        reached = _inside(points, tops[:, 0], tops[:, 1])
        needless = reached & ~_inside(points, boxes[:, 0], boxes[:, 1])
        r_tree: Row = {"overlay": _R_TREE, "false_positives": float(needless.mean()), "height": shape.height}
        r_tree |= {"degree_max": shape.degree_max, "degree_variance": shape.degree_variance}
        rows.append(base | r_tree | {"root_children": min(DEFAULT[1], config["n"])})
        for overlay, trees in parents.items():
            rows.append(base | {"overlay": overlay, **_tree_row(trees, lo, hi, points, wanted)})
    return rows


def _tree_row(
    trees: list[npt.NDArray[np.int64]], lo: Floats, hi: Floats, points: Floats, wanted: npt.NDArray[np.bool_]
) -> Row:
    """Return the shape of containment trees, and the share of peers that get an event in vain."""
    n = len(lo)
    degrees = [np.bincount(parents + 1, minlength=n + 1) for parents in trees]
    inner = [each[each > 0] for each in degrees]
    if len(trees) == 1:
        needless = np.zeros_like(wanted)
    else:
        fits = ((points[:, None] >= lo[None]) & (points[:, None] <= hi[None])).any(axis=2)
        needless = fits & ~wanted
    return {
        "false_positives": float(needless.mean()),
        "height": max(_height(parents) for parents in trees),
        "degree_max": max(int(each.max()) for each in inner),
        "degree_variance": float(np.mean([each.var() for each in inner])),
        "root_children": max(int(each[0]) for each in degrees),
    }


def _height(parents: npt.NDArray[np.int64]) -> int:
    """Return the levels below the virtual root."""
    depth, at = 0, np.arange(len(parents))
    while len(at):
        at = np.unique(parents[at])
        at = at[at >= 0]
        depth += 1
    return depth


def _draw_events(kind: str, n: int, rng: np.random.Generator) -> Floats:
    if kind == "uniform":
        uniform: Floats = rng.random((n, 4)) * SIDE
        return uniform
    values = np.searchsorted(_ZIPF, rng.random((n, 4)) * _ZIPF[-1])
    return np.asarray(values, np.float64)


def _inside(points: Floats, lo: Floats, hi: Floats) -> npt.NDArray[np.bool_]:
    inside = [((point >= lo) & (point <= hi)).all(axis=1) for point in points]
    return np.array(inside, np.bool_)


def _over_r_tree(rows: Rows, name: str, overlay: str) -> Interval:
    return ratio(rows, name, top={"overlay": overlay}, bottom={"overlay": _R_TREE})


def _decide_overlays(rows: Rows) -> Decision:
    at = where(rows, events_drawn="uniform")
    clauses = [
        above("one tree: children of its root over the greatest degree of the R-tree", _root(at, _SINGLE), 10),
        above("one tree: variance of degrees over the R-tree's", _over_r_tree(at, "degree_variance", _SINGLE), 10),
        above("one tree: height over the R-tree's", _over_r_tree(at, "height", _SINGLE), 2),
        above("a tree per attribute: greatest degree over the R-tree's", _over_r_tree(at, "degree_max", _EACH), 1),
        all_above("a tree per attribute: false positives over the R-tree's", [_wrong(at)], 10),
    ]
    shares = ", ".join(
        f"{name} {interval(at, 'false_positives', overlay=name):.1%}" for name in (_R_TREE, _SINGLE, _EACH)
    )
    skewed = where(rows, events_drawn="zipf")
    zipf = ", ".join(f"{name} {interval(skewed, 'false_positives', overlay=name):.1%}" for name in (_R_TREE, _EACH))
    remark = (
        f"Children of the root: {interval(at, 'root_children', overlay=_SINGLE):,.0f} in one tree, up to "
        f"{interval(at, 'root_children', overlay=_EACH):,.0f} in a tree per attribute. With Zipf events: {zipf}. One "
        "tree sends nothing in vain: every subscription that contains the event wants it."
    )
    return Decision(clauses, f"false positives, share of peers: {shares}", remark)


def _root(rows: Rows, overlay: str) -> Interval:
    children = [{**row, "root": row["root_children" if row["overlay"] == overlay else "degree_max"]} for row in rows]
    return _over_r_tree(children, "root", overlay)


def _wrong(rows: Rows) -> Interval:
    return _over_r_tree(rows, "false_positives", _EACH)


def _made_up() -> Rows:
    shapes = {_R_TREE: (0.01, 4, 30, 10.0, 10), _SINGLE: (0.0, 12, 900, 2_000.0, 900), _EACH: (0.5, 40, 60, 50.0, 50)}
    names = ("false_positives", "height", "degree_max", "degree_variance", "root_children")
    return [
        {"seed": seed, "events_drawn": events, "overlay": overlay}
        | {name: value * (1 + seed / 100) for name, value in zip(names, values, strict=True)}
        for seed in range(3)
        for events in _EVENTS
        for overlay, values in shapes.items()
    ]


def _spoiled(name: str, overlay: str) -> Callable[[Row], Row]:
    """Return a fault: a column is 1 for one overlay."""
    return changed(**{name: lambda row: 1 if row["overlay"] == overlay else row[name]})


CLAIMS: Final = {
    "D9": Judge(
        rule="One containment tree has a root with more than 10 times the neighbours of any peer of the R-tree, "
        "degrees of more than 10 times the variance, and more than twice the height; containment trees per attribute "
        "have a greater degree than the R-tree, and send more than 10 times as much in vain.",
        reason="Section 3.1 dismisses the first for its root, its variance and its balance, and the second for flat "
        "trees of high fan-out with a significant number of false positives. Heavily and significant are read as a "
        "factor of 10, unbalanced as twice the height.",
        paper_value="a containment tree has a huge root and is unbalanced; one per dimension is flat, with many false "
        "positives",
        decide=_decide_overlays,
        passing=_made_up,
        failing={
            "a small root": _spoiled("root_children", _SINGLE),
            "even degrees": _spoiled("degree_variance", _SINGLE),
            "a balanced tree": _spoiled("height", _SINGLE),
            "a low fan-out per attribute": _spoiled("degree_max", _EACH),
            "few false positives per attribute": changed(
                false_positives=lambda row: 0.02 if row["overlay"] == _EACH else row["false_positives"]
            ),
        },
    ),
}

EXPERIMENT: Final = Experiment(
    name="dr-overlays",
    paper="drtree",
    figure="section 3.1, containment trees",
    set_up="The same Zipf-25:75 subscriptions of four attributes as an R-tree of peers (quadratic, 5 to 10), as one "
    "containment tree and as one for each attribute; uniform and Zipf events go down from the root.",
    readings=(
        *READINGS,
        "The parent in a containment tree is the smallest subscription around; a virtual root has the others.",
        "With a tree per attribute a peer gets an event as soon as one of its attributes fits.",
    ),
    configs=lambda scale: grid(n=(scale.choose(200, 3_000, 10_000),), events=(200,), seed=range(SEEDS)),
    run=_run,
    claims=CLAIMS,
    charts=(
        Chart(
            "Peers that get an event in vain",
            "overlay",
            "false_positives",
            ("events_drawn",),
            y_label="share of peers",
        ),
        Chart("Children of the root", "overlay", "root_children", only={"events_drawn": "uniform"}, log_y=True),
    ),
)
