"""`make coverage` judges each module by its figure and by the reasons of docs/coverage.md."""

from __future__ import annotations

import importlib.util
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_coverage", ROOT / "scripts" / "measure_coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_low_module_needs_a_reason_and_a_reason_a_low_module(script: ModuleType) -> None:
    modules = {"a/low.py": 40.0, "b/low.py": 89.9, "b/fine.py": 90.0}
    reasons = script.exceptions("| module | why |\n|---|---|\n| `b/*.py` | no JVM |\n| `c.py` | gone |\n")
    assert reasons == {"b/*.py": "no JVM", "c.py": "gone"}
    assert script.judge(modules, reasons) == (["a/low.py"], ["c.py"])


def test_figures_are_read_by_path_below_the_package(script: ModuleType) -> None:
    summary = {"percent_covered": 50.0, "num_statements": 4}
    report = {"files": {"src/tamis/web/app.py": {"summary": summary}, "src/tamis/x/__init__.py": {"summary": {}}}}
    report["files"]["src/tamis/x/__init__.py"]["summary"] = {"percent_covered": 100.0, "num_statements": 0}
    assert script.measured(report) == {"web/app.py": 50.0}


def test_every_reason_is_of_a_module_that_exists(script: ModuleType) -> None:
    reasons = script.exceptions((ROOT / "docs" / "coverage.md").read_text(encoding="utf-8"))
    source = ROOT / "src"
    paths = [path.relative_to(source).as_posix().removeprefix("tamis/") for path in source.rglob("*.py")]
    assert reasons
    assert [pattern for pattern in reasons if not any(fnmatch(path, pattern) for path in paths)] == []
