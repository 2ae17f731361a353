"""What the documents show is run: README's Python, and the explanation it prints; tests/spark runs its Spark."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.model.language.foreign.sigma_fields import read_fields
from tests.e2e.test_backtest import SIGMA

ROOT = Path(__file__).parent.parent


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)


def test_the_python_of_the_readme_runs_and_prints_what_it_says() -> None:
    [code] = [block for block in blocks(ROOT / "README.md", "python") if "tamis.spark" not in block]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    lines = printed.getvalue().splitlines()
    promised = [line.split("# ", 1)[1] for line in code.splitlines() if line.startswith("print(") and "# " in line]
    for line in promised:
        assert line in lines
    [explanation] = blocks(ROOT / "README.md", "text")
    assert explanation in printed.getvalue()
    assert lines[-1].startswith("[{'event': 0, 'subscription': 'alice'}")


def test_the_curl_lines_of_the_readme_are_those_of_the_page_of_the_broker() -> None:
    """`tests/server/test_http.py` runs those of the page."""
    [lines] = [block for block in blocks(ROOT / "README.md", "sh") if "curl" in block]
    assert lines.count("curl") == 3
    assert lines in blocks(ROOT / "docs" / "server.md", "sh")


def test_the_python_of_the_regions_page_prints_what_it_says() -> None:
    code = "\n".join(blocks(ROOT / "docs" / "regions.md", "python"))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "regions.md", "exec"), {})
    promised = [line.split("  # ", 1)[1] for line in code.splitlines() if line.startswith("print(")]
    assert printed.getvalue().splitlines() == promised


def test_the_page_on_text_rules_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "text-rules.md"
    [code] = blocks(page, "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "text-rules.md", "exec"), {})
    promised = [line.split("  # ", 1)[1] for line in code.splitlines() if line.startswith("print(")]
    assert printed.getvalue().splitlines() == promised
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    Path("rules", "rule.yml").write_text(SIGMA)
    events = [{"line": "net user", "at": "2026-01-01T10:00:00Z"}, {"line": "dir", "at": "2026-01-02T10:00:00Z"}]
    Path("events.jsonl").write_text("\n".join(map(json.dumps, events)))
    pq.write_table(pa.Table.from_pylist(events), "events.parquet")
    for name, pattern in (("rules", "%net%"), ("old-rules", "%net use%")):
        Path(f"{name}.jsonl").write_text(json.dumps({"id": "net", "filter": f"line ILIKE '{pattern}'"}))
    commands = [line[2:] for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) == 4
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == 0, (command, done.output)
    [fields] = blocks(page, "toml")
    Path("fields.toml").write_text(fields)
    assert read_fields(Path("fields.toml")).attributes("User") == ("user.name", "winlog.user")


def test_the_tests_that_the_page_on_bridges_names_are_there() -> None:
    page = (ROOT / "docs" / "bridges.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if "tests/server/test_" in line]
    assert len(rows) == 3
    for row in rows:
        _, *parts = re.split(r"(?=tests/server/test_\w+\.py)", row)  # a file, and the names of tests in it
        for part in parts:
            path, names = part.partition(".py")[0] + ".py", re.findall(r"\btest_[a-z_]+(?=`)", part)
            assert names, part
            for name in names:
                assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), (path, name)
