"""docs/simulated-lines.md names the functions that no simulated seed enters; scripts/simulated_lines.py writes it."""

from __future__ import annotations

import ast
import importlib.util
import re
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
MODULE = textwrap.dedent('''\
    class Door:
        """A door."""

        def open(self):
            """Open it."""
            if self.locked:
                return False
            return True

        def close(self):
            def inner():
                return 1
            return inner


    async def wait():
        await nothing
''')


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulated_lines", ROOT / "scripts" / "simulated_lines.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_belong_to_the_innermost_function_and_docstrings_to_none(script: ModuleType) -> None:
    functions = {function.name: sorted(function.lines) for function in script.functions_of(ast.parse(MODULE))}
    assert functions == {"Door.open": [6, 7, 8], "Door.close": [11, 13], "Door.close.inner": [12], "wait": [17]}


def test_a_row_counts_lines_and_names_what_was_never_entered(script: ModuleType) -> None:
    functions = list(script.functions_of(ast.parse(MODULE)))
    row = script.row_of("a/door.py", functions, {1, 4, 6, 8, 10, 11, 13})
    assert row == "| `a/door.py` | 4 of 7 | `Door.close.inner`, `wait` |"
    assert script.row_of("a/door.py", functions, {1, 4, 10}) is None


def test_the_page_names_every_module_that_has_functions(script: ModuleType) -> None:
    page = (ROOT / "docs" / "simulated-lines.md").read_text(encoding="utf-8")
    run = set(re.findall(r"^\| `([^`]+\.py)` \|", page, re.MULTILINE))
    silent = {
        f"{folder}/{name}"
        for folder, names in re.findall(r"^- `([^`]+)`: (.*)$", page, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)
    }
    modules = {
        path.relative_to(script.SOURCE).as_posix()
        for part in script.PARTS
        for path in (script.SOURCE / part).rglob("*.py")
        if any(function.lines for function in script.functions_of(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert run | silent == modules, "run: python scripts/simulated_lines.py"
    assert not run & silent
