"""Cells that follow the publications, and merged augmentations: claims M13 and M14.

Values are real numbers here: what a cell adds around a subscription, its *augmentation*, is what the claims are about.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.curves.cells import Cells
from tamis.curves.hilbert import HilbertCurve
from tamis.engine.engine import Engine
from tamis.index.mics.table import RangeTable
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis_lab.experiment import SEEDS, Config, Experiment, grid
from tamis_lab.mics.drawing import KINDS, READINGS, SIDE, draw_cells
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, changed, column, grouped, interval, ratio, where
from tamis_lab.verdicts import Decision, Judge, all_below, certain

__all__ = ["EXPERIMENT"]

Floats = npt.NDArray[np.float64]
_SIZE: Final = 4.0
#: Publications that cells are learned from; others are sent.
_LEARNED: Final = 2_000
_CUTS: Final = ("equal", "learned")


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    """Send publications past the cells of subscriptions, once with equal cells and once with learned ones."""
    d, kind = config["d"], config["kind"]
    low = np.minimum(_draw(config["n"], d, kind, rng), SIDE - _SIZE)
    events, learned = _draw(config["events"], d, kind, rng), _draw(_LEARNED, d, kind, rng)
    everywhere = rng.random((config["events"], d)) * SIDE
    wanted, inside = (_wanted(low, low + _SIZE, points) for points in (events, everywhere))
    rows: list[Row] = []
    for cut in _CUTS:
        cells = [_cells(cut, learned[:, axis], config["bits"]) for axis in range(d)]
        curve = HilbertCurve(d, config["bits"])
        spans = np.array([[c.span(a, a + _SIZE) for c, a in zip(cells, box, strict=True)] for box in low.tolist()])
        boxes = np.moveaxis(spans, 2, 1)
        table = RangeTable(curve.n_keys)
        table.add(curve.ranges_of(boxes)[1])
        sent, covered = (table.matches(curve.keys(_places(cells, points))) for points in (events, everywhere))
        row: Row = {"cut": cut, "lost": int((wanted & ~sent).sum()), "false": int((sent & ~wanted).sum())}
        row["false_share"] = row["false"] / max(int(sent.sum()), 1)
        if cut == "equal":
            width = SIDE / 2 ** config["bits"]
            each = float((((boxes[:, 1] - boxes[:, 0] + 1) * width).prod(axis=1) - _SIZE**d).sum())
            merged = int((covered & ~inside).sum()) / len(everywhere) * SIDE**d
            row |= {"augmented_each": each, "augmented": merged, "merged_share": merged / each}
        rows.append(row)
    return rows


def _draw(n: int, d: int, kind: str, rng: np.random.Generator) -> Floats:
    """Draw values of 0 to 256: a cell as in the paper, and a place inside it."""
    return draw_cells(n, d, kind, rng) + rng.random((n, d))


def _cells(cut: str, learned: Floats, bits: int) -> Cells:
    return Cells.equal(0, SIDE, bits, null=False) if cut == "equal" else Cells.from_sample(learned, bits, null=False)


def _places(cells: list[Cells], points: Floats) -> npt.NDArray[np.int64]:
    return np.stack([each.cells(points[:, axis]) for axis, each in enumerate(cells)], axis=1)


def _wanted(lo: Floats, hi: Floats, points: Floats) -> npt.NDArray[np.bool_]:
    names = [f"a{axis}" for axis in range(lo.shape[1])]
    engine = Engine(Schema({name: Number(0, SIDE) for name in names}))
    engine.subscribe_boxes(names, lo, hi)
    wanted: npt.NDArray[np.bool_] = (
        np.diff(engine.match_table({name: points[:, axis] for axis, name in enumerate(names)}).offsets) > 0
    )
    return wanted


def _decide_learned(rows: Rows) -> Decision:
    zipf, lost = where(rows, kind="zipf"), sum(column(rows, "lost"))
    cases = list(grouped(zipf, "d", "bits"))
    shares = [ratio(zipf, "false", top={"cut": "learned"}, bottom={"cut": "equal"}, d=d, bits=b) for d, b in cases]
    clauses = [
        certain(f"{lost} wanted publications lost", lost == 0),
        all_below("false positives with learned cells over those with equal cells", shares, 0.5),
    ]
    ours = "; ".join(f"{d}-d, {b} bits: {share:.2f}" for (d, b), share in zip(cases, shares, strict=True))
    uniform = where(rows, kind="uniform")
    beside = ratio(uniform, "false", top={"cut": "learned"}, bottom={"cut": "equal"})
    return Decision(clauses, ours, f"With uniform publications, where nothing can be learned: {beside:.2f}.")


def _decide_merged(rows: Rows) -> Decision:
    at = where(rows, cut="equal", kind="zipf")
    cases = list(grouped(at, "d", "bits"))
    shares = [interval(at, "merged_share", d=d, bits=bits) for d, bits in cases]
    clauses = [all_below("augmentation of the union over the sum of all augmentations", shares, 0.5)]
    ours = "; ".join(f"{d}-d, {bits} bits: {share:.2f}" for (d, bits), share in zip(cases, shares, strict=True))
    uniform = where(rows, cut="equal", kind="uniform")
    beside = [f"{d}-d: {interval(some, 'merged_share'):.2f}" for (d,), some in grouped(uniform, "d").items()]
    return Decision(clauses, ours, f"With uniform subscriptions, which overlap less: {', '.join(beside)}.")


def _made_up() -> Rows:
    return [
        {"seed": seed, "kind": kind, "d": d, "bits": bits, "cut": cut, "lost": 0, "merged_share": 0.3 + seed / 100}
        | {"false": (100 + seed) * (0.3 if (cut, kind) == ("learned", "zipf") else 1.0)}
        for seed in range(3)
        for kind in KINDS
        for d in (2, 3)
        for bits in (5, 6)
        for cut in _CUTS
    ]


CLAIMS: Final = {
    "M13": Judge(
        rule="With Zipf publications and subscriptions, as many cells cut where the publications are leave less than "
        "half of the false positives of equal cells, in every dimension and with every number of cells; no wanted "
        "publication is lost.",
        reason="Section 6.3 says 'reduced considerably'; considerably is read as half or less.",
        paper_value="cells that follow the publications reduce false positives considerably (Zipf)",
        decide=_decide_learned,
        passing=_made_up,
        failing={
            "no gain": changed(false=100),
            "a gain in one dimension only": changed(
                false=lambda row: row["false"] * (5 if row["d"] == 3 and row["cut"] == "learned" else 1)
            ),
            "a publication that is lost": changed(lost=1),
        },
    ),
    "M14": Judge(
        rule="With Zipf subscriptions the volume that cells add around the union of all subscriptions is less than "
        "half of the sum of what they add around each.",
        reason="Section 6.2 says 'considerably smaller'; considerably is read as half or less. Zipf subscriptions "
        "overlap, as in the paper's example.",
        paper_value="merged, the augmentation is considerably smaller than the sum over subscriptions",
        decide=_decide_merged,
        passing=_made_up,
        failing={"nothing merged": changed(merged_share=0.95)},
    ),
}

EXPERIMENT: Final = Experiment(
    name="m-cells",
    paper="mics",
    figure="sections 6.2 and 6.3",
    set_up="Subscriptions of 4 of 256 units a side, publications with real values, 2^bits cells to an axis: equal "
    "ones, and as many learned from 2,000 earlier publications.",
    readings=(*READINGS, "A value lies at random inside its cell of 256, so that coarser cells round it."),
    configs=lambda scale: grid(
        d=(2, 3),
        kind=KINDS,
        bits=(5, 6, 7),
        n=(scale.choose(100, 1_000),),
        events=(scale.choose(1_000, 20_000),),
    ),
    run=_run,
    draws=SEEDS,
    claims=CLAIMS,
    charts=(
        Chart(
            "False positives, equal and learned cells",
            "bits",
            "false_share",
            ("cut", "kind"),
            panels="d",
            x_label="bits of an axis",
            y_label="share of forwarded publications",
        ),
        Chart(
            "Augmentation of the union over the sum",
            "bits",
            "merged_share",
            ("kind",),
            panels="d",
            only={"cut": "equal"},
            x_label="bits of an axis",
        ),
    ),
)
