"""The notebooks of examples/notebooks run as they are, and print what is stored in them."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

#: A smaller number of subscriptions for the notebook that has a million; its cells that print it are tagged "varies".
ENVIRONMENT = {"TAMIS_NOTEBOOK_SIZE": "20000"}


def code_cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook that have code."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run_cells(cells: list[dict[str, Any]]) -> list[str]:
    """Run code cells in one namespace; return what each printed."""
    printed, names = [], {"__name__": "__main__"}
    for cell in cells:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("".join(cell["source"]), "cell", "exec"), names)
        printed.append(out.getvalue())
    return printed


def stored(cell: dict[str, Any]) -> str:
    """What a cell printed when the notebook was saved."""
    return "".join(text for output in cell["outputs"] for text in output.get("text", ()))


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.spark] if "spark" in path.stem else [], id=path.stem) for path in NOTEBOOKS],
)
def test_a_notebook_prints_what_it_shows(path: Path) -> None:
    command = [sys.executable, "-m", "tests.test_notebooks", str(path)]
    root = FOLDER.parents[1]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=root, env=os.environ | ENVIRONMENT, check=False)
    assert ran.returncode == 0, ran.stderr
    cells = code_cells(path)
    for cell, printed in zip(cells, json.loads(ran.stdout.splitlines()[-1]), strict=True):
        if "varies" not in cell["metadata"].get("tags", ()):
            assert printed == stored(cell), "".join(cell["source"])


def test_the_notebooks_are_five_and_have_outputs() -> None:
    assert len(NOTEBOOKS) == 5
    for path in NOTEBOOKS:
        assert any(stored(cell) for cell in code_cells(path)), path.name
        for cell in code_cells(path):
            ast.parse("".join(cell["source"]))


if __name__ == "__main__":
    print(json.dumps(run_cells(code_cells(Path(sys.argv[1])))))
