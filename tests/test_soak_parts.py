"""`make soak` goes on where it ended, begins again after a change, and never takes a failure for a pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
from pathlib import Path

def note(name):
    with Path("ran").open("a") as file:
        file.write(name)

def test_a():
    note("a")

def test_b():
    note("b")
    assert Path("well").exists()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return tmp_path


def run_part(place: Path, **more: str) -> tuple[int, str]:
    """Run a part; return its exit code and which tests ran."""
    (place / "ran").write_text("")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.soak", "-p", "no:cacheprovider", "--rootdir", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **more}
    done = subprocess.run([*command, "tests"], cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert "INTERNALERROR" not in done.stdout + done.stderr
    return done.returncode, (place / "ran").read_text()


def test_what_failed_is_run_again_and_what_passed_is_not(place: Path) -> None:
    assert run_part(place) == (pytest.ExitCode.TESTS_FAILED, "ab")
    assert run_part(place) == (pytest.ExitCode.TESTS_FAILED, "b")
    (place / "well").touch()
    assert run_part(place) == (pytest.ExitCode.OK, "b")
    assert run_part(place) == (pytest.ExitCode.OK, "")
    (place / "tests" / "helper.py").write_text("X = 1\n", encoding="utf-8")
    assert run_part(place) == (pytest.ExitCode.OK, "ab")


def test_a_part_ends_when_its_time_is_over_and_does_not_pass(place: Path) -> None:
    (place / "well").touch()
    assert run_part(place, SOAK_MINUTES="0") == (pytest.ExitCode.INTERRUPTED, "")
    assert run_part(place) == (pytest.ExitCode.OK, "ab")
