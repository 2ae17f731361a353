"""Experiments run once, go on where they stopped, and give the same rows for the same seed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tamis.errors import ModelError
from tamis_lab import registry, running
from tamis_lab import results as results_module
from tamis_lab.experiment import Experiment
from tamis_lab.results import Results, Setting, source_commit
from tamis_lab.rows import Row
from tamis_lab.running import cost_of, here, judge, run_experiments
from tamis_lab.scale import Scale
from tamis_lab.verdicts import ClaimVerdict
from tests.lab.toys import RAN

SMALL = Setting(Scale.SMALL, 0)


def run(experiment: Experiment, results: Results, setting: Setting = SMALL, again: bool = False) -> list[Row]:
    steps = [(step.done, step.total) for step in run_experiments([experiment], results, setting, here, again)]
    assert steps[-1][0] == steps[-1][1]
    return results.read(experiment)


def timeless(rows: Sequence[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if not name.endswith("_seconds")} for row in rows]


def test_rows_hold_the_configuration_and_plain_numbers(toy: Experiment, results: Results) -> None:
    rows = run(toy, results)
    assert [(row["n"], row["twice"]) for row in rows] == [(1, 2), (2, 4), (3, 6)]


def test_same_seed_same_rows(toy: Experiment, results: Results) -> None:
    first, again = run(toy, results), run(toy, results, again=True)
    assert timeless(first) == timeless(again)
    assert first != again  # the clock went on
    other = run(toy, Results(results.directory / "other"), Setting(Scale.SMALL, 1))
    assert [row["value"] for row in other] != [row["value"] for row in first]


def test_rows_do_not_depend_on_the_order(toy: Experiment, results: Results) -> None:
    def backwards(pieces: Sequence[str]) -> Iterator[tuple[int, str]]:
        return ((place, next(here([pieces[place]]))[1]) for place in reversed(range(len(pieces))))

    forwards = run(toy, results)
    turned = Results(results.directory / "turned")
    assert list(run_experiments([toy], turned, SMALL, backwards))
    assert timeless(turned.read(toy)) == timeless(forwards)


def test_what_is_done_is_not_done_again(toy: Experiment, results: Results) -> None:
    run(toy, results)
    run(toy, results)
    assert len(RAN) == 3


def test_a_run_that_was_stopped_goes_on(toy: Experiment, results: Results) -> None:
    list(islice(run_experiments([toy], results, SMALL, here), 3))  # nothing, one, two of three
    assert not results.has(toy)
    assert len(RAN) == 2
    rows = run(toy, results)
    assert len(RAN) == 3
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert not (results.directory / "parts").exists()


@pytest.mark.parametrize("change", ["version", "seed", "scale"])
def test_parts_of_another_run_are_not_taken(
    toy: Experiment, results: Results, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(islice(run_experiments([toy], results, SMALL, here), 3))
    if change == "version":
        monkeypatch.setattr(results_module, "__version__", "another")
    setting = {"seed": Setting(Scale.SMALL, 5), "scale": Setting(Scale.PAPER, 0)}.get(change, SMALL)
    before = len(RAN)
    assert len(run(toy, results, setting)) == len(RAN) - before == (4 if change == "scale" else 3)


def test_rows_of_another_version_are_made_again(
    toy: Experiment, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(toy, results)
    monkeypatch.setattr(results_module, "__version__", "another")
    run(toy, results)
    assert len(RAN) == 6
    assert results.manifest(toy).tamis == "another"


def test_rows_of_another_setting_are_not_overwritten(toy: Experiment, results: Results) -> None:
    run(toy, results)
    with pytest.raises(ModelError, match="has rows of scale small, seed 0: choose another directory with --out"):
        run(toy, results, Setting(Scale.PAPER, 0))
    assert len(run(toy, results, Setting(Scale.PAPER, 0), again=True)) == 4


def test_verdicts_come_from_rows_alone(toy: Experiment, results: Results) -> None:
    run(toy, results)
    RAN.clear()
    [finding] = judge([toy], results)
    assert (finding.claim, finding.verdict, finding.our_value) == ("T1", ClaimVerdict.HELD, "12")
    assert finding.smaller  # the paper has four configurations
    assert RAN == []


def test_the_manifest_says_where_rows_came_from(toy: Experiment, results: Results) -> None:
    run(toy, results)
    manifest = results.manifest(toy)
    assert (manifest.experiment, manifest.scale, manifest.seed, manifest.n_rows) == ("toy", "small", 0, 3)
    assert manifest.machine
    assert manifest.python


def test_rows_that_are_not_there(toy: Experiment, results: Results) -> None:
    with pytest.raises(ModelError, match="run `tamis lab run toy"):
        results.read(toy)


def test_a_configuration_that_is_drawn_several_times_goes_on_draw_by_draw(
    toy: Experiment, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = replace(toy, draws=2)
    monkeypatch.setitem(registry.EXPERIMENTS, "toy", drawn)
    list(islice(run_experiments([drawn], results, SMALL, here), 4))  # nothing, one, two, three of six draws
    rows = run(drawn, results)
    assert len(RAN) == 6
    assert [(row["n"], row["seed"]) for row in rows] == [(n, seed) for n in (1, 2, 3) for seed in (0, 1)]
    assert len({row["value"] for row in rows}) == 6


def test_the_first_draws_tell_what_all_will_cost(
    toy: Experiment, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = replace(toy, draws=4)
    monkeypatch.setitem(registry.EXPERIMENTS, "toy", drawn)
    assert cost_of(drawn, results, SMALL).expected_seconds is None
    monkeypatch.setattr(running.time, "process_time", iter(range(100)).__next__)  # every draw takes a second
    list(run_experiments([drawn], results, SMALL, here, first=True))
    assert not results.has(drawn)
    assert cost_of(drawn, results, SMALL) == ("toy", 12, 3, 3.0, 12.0)
    run(drawn, results)
    assert len(RAN) == 12
    assert cost_of(drawn, results, SMALL) == ("toy", 12, 12, 12.0, 12.0)


def test_rows_of_another_commit_are_made_again_when_one_is_wanted(
    toy: Experiment, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "source_commit", lambda: "abc")
    run(toy, results)
    run(toy, results, Setting(Scale.SMALL, 0, "abc"))
    assert len(RAN) == 3
    monkeypatch.setattr(results_module, "source_commit", lambda: "def")
    run(toy, results)  # rows of any commit will do
    assert len(RAN) == 3
    run(toy, results, Setting(Scale.SMALL, 0, "def"))
    assert len(RAN) == 6
    assert results.manifest(toy).commit == "def"


def test_the_commit_is_that_of_the_sources() -> None:
    here = Path(__file__).parent
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=here)
    assert source_commit().removesuffix("+changes") == head.stdout.strip()
