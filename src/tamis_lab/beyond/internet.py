"""Trees of brokers up to 10^5 and 10^7 subscriptions, by sampling and a closed form.

A link with ``s`` subscriptions behind it announces those that no other of them covers. Subscriptions that stand at
random brokers are a random sample, so a link's table depends on ``s`` alone: on C(s), the expected number of uncovered
ones among s. And of n that arrive in random order the i-th is announced with probability C(i) / i, so F(n), the sum of
these, is what was ever sent. Both are counted on samples by the exact covering index, up to a size that fits this
machine; beyond it, log C goes on as a straight line with the slope of the four largest sizes, and rows say so
(``sampled``). The simulator, which sends every message, stands beside the formula where it can.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis_lab.beyond.links import draw_boxes, make_trial
from tamis_lab.experiment import Config, Experiment, grid
from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows, column, grouped, where
from tamis_lab.scale import Scale
from tamis_lab.uncovered import BoxArray, count_announced, count_uncovered

__all__ = ["EXPERIMENT", "count_links", "held_back"]

_DISTRIBUTIONS: Final = ("uniform", "zipf-25:75")
_FAN_OUT: Final = 2
_PER_BROKER: Final = 100
#: A count is the mean of at most ``_PARTS`` parts; a straight line is fitted to the ``_FITTED`` largest sizes.
_PARTS: Final = 20
_FITTED: Final = 4
_BROKERS: Final = (100, 1_000, 10_000, 100_000)


def _configs(scale: Scale) -> list[Config]:
    most = scale.choose(10_000, 100_000, 1_000_000)
    formula = grid(part=("formula",), distribution=_DISTRIBUTIONS, d=(2, 4), most=(most,))
    return [*formula, *grid(part=("simulator",), distribution=_DISTRIBUTIONS, d=(2,), brokers=(7, 15, 31))]


def _run(config: Config, rng: np.random.Generator) -> list[Row]:
    if config["part"] == "simulator":
        return [_simulate(config, rng)]
    most = config["most"]
    boxes = draw_boxes(config["distribution"], most, config["d"], rng)
    rows = sample_curve(boxes)
    curve = _Curve([row["n"] for row in rows], [row["uncovered"] for row in rows])
    return rows + [_predict(curve, brokers, most) for brokers in _BROKERS]


def sample_curve(boxes: BoxArray) -> list[Row]:
    """Count the uncovered and the announced among 1, 3, 10, 30, ... of boxes in random order, the mean of parts."""
    sizes = [size for power in range(7) for size in (10**power, 3 * 10**power) if size <= len(boxes)]
    rows: list[Row] = []
    for n in sizes:
        parts = [boxes[n * part : n * (part + 1)] for part in range(min(_PARTS, len(boxes) // n))]
        counts = {"uncovered": count_uncovered, "announced": count_announced}
        means = {name: float(np.mean([count(part) for part in parts])) for name, count in counts.items()}
        rows.append({"n": n, **means, "sampled": True})
    return rows


class _Curve:
    """C(n) between and beyond sampled sizes: straight on logarithmic axes, at most n."""

    def __init__(self, sizes: Sequence[int], counts: Sequence[float]) -> None:
        self._x, self._y = np.log(sizes), np.log(counts)
        self._slope = float(np.polyfit(self._x[-_FITTED:], self._y[-_FITTED:], 1)[0])

    def __call__(self, n: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the expected number of uncovered subscriptions among each of n."""
        x = np.log(np.maximum(n, 1.0))
        beyond = self._y[-1] + np.maximum(x - self._x[-1], 0.0) * self._slope
        counts: npt.NDArray[np.float64] = np.exp(np.where(x > self._x[-1], beyond, np.interp(x, self._x, self._y)))
        return np.where(n < 1, n, np.minimum(counts, n))


def count_links(brokers: int) -> list[tuple[int, int]]:
    """Return (brokers behind a link, how many such links) of a balanced tree, seen from the root.

    >>> count_links(7)
    [(3, 2), (1, 4)]
    """
    sizes = [1] * (brokers + 1)
    for broker in range(brokers, 1, -1):
        sizes[(broker - 2) // _FAN_OUT + 1] += sizes[broker]
    behind = sorted(sizes[2:], reverse=True)
    return [(size, len(list(same))) for size, same in itertools.groupby(behind)]


def _entries(curve: _Curve, brokers: int, subscriptions: int) -> float:
    """Return the entries of all tables: each link holds what is behind it, and what is not, for the other side."""
    behind, links = np.array(count_links(brokers), dtype=float).T
    below = subscriptions * behind / brokers
    return float((links * (curve(below) + curve(subscriptions - below))).sum())


def _predict(curve: _Curve, brokers: int, most: int) -> Row:
    subscriptions = brokers * _PER_BROKER
    whole, links = _entries(curve, brokers, subscriptions), brokers - 1
    return {
        "brokers": brokers,
        "subscriptions": subscriptions,
        "entries_per_broker": whole / brokers,
        "identity_per_broker": links * subscriptions / brokers,
        "saved": 1 - whole / (links * subscriptions),
        "largest_table": float(curve(np.array([float(subscriptions)]))[0]),
        "sampled": subscriptions <= most,
    }


def _simulate(config: Config, rng: np.random.Generator) -> Row:
    """Send every message of a small tree, and ask the formula for the same."""
    n = 20 * config["brokers"]
    boxes = draw_boxes(config["distribution"], n, config["d"], rng)
    trial = make_trial(boxes, np.empty((0, config["d"])), config["brokers"], seed=int(rng.integers(2**31)))
    drawn = [sample_curve(draw_boxes(config["distribution"], n, config["d"], rng)) for _ in range(5)]
    counts = np.mean([[row["uncovered"] for row in rows] for rows in drawn], axis=0)
    curve = _Curve([row["n"] for row in drawn[0]], counts.tolist())
    return {"n": n, "simulated": trial.run("covering").table_entries, "formula": _entries(curve, config["brokers"], n)}


def held_back(rows: Rows) -> float:
    """Return by which factor, at most, a line through sizes up to a tenth of the largest misses the largest counted.

    >>> counted = [{"distribution": "x", "d": 2, "n": 10**power, "uncovered": 4.0**power} for power in range(4)]
    >>> round(held_back(counted), 6), round(held_back([*counted, {**counted[0], "n": 10**4, "uncovered": 512.0}]), 6)
    (1.0, 2.0)
    """
    factors = []
    for sampled in grouped(rows, "distribution", "d").values():
        counts = {row["n"]: row["uncovered"] for row in sampled if "uncovered" in row}
        largest = max(counts)
        sizes = [n for n in counts if n <= largest / 10]
        line = _Curve(sizes, [counts[n] for n in sizes])
        factors.append(abs(math.log(float(line(np.array([float(largest)]))[0]) / counts[largest])))
    return math.exp(max(factors))


def _lesson(rows: Rows) -> str:
    apart = max(abs(math.log(row["formula"] / row["simulated"])) for row in where(rows, part="simulator"))
    largest = where(rows, brokers=_BROKERS[-1])
    entries = [
        f"{row['distribution']}, {row['d']}-d: {row['entries_per_broker']:,.0f} entries per broker, "
        f"1 of {1 / (1 - row['saved']):,.0f} that there are without covering"
        for row in largest
    ]
    sampled = max(column(where(rows, part="formula", sampled=True), "n"))
    return (
        f"At {_BROKERS[-1]:,} brokers and {largest[0]['subscriptions']:,} subscriptions: {'; '.join(entries)}. "
        f"Counted on samples of up to {sampled:,}, and a straight line on logarithmic axes beyond: through samples of "
        f"up to {sampled // 10:,} it misses the count at {sampled:,} by a factor of {held_back(rows):.2f} at most. "
        f"The formula is within a factor of {math.exp(apart):.2f} of the simulator where both can say."
    )


EXPERIMENT: Final = Experiment(
    name="b-internet",
    paper="beyond",
    figure="toward 10^5 brokers and 10^7 subscriptions",
    set_up="A balanced binary tree of brokers, 100 subscriptions at each, exact covering on every link: entries of the "
    "routing tables by sampling and a closed form.",
    readings=(
        "Subscriptions stand at brokers at random: what is behind a link is a random sample; C(s) of s is announced.",
        "Beyond the largest sample log C goes on as a straight line: an assumption, and marked in the rows.",
    ),
    configs=_configs,
    run=_run,
    lesson=_lesson,
    charts=(
        Chart(
            "Uncovered among n",
            "n",
            "uncovered",
            ("distribution", "d"),
            only={"part": "formula"},
            log_x=True,
            log_y=True,
            x_label="subscriptions behind a link",
            y_label="announced",
        ),
        Chart(
            "Entries per broker with covering",
            "brokers",
            "entries_per_broker",
            ("distribution", "d"),
            beside=("identity_per_broker",),
            only={"part": "formula"},
            log_x=True,
            log_y=True,
            y_label="entries",
        ),
    ),
)
