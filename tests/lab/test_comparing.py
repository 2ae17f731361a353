"""Two runs are compared claim by claim: what one decided must not change, what it left undecided may."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.errors import ModelError
from tamis_lab import registry
from tamis_lab.experiment import Experiment, grid
from tamis_lab.report.comparison import compare_runs
from tamis_lab.report.contents import gather
from tamis_lab.report.markdown import markdown_pages
from tamis_lab.results import Results, Setting
from tamis_lab.rows import Rows, interval
from tamis_lab.running import here, run_experiments
from tamis_lab.scale import Scale
from tamis_lab.verdicts import Decision, above
from tests.lab import toys

#: A draw of either run, by seed: surely above 1, surely below it, or on both sides.
HELD, NOT_HELD, UNDECIDED = (2.0, 2.1), (0.1, 0.2), (0.5, 1.9)


def _decide(rows: Rows) -> Decision:
    return Decision([above("value", interval(rows, "value"), 1)], "a value")


@pytest.fixture
def steered(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The toy experiment with one claim, whose rows are the values that a run is given by its seed."""
    monkeypatch.setattr(registry, "EXPERIMENTS", {})
    experiment = replace(
        toys.TOY,
        configs=lambda scale: grid(seed=(0, 1)),
        run=lambda config, rng: [{"value": VALUES[config["seed"]]}],
        claims={"T1": replace(toys.JUDGE, decide=_decide)},
        charts=(),
    )
    monkeypatch.setitem(registry.EXPERIMENTS, "toy", experiment)
    for module in ("comparison", "contents"):
        monkeypatch.setattr(f"tamis_lab.report.{module}.EXPERIMENTS", registry.EXPERIMENTS)
    return experiment


VALUES: list[float] = []


def run(experiment: Experiment, directory: Path, values: tuple[float, float], seed: int = 0) -> Results:
    VALUES[:] = values
    results = Results(directory)
    list(run_experiments([experiment], results, Setting(Scale.SMALL, seed), here))
    return results


@pytest.mark.parametrize(
    ("first", "second", "changed", "repeats"),
    [
        (HELD, HELD, False, True),
        (NOT_HELD, NOT_HELD, False, True),
        (UNDECIDED, UNDECIDED, False, True),
        (UNDECIDED, HELD, True, True),
        (UNDECIDED, NOT_HELD, True, True),
        (HELD, UNDECIDED, True, False),
        (NOT_HELD, UNDECIDED, True, False),
        (HELD, NOT_HELD, True, False),
        (NOT_HELD, HELD, True, False),
    ],
)
def test_only_undecided_verdicts_may_change(
    steered: Experiment,
    tmp_path: Path,
    first: tuple[float, float],
    second: tuple[float, float],
    changed: bool,
    repeats: bool,
) -> None:
    runs = run(steered, tmp_path / "a", first), run(steered, tmp_path / "b", second, seed=1)
    comparison = compare_runs(*runs)
    [claim] = comparison.claims
    assert (claim.claim, claim.changed, comparison.repeats) == ("T1", changed, repeats)

    code, lines = command(tmp_path, "--json")
    assert code == (0 if repeats else 1)
    assert lines == [
        {
            "claim": "T1",
            "first": str(claim.first.verdict) if claim.first else None,
            "second": str(claim.second.verdict) if claim.second else None,
            "changed": changed,
            "allowed": repeats,
        }
    ]


def command(directory: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    words = ["lab", "compare", str(directory / "a"), str(directory / "b"), *options]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    return done.exit_code, [json.loads(line) for line in done.output.splitlines()] if options else [{"": done.output}]


def test_the_screen_names_what_changed_and_both_seeds(steered: Experiment, tmp_path: Path) -> None:
    run(steered, tmp_path / "a", HELD)
    run(steered, tmp_path / "b", NOT_HELD, seed=7)
    code, [shown] = command(tmp_path)
    assert code == 1
    for words in ("seed 0", "seed 7", "MUST NOT CHANGE", "1 claims, 1 changed that were decided"):
        assert words in shown[""]


def test_a_report_says_what_another_run_says(steered: Experiment, tmp_path: Path) -> None:
    run(steered, tmp_path / "a", UNDECIDED, seed=3)
    second = run(steered, tmp_path / "b", HELD)
    assert "Another run" not in markdown_pages(gather(second))["report.md"]
    assert command(tmp_path, "--json", "--keep")[0] == 0
    page = markdown_pages(gather(second))["report.md"]
    assert re.search(r"Another run \(1 experiment, 1 of scale small, from commit [0-9a-f]+, seed 3\): ", page)
    assert "the same on 0 of 1 claims, but not on T1 (undecided there, held here)." in page
    registry.EXPERIMENTS["other"] = replace(steered, name="other", claims={"T2": steered.claims["T1"]})
    run(registry.EXPERIMENTS["other"], tmp_path / "b", HELD)
    assert command(tmp_path, "--json", "--keep")[0] == 1
    assert "1 claims, but not on T1 (undecided there, held here); 1 more have no verdict there." in " ".join(
        markdown_pages(gather(second))["report.md"].split()
    )
    VALUES[:] = NOT_HELD
    list(run_experiments([steered], second, Setting(Scale.SMALL, 0), here, again=True))
    with pytest.raises(ModelError, match="the verdicts changed since they were compared"):
        markdown_pages(gather(second))


def test_a_claim_without_rows_is_not_repeated(steered: Experiment, tmp_path: Path) -> None:
    run(steered, tmp_path / "a", UNDECIDED)
    registry.EXPERIMENTS["other"] = replace(steered, name="other", claims={"T2": steered.claims["T1"]})
    run(registry.EXPERIMENTS["other"], tmp_path / "b", HELD)
    comparison = compare_runs(Results(tmp_path / "a"), Results(tmp_path / "b"))
    assert [(each.claim, each.first is None, each.second is None) for each in comparison.claims] == [
        ("T1", False, True),
        ("T2", True, False),
    ]
    assert not comparison.repeats
    assert "2 claims, 2 without a verdict in one run" in command(tmp_path)[1][0][""]


def test_what_cannot_be_compared_is_refused(steered: Experiment, tmp_path: Path) -> None:
    first = run(steered, tmp_path / "a", HELD)
    with pytest.raises(ModelError, match="b holds no rows: run `tamis lab run all --out"):
        compare_runs(first, Results(tmp_path / "b"))
    VALUES[:] = HELD
    list(run_experiments([steered], Results(tmp_path / "b"), Setting(Scale.PAPER, 0), here))
    with pytest.raises(ModelError, match="the rows of toy are of scale small in .*a and of scale paper in .*b"):
        compare_runs(first, Results(tmp_path / "b"))
