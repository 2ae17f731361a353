"""Every claim of the papers has one judge, and experiments are found by name, paper and claim."""

from __future__ import annotations

import pytest

from tamis.errors import ModelError
from tamis_lab.experiment import Experiment
from tamis_lab.registry import EXPERIMENTS, PAPERS, find_experiments
from tamis_lab.scale import Scale

CLAIMS = {"zcurve": ("Z", 13), "mics": ("M", 15), "crtree": ("SP", 7), "projection": ("RP", 8), "drtree": ("D", 9)}


@pytest.mark.parametrize("paper", CLAIMS)
def test_every_claim_has_one_judge(paper: str) -> None:
    letters, count = CLAIMS[paper]
    judged = [claim for each in EXPERIMENTS.values() if each.paper == paper for claim in each.claims]
    assert sorted(judged) == sorted(f"{letters}{number}" for number in range(1, count + 1))


def test_names() -> None:
    assert [each.name for each in find_experiments(["z10"])] == ["z-plateau"]
    assert [each.name for each in find_experiments(["rp-cubes", "RP8"])] == ["rp-cubes"]
    assert {each.paper for each in find_experiments(["mics", "Z1"])} == {"mics", "zcurve"}
    assert find_experiments(["all"]) == list(EXPERIMENTS.values())
    with pytest.raises(ModelError, match="is called 'z99'; experiments: z-cubes, .*papers: zcurve, .*claims as Z7"):
        find_experiments(["z99"])


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
def test_an_experiment_is_whole(experiment: Experiment) -> None:
    assert experiment.paper in PAPERS
    assert experiment.claims or experiment.lesson
    for scale in Scale:
        configs = experiment.configs(scale)
        assert configs
        assert len({str(sorted(config.items())) for config in configs}) == len(configs)
        scalars = [value for config in configs for value in config.values()]
        assert all(isinstance(value, str | int | float | bool) for value in scalars)
