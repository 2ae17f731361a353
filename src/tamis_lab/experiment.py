"""What an experiment is: configurations, rows, judges and the findings they come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tamis_lab.plots.charts import Chart
from tamis_lab.rows import Row, Rows
from tamis_lab.scale import Scale
from tamis_lab.verdicts import ClaimVerdict, Judge

__all__ = ["SEEDS", "Config", "Experiment", "Finding", "Run", "grid"]

Config = dict[str, Any]
#: Takes a configuration and a seeded generator, and returns rows.
Run = Callable[[Config, np.random.Generator], list[Row]]
#: Draws of everything that chance has a part in.
SEEDS: Final = 20


@dataclass(frozen=True)
class Finding:
    """A claim of a paper and what came of it.

    ``smaller`` says that it was judged on fewer or smaller configurations than the paper's.
    """

    claim: str
    paper: str
    verdict: ClaimVerdict
    paper_value: str
    our_value: str
    why: str
    rule: str
    experiment: str
    scale: Scale
    smaller: bool


@dataclass(frozen=True)
class Experiment:
    """One question to the product, as a paper asked it.

    ``configs`` gives the configurations of a scale, each a dict of scalars; ``run`` takes one of them and a seeded
    generator and returns rows. Columns that end in ``_seconds`` are processor times; all others depend on the seed.
    ``claims`` has a judge for each claim; an experiment without claims shows what the product does beside the papers.
    ``draws`` says how often a configuration is drawn: each draw has its own generator, and its rows get a ``seed``.
    ``design`` counts the changes to what rows hold: rows of an earlier design are run again before they are judged.
    """

    name: str
    paper: str
    figure: str
    set_up: str
    configs: Callable[[Scale], list[Config]]
    run: Run
    claims: Mapping[str, Judge] = field(default_factory=dict)
    readings: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    #: What the rows show, in a sentence with their numbers; for experiments beyond the claims.
    lesson: Callable[[Rows], str] | None = None
    design: int = 1
    draws: int = 1

    def judge(self, rows: Rows, scale: Scale) -> list[Finding]:
        """Return the findings on every claim, from rows of this scale."""
        smaller = scale is Scale.SMALL and self.configs(scale) != self.configs(Scale.PAPER)
        return [
            Finding(claim, self.paper, *judge.judge(rows), judge.rule, self.name, scale, smaller)
            for claim, judge in self.claims.items()
        ]


def grid(**choices: Iterable[Any]) -> list[Config]:
    """Return every combination of the choices as configurations.

    >>> grid(d=(2, 3), kind=("zipf",))
    [{'d': 2, 'kind': 'zipf'}, {'d': 3, 'kind': 'zipf'}]
    """
    configs: list[Config] = [{}]
    for name, values in choices.items():
        configs = [{**config, name: value} for config in configs for value in list(values)]
    return configs
