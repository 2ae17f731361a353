"""What an experiment is: configurations, rows, findings; and the small questions that judges ask of rows."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tamis.plots.charts import Chart, Row, where

__all__ = [
    "Config",
    "Experiment",
    "Finding",
    "Row",
    "Scale",
    "Verdict",
    "column",
    "grid",
    "judged",
    "not_testable",
    "one",
    "rises",
    "where",
]

Config = dict[str, Any]
Rows = Sequence[Row]


class Scale(enum.StrEnum):
    """How large: a look in minutes, the sizes of the paper, or beyond them."""

    SMALL = "small"
    PAPER = "paper"
    BEYOND = "beyond"

    def choose(self, small: Any, paper: Any, beyond: Any = None) -> Any:
        """Return the value for this scale; beyond is as the paper where it is not given."""
        return {"small": small, "paper": paper, "beyond": paper if beyond is None else beyond}[self.value]


class Verdict(enum.StrEnum):
    """What came of a claim."""

    HELD = "held"
    NOT_HELD = "not held"
    NOT_TESTABLE = "not testable"


@dataclass(frozen=True)
class Finding:
    """A claim of a paper, its number, ours, and what follows.

    ``why`` is a plain sentence: how it was judged, and where it does not hold, what was seen.
    """

    claim: str
    verdict: Verdict
    paper_value: str
    our_value: str
    why: str


@dataclass(frozen=True)
class Experiment:
    """One question to the product, as a paper asked it.

    ``configs`` gives the configurations of a scale, each a dict of scalars; ``run`` takes one of them and a seeded
    generator and returns rows. Columns that end in ``_seconds`` are clock times; all others depend on the seed alone.
    """

    name: str
    paper: str
    figure: str
    claims: tuple[str, ...]
    set_up: str
    configs: Callable[[Scale], list[Config]]
    run: Callable[[Config, np.random.Generator], list[Row]]
    judge: Callable[[Rows], list[Finding]]
    readings: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = field(default=())


def grid(**choices: Iterable[Any]) -> list[Config]:
    """Return every combination of the choices as configurations.

    >>> grid(d=(2, 3), kind=("zipf",))
    [{'d': 2, 'kind': 'zipf'}, {'d': 3, 'kind': 'zipf'}]
    """
    found: list[Config] = [{}]
    for name, values in choices.items():
        found = [{**config, name: value} for config in found for value in values]
    return found


def column(rows: Rows, name: str) -> list[Any]:
    """Return one column of the rows that have it."""
    return [row[name] for row in rows if name in row]


def one(rows: Rows, name: str, /, **wanted: Any) -> Any:
    """Return the value of a column in the one row that has the wanted values."""
    [row] = where(rows, **wanted)
    return row[name]


def rises(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether no value is below the one before it by more than a share ``slack``.

    >>> rises([1, 2, 2]), rises([1.0, 0.97, 2.0]), rises([1.0, 0.97, 2.0], slack=0.05)
    (True, False, True)
    """
    return all(later >= earlier * (1 - slack) for earlier, later in zip(values, values[1:], strict=False))


def judged(claim: str, holds: bool, paper_value: str, our_value: str, why: str) -> Finding:
    """Return a finding from a check."""
    return Finding(claim, Verdict.HELD if holds else Verdict.NOT_HELD, paper_value, our_value, why)


def not_testable(claim: str, paper_value: str, why: str) -> Finding:
    """Return the finding of a claim that cannot be tested here."""
    return Finding(claim, Verdict.NOT_TESTABLE, paper_value, "", why)
