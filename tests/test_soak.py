"""`make soak` tries what `make test` does not: more examples of every property, and new ones each time."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]

COLLECT = """
import sys, pytest

class Seen:
    def pytest_collection_finish(self, session):
        import hypothesis
        print("profile", hypothesis.settings.get_current_profile_name())
        for item in session.items:
            print("item", item.name, item.get_closest_marker("timeout").args[0])

sys.exit(pytest.main(["-q", "--collect-only", "-m", "soak or hypothesis", *sys.argv[1:]], plugins=[Seen()]))
"""


def recipe(target: str) -> str:
    """Return the commands of a target of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    target_of = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert target_of is not None
    return target_of[1]


def test_the_profile_draws_new_examples_and_says_how_to_see_one_again() -> None:
    usual, soak = settings.get_profile("default"), settings.get_profile("soak")
    assert (usual.derandomize, soak.derandomize, soak.print_blob) == (True, False, True)
    assert soak.max_examples >= 100 * usual.max_examples


def test_make_soak_loads_the_profile_and_selects_every_property() -> None:
    command = recipe("soak")
    assert " HYPOTHESIS_PROFILE=soak $(PYTEST) " in command
    assert ' -m "soak or hypothesis"' in command
    files = ["tests/property/test_algebra_laws.py", "tests/contract/test_covering.py"]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "soak"}
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, *files], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "profile soak" in done.stdout
    items = dict(re.findall(r"^item (\S+) (\d+)$", done.stdout, re.MULTILINE))
    assert "test_covering_is_transitive_along_a_chain" in items
    assert "test_a_merge_is_the_union" in items
    assert any("soak_covering_index" in name for name in items)
    assert set(items.values()) == {str(8 * 3600)}


def properties_inside(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the test functions that make a property inside, which Hypothesis does not mark by itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            inner = (
                function
                for function in ast.walk(node)
                if isinstance(function, ast.FunctionDef) and function is not node
            )
            if any("given" in ast.unparse(decorator) for function in inner for decorator in function.decorator_list):
                yield node


def unmarked(source: str) -> list[str]:
    return [
        node.name
        for node in properties_inside(ast.parse(source))
        if not any(re.search("mark.(hypothesis|soak)", ast.unparse(decorator)) for decorator in node.decorator_list)
    ]


def test_every_property_inside_a_test_is_marked() -> None:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert {path.name: names for path in files if (names := unmarked(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(("mark", "expected"), [("", ["test_a"]), ("@pytest.mark.hypothesis\n", [])])
def test_one_without_a_mark_is_noticed(mark: str, expected: list[str]) -> None:
    assert unmarked(f"{mark}def test_a():\n    @given(x)\n    def law(a): pass\n    law()\n") == expected
