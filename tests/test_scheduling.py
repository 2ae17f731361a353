"""What runs in one process in `make test`, and what starts first."""

from __future__ import annotations

import itertools

import pytest

from tests.scheduling import scope_of, turn_of


def test_the_tests_of_the_shared_spark_session_are_one_scope() -> None:
    first, second = scope_of("tests/spark/test_match.py::test_a"), scope_of("tests/spark/test_cases.py::test_b[x::y]")
    assert first == second != scope_of("tests/spark/test_cluster.py::test_a")


@pytest.mark.parametrize("file", ["tests/server/test_http.py", "tests/unit/node/test_content.py", "src/tamis/api.py"])
def test_a_file_is_a_scope(file: str) -> None:
    assert scope_of(f"{file}::test_a") == scope_of(f"{file}::test_b[1]") == file


def test_long_tests_that_share_nothing_go_to_any_process() -> None:
    assert scope_of("tests/planted/test_planted_bugs.py::test[a]") != scope_of(
        "tests/planted/test_planted_bugs.py::test[b]"
    )


def test_the_longest_start_first() -> None:
    order = [
        "tests/spark/test_match.py::a",
        "tests/server/test_http.py::a",
        "tests/overlay/test_worlds.py::a",
        "src/a.py::a",
    ]
    turns = [turn_of(scope_of(test)) for test in order]
    assert all(turn < other for turn, other in itertools.pairwise(turns))
