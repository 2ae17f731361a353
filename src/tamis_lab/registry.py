"""All experiments by name, and the papers they belong to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tamis.errors import ModelError
from tamis_lab import beyond, drtree, mics, projection, regions, zcurve
from tamis_lab.experiment import Experiment

__all__ = ["EXPERIMENTS", "PAPERS", "find_experiment", "find_experiments"]

PAPERS: Final = {
    "zcurve": "Z. Shen, S. Tirthapura: Approximate covering detection among content-based subscriptions using space "
    "filling curves",
    "mics": "H. Jafarpour, S. Mehrotra, N. Venkatasubramanian, M. Montanari: MICS, an efficient content space "
    "representation model for publish/subscribe systems",
    "crtree": "A. Konstantinidis, A. Carzaniga, A. L. Wolf: A content-based publish/subscribe matching algorithm for "
    "2D spatial objects",
    "projection": "D. A. Tran, T. Nguyen: A random projection approach to subscription covering detection in "
    "publish/subscribe systems",
    "drtree": "S. Bianchi, P. Felber, M. Gradinariu: Content-based publish/subscribe using distributed R-trees",
    "beyond": "Beyond the papers: the product's defaults beside their structures, and sizes that no machine here runs",
}

EXPERIMENTS: Final[dict[str, Experiment]] = {
    experiment.name: experiment
    for paper in (zcurve, mics, regions, projection, drtree, beyond)
    for experiment in paper.EXPERIMENTS
}


def find_experiment(name: str) -> Experiment:
    """Return an experiment by name; an error that lists the names when there is none."""
    if name not in EXPERIMENTS:
        raise ModelError(
            f"no experiment, paper or claim is called {name!r}; experiments: {', '.join(EXPERIMENTS)}; papers: "
            f"{', '.join(PAPERS)}; claims as Z7; or all"
        )
    return EXPERIMENTS[name]


def find_experiments(names: Iterable[str]) -> list[Experiment]:
    """Return experiments by name, by claim (``Z7``) or by paper (``mics``); ``all`` means every one."""
    experiments: dict[str, Experiment] = {}
    for name in names:
        chosen = [each for each in EXPERIMENTS.values() if name in ("all", each.paper) or name.upper() in each.claims]
        experiments |= {each.name: each for each in chosen or [find_experiment(name)]}
    return list(experiments.values())
