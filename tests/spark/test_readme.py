"""The Spark example of the README runs as it stands."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from tests.test_documents import ROOT, blocks


def test_the_spark_of_the_readme_delivers_what_it_says(spark: Any) -> None:
    [code] = [block for block in blocks(ROOT / "README.md", "python") if "tamis.spark" in block]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    cells = [line.split("|")[1:3] for line in printed.getvalue().splitlines() if line.startswith("|")]
    rows = sorted(tuple(cell.strip() for cell in row) for row in cells[1:])
    assert rows == [("1", "alice"), ("1", "bob")]
