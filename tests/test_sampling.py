"""The sample of `make test`: others with each commit, none forever; and a process that crashes ends the run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import sampling
from tests.sampling import SHARES, TURNS, drawn, edited_files, share_of

ROOT = Path(__file__).parents[1]


@pytest.fixture
def small_table(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sampling, "SHARES", {"a/": 3, "a/y.py::test_all": 1})
    monkeypatch.setattr(sampling, "TURNS", (("b/u.py", "b/v.py"),))
    shared = [f"a/{file}.py::test[{number}]" for file in "xy" for number in range(7)]
    return [*shared, "a/y.py::test_all", "b/u.py::test[0]", "b/u.py::test[1]", "b/v.py::test", "c/z.py::test"]


def test_a_sample_has_the_share_of_each_file_and_one_of_each_row(small_table: list[str]) -> None:
    for number in range(20):
        sample = drawn(small_table, str(number))
        assert sample == drawn(reversed(small_table), str(number))
        assert Counter(nodeid[:6] for nodeid in sample if "[" in nodeid and nodeid < "b") == {"a/x.py": 3, "a/y.py": 3}
        assert {"a/y.py::test_all", "c/z.py::test"} <= sample
        assert ({"b/u.py::test[0]", "b/u.py::test[1]"} <= sample) != ("b/v.py::test" in sample)


def test_every_test_is_drawn_by_some_commit(small_table: list[str]) -> None:
    assert set().union(*(drawn(small_table, str(number)) for number in range(30))) == set(small_table)


def missing(starts: Iterable[str]) -> list[str]:
    """Return those that no test has."""
    return [start for start in starts if not exists(start)]


def exists(start: str) -> bool:
    path, _, name = start.partition("::")
    if not name:
        return (ROOT / path).exists()
    file = ROOT / path
    return file.is_file() and f"def {name.partition('[')[0]}" in file.read_text(encoding="utf-8")


def test_what_is_sampled_exists() -> None:
    assert missing([*SHARES, *(start for row in TURNS for start in row)]) == []
    wrong = ["tests/none.py", "tests/test_sampling.py::test_none", "tests/none/"]
    assert missing(wrong) == wrong


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Nine tests of which `make test` runs three, by their place; the test 4 fails."""
    (tmp_path / "tests" / "spark").mkdir(parents=True)
    source = "import pytest\n\n@pytest.mark.parametrize('n', range(9))\ndef test_n(n):\n    assert n != 4\n"
    (tmp_path / "tests" / "spark" / "test_a.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    soak: x\n")
    assert share_of("tests/spark/test_a.py::test_n[0]") == 3
    return tmp_path


def outcome(place: Path, *options: str, plugins: str = "1") -> tuple[int, str]:
    """Run pytest there; return its exit code and what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": plugins}
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", ".", *options, "tests"]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=240, check=False)
    return done.returncode, done.stdout + done.stderr


def test_what_failed_stays_in_the_sample_and_a_soak_runs_all(place: Path) -> None:
    assert "1 failed, 8 passed" in outcome(place, "-m", "soak", "-p", "tests.soak")[1]
    shown = outcome(place, "-m", "not soak", "-p", "tests.sampling")[1]
    assert re.search(r"1 failed, (2|3) passed", shown), shown


def test_all_tests_of_an_edited_file_are_in_the_sample(place: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=place, check=True, capture_output=True)
    assert edited_files(place) == set()
    file = place / "tests" / "spark" / "test_a.py"
    file.write_text(file.read_text().replace("n != 4", "True"))
    assert edited_files(place) == {"tests/spark/test_a.py"}
    assert "9 passed" in outcome(place, "-m", "not soak", "-p", "tests.sampling")[1]


def test_a_process_that_crashes_ends_the_run(place: Path) -> None:
    (place / "tests" / "spark" / "test_a.py").unlink()
    hook = "def pytest_xdist_make_scheduler(config, log):\n    return make_scheduler(config, log)\n"
    (place / "conftest.py").write_text(f"from tests.scheduling import make_scheduler\n\n{hook}")
    for number in range(6):
        body = "os.abort()" if number == 3 else "pass"
        (place / "tests" / f"test_{number}.py").write_text(f"import os\n\ndef test_it():\n    {body}\n")
    options = re.search(r"^SPREAD *= (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert options is not None
    code, shown = outcome(place, "-v", "-p", "xdist", *options[1].replace("$(WORKERS)", "2").split())
    assert code == pytest.ExitCode.TESTS_FAILED, shown
    assert "crashed while running 'tests/test_3.py::test_it'" in shown
    assert "restarting disabled" in shown
