"""The sample of `make test`: it moves on with each commit and leaves none out; a process that crashes ends the run."""

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
from tests.sampling import (
    SHARES,
    TOGETHER,
    TURNS,
    WAITING,
    costly_tests,
    drawn,
    edited_files,
    number_of,
    seconds_of,
    share_of,
    turns,
)

ROOT = Path(__file__).parents[1]


@pytest.fixture
def small_table(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tests of which one in three or eight is run, nine costly ones, and some that are always run."""
    monkeypatch.setattr(sampling, "SHARES", {"a/": 3, "a/y.py::test_all": 1, "a/w.py": 8})
    monkeypatch.setattr(sampling, "TOGETHER", ("b/v.py",))
    monkeypatch.setattr(sampling, "costly_tests", lambda: COSTLY)
    monkeypatch.setattr(sampling, "turns", sampling.turns.__wrapped__)
    shared = [f"a/{file}.py::test[{number}]" for file in "xy" for number in range(7)]
    few = [f"a/w.py::test[{number}]" for number in range(2)]
    return [*shared, *few, "a/y.py::test_all", *COSTLY, "b/v.py::test_cheap", "c/z.py::test"]


COSTLY = {**{f"b/u.py::test[{number}]": 1.0 for number in range(7)}, "b/v.py::test_a": 1.5, "b/v.py::test_b": 0.6}


def test_a_sample_has_the_share_of_each_file_and_the_costly_tests_whose_turn_it_is(small_table: list[str]) -> None:
    for number in range(20):
        sample = drawn(small_table, number)
        assert sample == drawn(reversed(small_table), number)
        counts = Counter(nodeid[:6] for nodeid in sample if "[" in nodeid and nodeid < "b")
        assert counts.keys() == {"a/x.py", "a/y.py", "a/w.py"}
        assert {counts["a/x.py"], counts["a/y.py"]} <= {2, 3}
        assert counts["a/w.py"] == 1
        assert {"a/y.py::test_all", "c/z.py::test"} <= sample
        costly = sample & {*COSTLY, "b/v.py::test_cheap"}
        assert len(costly) == 1 or costly == {"b/v.py::test_a", "b/v.py::test_b", "b/v.py::test_cheap"}


def test_commits_in_a_row_run_every_test(small_table: list[str]) -> None:
    """No test waits longer than its share says, and no costly one longer than eight commits."""
    cheap = {nodeid for nodeid in small_table if not nodeid.startswith("b/")}
    for first in range(10):
        samples = [drawn(small_table, first + number) for number in range(8)]
        assert set().union(*samples[:3]) >= cheap
        assert set().union(*samples) == set(small_table)
        assert len(samples[0] | samples[1]) < len(small_table)


@pytest.fixture(scope="module")
def all_tests() -> list[str]:
    """An id for each test function, three where parameters could be, and those that are costly.

    To collect the real ones takes ten seconds, and what is drawn does not depend on their number.
    """
    costly = set(costly_tests())
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        file, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        names = re.findall(r"^(?:async )?def (test_\w+)", source, re.MULTILINE)
        costly.update(f"{file}::{name}[{number}]" for name in names for number in range(3))
    return sorted(costly)


def test_eight_commits_in_a_row_run_everything(all_tests: list[str]) -> None:
    assert len(all_tests) > 5_000
    samples = [drawn(all_tests, number) for number in range(8)]
    assert set().union(*samples) == set(all_tests)
    assert max(len(sample) for sample in samples) < len(all_tests)


def test_a_commit_leaves_out_only_files_of_costly_tests(all_tests: list[str]) -> None:
    """Each folder, and each file but those with costly tests, has a test in each sample."""
    for number in range(8):
        files = files_of(drawn(all_tests, number))
        assert files_of(all_tests) - files <= files_of([*costly_tests(), *TOGETHER])
        assert folders_of(files) == folders_of(files_of(all_tests))


def test_samples_cost_the_same() -> None:
    """The costly tests of each turn take the same time, to a second."""
    costly = costly_tests()
    sums = [sum(seconds_of(nodeid) for nodeid in costly if turns()[nodeid] == number) for number in range(TURNS)]
    assert min(sums) > 20
    assert max(sums) - min(sums) < 1


def test_the_tests_of_a_cluster_come_together(all_tests: list[str]) -> None:
    """Its start is paid for once; eight commits in a row start a cluster, Spark Connect and a driver that is killed."""
    for file in TOGETHER:
        mine = {nodeid for nodeid in all_tests if nodeid.startswith(f"{file}::")}
        assert sorted(len(mine & drawn(all_tests, number)) for number in range(8)) == [*[0] * 7, len(mine)]


def files_of(nodeids: Iterable[str]) -> set[str]:
    return {nodeid.partition("::")[0] for nodeid in nodeids}


def folders_of(files: Iterable[str]) -> set[str]:
    return {file.rpartition("/")[0] for file in files}


def missing(starts: Iterable[str]) -> list[str]:
    """Return those that no test has."""
    return [start for start in starts if not exists(start)]


def exists(start: str) -> bool:
    path, _, name = start.partition("::")
    if not name:
        return (ROOT / path).exists()
    file = ROOT / path
    last = name.partition("[")[0].removesuffix("::runTest").rpartition("::")[2]
    return (
        file.is_file()
        and re.search(rf"^ *((async )?def |class |){last}", file.read_text(encoding="utf-8"), re.M) is not None
    )


def test_what_is_sampled_exists() -> None:
    assert missing([*SHARES, *WAITING, *TOGETHER, *costly_tests()]) == []
    wrong = ["tests/none.py", "tests/test_sampling.py::test_none", "tests/none/"]
    assert missing(wrong) == wrong


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Nine tests of which `make test` runs one or two, by their place; the test 4 fails."""
    (tmp_path / "tests" / "spark").mkdir(parents=True)
    source = "import pytest\n\n@pytest.mark.parametrize('n', range(9))\ndef test_n(n):\n    assert n != 4\n"
    (tmp_path / "tests" / "spark" / "test_a.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    soak: x\n")
    assert share_of("tests/spark/test_a.py::test_n[0]") == 8
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
    assert re.search(r"1 failed(, [12] passed)?, [678] deselected", shown), shown


def test_all_tests_of_an_edited_file_are_in_the_sample(place: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=place, check=True, capture_output=True)
    assert edited_files(place) == set()
    file = place / "tests" / "spark" / "test_a.py"
    file.write_text(file.read_text().replace("n != 4", "True"))
    assert edited_files(place) == {"tests/spark/test_a.py"}
    assert "9 passed" in outcome(place, "-m", "not soak", "-p", "tests.sampling")[1]


def test_the_next_commit_has_the_next_number_and_a_cut_history_some_number(place: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    assert number_of(place) == number_of(place)  # of the date: no repository is there
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    for number in (1, 2):
        subprocess.run(["git", *who, "commit", "--allow-empty", "-qm", "x"], cwd=place, check=True)
        assert number_of(place) == number
    shallow = place / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", place.as_uri(), str(shallow)], check=True, capture_output=True)
    assert number_of(shallow) == number_of(shallow) > 2


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
