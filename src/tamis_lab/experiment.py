"""What an experiment is: configurations, rows, findings; and the small questions that judges ask of rows."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tamis_lab.plots.charts import Chart, Row, where
from tamis_lab.scale import Scale

__all__ = [
    "Config",
    "Experiment",
    "Finding",
    "Judge",
    "Outcome",
    "Row",
    "Rows",
    "Scale",
    "Verdict",
    "column",
    "falls",
    "grid",
    "judged",
    "mean",
    "not_testable",
    "rises",
    "value_at",
    "where",
]

Config = dict[str, Any]
Rows = Sequence[Row]


class Verdict(enum.StrEnum):
    """What came of a claim."""

    HELD = "held"
    NOT_HELD = "not held"
    NOT_TESTABLE = "not testable"


class Outcome(NamedTuple):
    """What a judge says: the verdict, the paper's number, ours, and in a plain sentence how it was judged."""

    verdict: Verdict
    paper_value: str
    our_value: str
    why: str


#: Decides one claim from the rows alone.
Judge = Callable[[Rows], Outcome]


@dataclass(frozen=True)
class Finding:
    """A claim of a paper and what came of it.

    ``smaller`` says that it was judged on fewer or smaller configurations than the paper's.
    """

    claim: str
    paper: str
    verdict: Verdict
    paper_value: str
    our_value: str
    why: str
    experiment: str
    scale: Scale
    smaller: bool


@dataclass(frozen=True)
class Experiment:
    """One question to the product, as a paper asked it.

    ``configs`` gives the configurations of a scale, each a dict of scalars; ``run`` takes one of them and a seeded
    generator and returns rows. Columns that end in ``_seconds`` are processor times; all others depend on the seed.
    ``claims`` has a judge for each claim; an experiment without claims shows what the product does beside the papers.
    """

    name: str
    paper: str
    figure: str
    set_up: str
    configs: Callable[[Scale], list[Config]]
    run: Callable[[Config, np.random.Generator], list[Row]]
    claims: Mapping[str, Judge] = field(default_factory=dict)
    readings: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    #: What the rows show, in a sentence with their numbers; for experiments beyond the claims.
    lesson: Callable[[Rows], str] | None = None

    def judge(self, rows: Rows, scale: Scale) -> list[Finding]:
        """Return the findings on every claim, from rows of this scale."""
        smaller = scale is Scale.SMALL and self.configs(scale) != self.configs(Scale.PAPER)
        return [
            Finding(claim, self.paper, *decide(rows), experiment=self.name, scale=scale, smaller=smaller)
            for claim, decide in self.claims.items()
        ]


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


def value_at(rows: Rows, name: str, /, **wanted: Any) -> Any:
    """Return the value of a column in the only row that has the wanted values."""
    [row] = where(rows, **wanted)
    return row[name]


def mean(rows: Rows, name: str, /, **wanted: Any) -> float:
    """Return the mean of a column over the rows that have the wanted values.

    >>> mean([{"d": 2, "n": 1}, {"d": 2, "n": 4}, {"d": 3, "n": 9}], "n", d=2)
    2.5
    """
    return float(np.mean(column(where(rows, **wanted), name)))


def rises(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether no value is below the one before it by more than a share ``slack``.

    >>> rises([1, 2, 2]), rises([1.0, 0.97, 2.0]), rises([1.0, 0.97, 2.0], slack=0.05)
    (True, False, True)
    """
    return all(later >= earlier * (1 - slack) for earlier, later in itertools.pairwise(values))


def falls(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether no value is above the one before it by more than a share ``slack``."""
    return rises(list(reversed(values)), slack)


def judged(holds: bool, paper_value: str, our_value: str, why: str) -> Outcome:
    """Return the outcome of a check."""
    return Outcome(Verdict.HELD if holds else Verdict.NOT_HELD, paper_value, our_value, why)


def not_testable(paper_value: str, why: str) -> Outcome:
    """Return the outcome of a claim that cannot be tested here."""
    return Outcome(Verdict.NOT_TESTABLE, paper_value, "", why)
