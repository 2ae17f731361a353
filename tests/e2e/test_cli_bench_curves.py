"""``tamis bench curves``: it runs, checks what it times, and draws. No speed is judged here."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tamis.cli.main import app
from tamis_bench.plots.curves import draw_insertion
from tamis_bench.rows import Row


def test_a_quick_run_has_all_rows() -> None:
    done = CliRunner().invoke(app, ["bench", "curves", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["what"] for row in rows} == {
        "keys", "cells", "ranges", "table add", "table remove", "table look-up", "insertion",
    }  # fmt: skip
    for row in rows:
        assert {"work", "n", "system", "rate", "unit", "ratio"} <= set(row)
        assert row["rate"] > 0
    assert {row["unit"] for row in rows} == {"points/s", "boxes/s", "ranges/s", "keys/s", "us"}
    assert {row["system"] for row in rows if row["what"] == "ranges"} == {"ours", "cells"}


def test_a_table_and_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "insertion.svg"
    done = CliRunner().invoke(app, ["bench", "curves", "--quick", "--picture", str(path)])
    assert done.exit_code == 0, done.output
    assert "table look-up" in done.stdout
    drawn = path.read_text(encoding="utf-8")
    assert all(f">{word}<" in drawn for word in ("uniform, 3-d, side 2", "microseconds to insert one", "10k"))


def test_a_picture_of_given_rows_and_of_a_wrong_kind() -> None:
    rows = [Row("uniform, 2-d, side 2", n, "ours", "insertion", 10.0) for n in (1_000, 10_000)]
    [panel] = draw_insertion([*rows, Row("2-d", 5, "ours", "keys", 1.0)]).axes
    assert [line.get_xdata().tolist() for line in panel.get_lines()] == [[1_000, 10_000]]
    result = CliRunner().invoke(app, ["bench", "curves", "--quick", "--picture", "x.gif"])
    assert result.exit_code == 2
    assert "a picture is a .svg" in result.stderr
