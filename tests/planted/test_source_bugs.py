"""The catalogue of source bugs is sound, and a sample of it is found; `make planted` plants all of them."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.planted.bug import ROOT, Bug, missing_tests, planted_source, source_of
from tests.planted.planting import Outcome, Tree
from tests.planted.source_catalogue import BUGS, SUBSYSTEMS

NAMES = Path(__file__).with_name("source_bugs.txt")
#: Bugs that `make test` plants: others each day. The first one compiles all kernels that its tests use.
SAMPLE = 1

SCAN = next(bug for bug in BUGS if bug.name == "scan_leaves_out_the_upper_bound")


def test_no_bug_has_left_the_catalogue() -> None:
    names = [f"{bug.subsystem}: {bug.name}" for bug in BUGS]
    assert len({bug.name for bug in BUGS}) == len(names)
    assert names == NAMES.read_text(encoding="utf-8").splitlines()


def test_every_subsystem_has_its_number_of_bugs() -> None:
    counts = Counter(bug.subsystem for bug in BUGS)
    assert not {name: counts[name] for name, least in SUBSYSTEMS.items() if counts[name] < least}


def test_every_bug_can_be_planted_and_its_tests_exist() -> None:
    faults = [f"{bug.name}: there is no {test}" for bug in BUGS for test in missing_tests(bug)]
    faults += [f"{bug.name}: no sentence or no test" for bug in BUGS if bug.says[-1:] != "." or not bug.tests]
    for bug in BUGS:
        try:
            planted_source(bug)
        except (LookupError, SyntaxError) as error:
            faults.append(str(error))
    assert not faults, "\n".join(faults)


def sample() -> list[Bug]:
    """Return some cheap bugs, each of another subsystem; the same ones all day, in every process."""
    generator = random.Random(dt.datetime.now(dt.UTC).date().toordinal())
    cheap = {name: [bug for bug in BUGS if bug.subsystem == name and not bug.costly] for name in SUBSYSTEMS}
    names = generator.sample([name for name, some in cheap.items() if some], SAMPLE)
    return [generator.choice(cheap[name]) for name in names]


@pytest.mark.slow
def test_a_sample_of_the_bugs_is_found_and_only_those(tmp_path: Path) -> None:
    bugs, tree = sample(), Tree(tmp_path)
    for bug in bugs:
        with tree.planted(bug):
            outcome = tree.run(bug.tests)
        assert outcome.is_found, f"{bug.name}: {bug.says}\n{outcome.tail}"
    outcome = tree.run(sorted({test for bug in bugs for test in bug.tests}))
    assert outcome.is_silent, outcome.tail


def test_a_run_knows_the_marks_of_hypothesis(tmp_path: Path) -> None:
    """Plugins are loaded by name there: without that of Hypothesis, its mark is an error in tests that have it."""
    outcome = Tree(tmp_path).run(["tests/unit/model/test_pattern.py::test_exact_and_prefix_decide_alone"])
    assert outcome.is_silent, outcome.tail


def test_planting_never_reaches_the_tree(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    path = source_of(SCAN)
    before = (ROOT / path).read_bytes()
    with tree.planted(SCAN):
        assert (ROOT / path).read_bytes() == before
        assert SCAN.after in (tmp_path / path).read_text(encoding="utf-8")
    assert (tmp_path / path).read_bytes() == before


def test_a_module_that_moved_is_found_by_its_text() -> None:
    assert source_of(replace(SCAN, module="somewhere/else")) == source_of(SCAN)
    with pytest.raises(LookupError, match="0 files below src have its text"):
        source_of(replace(SCAN, module="somewhere/else", before="no such text anywhere"))


@pytest.mark.parametrize("before", ["no such text anywhere", "import"])
def test_a_text_that_does_not_stand_there_once_is_refused(before: str) -> None:
    with pytest.raises(LookupError, match="not once"):
        planted_source(replace(SCAN, before=before))


def test_a_change_that_changes_nothing_is_refused() -> None:
    with pytest.raises(LookupError, match="changes nothing"):
        planted_source(replace(SCAN, after=SCAN.before.replace("points[e, k]", "(points[e, k])")))


@pytest.mark.parametrize(
    ("code", "failed", "errors"),
    [
        (0, (), ()),
        (1, (), ()),
        (1, ("FAILED tests/x.py::test - NameError: name 'y' is not defined",), ()),
        (1, ("FAILED tests/x.py::test - assert 1",), ("ERROR tests/y.py - ImportError",)),
        (2, ("FAILED tests/x.py::test - assert 1",), ()),
        (4, (), ()),
        (5, (), ()),
        (-1, (), ()),
    ],
)
def test_what_does_not_count_as_found(code: int, failed: tuple[str, ...], errors: tuple[str, ...]) -> None:
    assert not Outcome(code, failed, errors, 0.0, "").is_found
    assert Outcome(1, ("FAILED tests/x.py::test - assert 1",), (), 0.0, "").is_found


@pytest.mark.parametrize("test", ["tests/none.py::test", "tests/naive.py::test_none", "tests/naive.py"])
def test_a_test_that_does_not_exist_is_named(test: str) -> None:
    assert missing_tests(replace(SCAN, tests=(test,))) == [test]
