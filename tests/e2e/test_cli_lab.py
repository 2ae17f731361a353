"""``tamis lab`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app

FIELDS = ["claim", "paper", "verdict", "paper_value", "our_value", "why"]


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["lab", *map(str, arguments)], env={"COLUMNS": "160"})
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    code, shown = run("run", "Z10", "rp-one-projection", "--no-spark", "--out", folder)
    assert code == 0, shown
    assert "Z10" in shown
    assert "1 held, 1 not held" in shown
    assert "at a smaller scale than the papers'" in shown
    return folder


def test_list() -> None:
    code, shown = run("list")
    assert code == 0
    assert "z-speedup" in shown
    assert "SP7" in shown
    code, shown = run("list", "--json")
    assert {"experiment", "paper", "figure", "claims", "set_up", "readings"} == set(json.loads(shown.splitlines()[0]))


def test_rules_are_printed_before_anything_is_run() -> None:
    code, shown = run("rules", "z7")
    lines = shown.splitlines()
    assert code == 0
    assert lines[0].startswith("Z7 (z-speedup)")
    assert not any(line.startswith("Z8") for line in lines)
    for label in ("rule", "why this rule", "chosen to fit", "says no to made-up rows with", "changed on 2026-11-17"):
        assert any(line.startswith(f"  {label}: ") for line in lines), label
    assert run("rules", "nothing")[0] == 2


def test_files(rows: Path) -> None:
    names = {path.name for path in rows.iterdir()}
    assert {"z-plateau.parquet", "z-plateau.json", "z-plateau-1.svg", "z-plateau-1.png"} <= names
    assert "parts" not in names


def test_json_and_nothing_is_run_again(rows: Path) -> None:
    before = (rows / "z-plateau.parquet").stat().st_mtime_ns
    code, shown = run("run", "z-plateau", "--no-spark", "--out", rows, "--json")
    assert code == 0
    [finding] = [json.loads(line) for line in shown.splitlines()]
    assert list(finding)[:6] == FIELDS
    assert (finding["claim"], finding["paper"], finding["verdict"]) == ("Z10", "zcurve", "held")
    assert (rows / "z-plateau.parquet").stat().st_mtime_ns == before


def test_a_narrow_terminal_still_shows_the_verdicts(rows: Path) -> None:
    shown = CliRunner().invoke(app, ["lab", "report", "--out", str(rows)], env={"COLUMNS": "60"}).output
    assert any(line.startswith("Z10") and "held" in line for line in shown.splitlines())


def test_report(rows: Path) -> None:
    code, shown = run("report", "--out", rows)
    assert code == 0, shown
    assert "report.html" in shown
    assert (rows / "report.html").read_text().startswith("<!doctype html>")
    assert {finding["claim"] for finding in json.loads((rows / "findings.json").read_text())} == {"Z10", "RP2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing", "--no-spark"], "no experiment, paper or claim is called 'nothing'"),
        (["run", "Z10", "--no-spark", "--scale", "paper", "--out", "ROWS"], "has rows of scale small, seed 0"),
        (["report", "--out", "EMPTY"], "holds no rows"),
    ],
)
def test_errors_teach(arguments: list[str], message: str, rows: Path, tmp_path: Path) -> None:
    places = {"ROWS": str(rows), "EMPTY": str(tmp_path)}
    code, shown = run(*(places.get(word, word) for word in arguments))
    assert code == 2
    assert message in shown.replace("\n", " ")
