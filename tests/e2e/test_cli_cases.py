"""The named cases through the command line: `tamis explain` answers each as the library does."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from tamis.cli.main import app
from tests.case_files import Case, each_case, load_cases

CASES = [case for case in load_cases() if case.is_json and isinstance(case.event, dict)]


def explain(case: Case, folder: Path) -> Result:
    source = case.subscription if isinstance(case.subscription, str) else json.dumps(case.subscription)
    arguments = ["explain", "--json"]
    if case.schema is not None:
        path = folder / "schema.json"
        path.write_text(case.schema.to_json(), encoding="utf-8")
        arguments += ["--schema", str(path)]
    return CliRunner().invoke(app, [*arguments, "--", source, json.dumps(case.event)])


@each_case([case for case in CASES if case.error is None])
def test_answer(case: Case, tmp_path: Path) -> None:
    result = explain(case, tmp_path)
    assert result.exit_code == (0 if case.expected else 1), result.output
    assert json.loads(result.stdout)["matched"] is case.expected


@each_case([case for case in CASES if case.error is not None])
def test_refusal(case: Case, tmp_path: Path) -> None:
    result = explain(case, tmp_path)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
