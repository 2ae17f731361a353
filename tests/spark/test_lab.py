"""Experiments as Spark tasks: the rows are those of one process."""

from __future__ import annotations

from pathlib import Path

from tamis_lab.registry import find_experiments
from tamis_lab.results import Results, Setting
from tamis_lab.running import here, on_spark, run_experiments
from tamis_lab.scale import Scale


def test_rows_are_those_of_one_process(spark: object, tmp_path: Path) -> None:
    setting, experiments = Setting(Scale.SMALL, 3), find_experiments(["z-cubes"])
    on_workers, alone = Results(tmp_path / "spark"), Results(tmp_path / "alone")
    steps = list(run_experiments(experiments, on_workers, setting, on_spark()))
    assert [step.done for step in steps if step.experiment.name == "z-cubes"] == [0, 1, 2, 3, 4]
    list(run_experiments(experiments, alone, setting, here))
    for experiment in experiments:
        assert on_workers.read(experiment) == alone.read(experiment)
