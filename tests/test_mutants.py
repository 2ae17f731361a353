"""`make mutants` changes code where it matters, and only there."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]

SOURCE = '''"""Text 1 < 2."""
from typing import TYPE_CHECKING
__all__ = ["one"]
if TYPE_CHECKING:
    import os
def one(a: "Literal[1]", b: int = 7) -> bool:
    """Text."""
    if a < b and a is not None:
        é = [a, "größer"]; a += 1
        é.append(2)
    if b in (1, 2):
        raise ValueError(f"{a + 1}", 3)
    return True
'''


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


def test_each_kind_of_mutation_and_none_of_what_readers_see(mutants: ModuleType) -> None:
    listed = mutants.mutations(Path("x.py"), SOURCE)
    assert {(mutation.before, mutation.after) for mutation in listed} == {
        ("a < b and a is not None", "(not (a < b and a is not None))"),
        ("a < b and a is not None", "(a < b or a is not None)"),
        ("a < b", "(a <= b)"),
        ("a is not None", "(a is None)"),
        ("a += 1", "pass"),
        ("é.append(2)", "pass"),
        ("b in (1, 2)", "(not (b in (1, 2)))"),
        ("b in (1, 2)", "(b not in (1, 2))"),
        ("True", "False"),
        *((str(n), str(n + 1)) for n in (1, 2, 7)),
    }
    for mutation in listed:
        assert mutation.applied(SOURCE.encode()) != SOURCE.encode()
        ast.parse(mutation.applied(SOURCE.encode()))


def test_every_area_has_files_tests_and_mutations(mutants: ModuleType) -> None:
    for area in mutants.AREAS:
        assert mutants.files_of(area), area
        assert mutants.stages(area, mutants.files_of(area)[0]), area
        assert all((ROOT / test).exists() for test in mutants.AREAS[area][1]), area
    drawn = mutants.draw(list(mutants.AREAS), 18, 0)
    assert drawn == mutants.draw(list(mutants.AREAS), 18, 0)
    assert drawn != mutants.draw(list(mutants.AREAS), 18, 1)
    assert {area for area, _ in drawn} == set(mutants.AREAS)
    for _, mutation in drawn:
        ast.parse(mutation.applied((ROOT / mutation.path).read_bytes()))


def test_a_test_that_fails_anyway_is_left_out(
    mutants: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two tests the first always fails; the second one judges, and survivors are seen in spite of the first."""
    (tmp_path / "x.py").write_text(SOURCE, encoding="utf-8")
    copied = object.__new__(mutants.Copy)
    copied.root, copied.failing_anyway = tmp_path, []

    noticing = ["judge"]

    def failure(tests: list[str]) -> str:
        is_mutated = (tmp_path / "x.py").read_text(encoding="utf-8") != SOURCE
        failing = ["always", *(noticing if is_mutated else [])]
        return next((test for test in failing if test not in copied.failing_anyway), "")

    monkeypatch.setattr(copied, "failure", failure)
    monkeypatch.setattr(mutants, "stages", lambda *_: [["tests"]])
    mutation = mutants.mutations(Path("x.py"), SOURCE)[0]
    assert copied.verdict("kernels", mutation) == "killed by judge"
    noticing.clear()
    assert copied.verdict("kernels", mutation) == "SURVIVED"
    assert copied.failing_anyway == ["always"]
