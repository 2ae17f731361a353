"""A run's directory appears whole, replaces the last one, and never replaces what is not a run's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.errors import TableError
from tamis.spark.pipelines.run_directory import REPORT, building, read_report


def write(output: Path, text: str) -> None:
    with building(output) as place:
        (place / "deliveries").mkdir()
        (place / "deliveries" / "part").write_text(text)
        (place / REPORT).write_text('{"tamis": "0"}')


def fail_writing(output: Path, kept: str) -> None:
    with building(output) as place:
        assert list(place.iterdir()) == []
        (place / "deliveries").mkdir()
        assert (output / "deliveries" / "part").read_text() == kept
        raise KeyError(kept)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_second_run_takes_the_place_of_the_first(tmp_path: Path) -> None:
    write(tmp_path / "out", "one")
    write(tmp_path / "out", "two")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "deliveries" / "part").read_text() == "two"


def test_a_run_that_fails_leaves_the_last_one(tmp_path: Path) -> None:
    write(tmp_path / "out", "one")
    with pytest.raises(KeyError):
        fail_writing(tmp_path / "out", "one")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "deliveries" / "part").read_text() == "one"


def test_what_killed_runs_left_is_cleared(tmp_path: Path) -> None:
    write(tmp_path / "out", "one")
    (tmp_path / "out").rename(tmp_path / ".out.old")  # killed between the two renames
    (tmp_path / ".out.building" / "deliveries").mkdir(parents=True)
    (tmp_path / ".out.building" / "half").write_text("x")
    with pytest.raises(KeyError):
        fail_writing(tmp_path / "out", "one")
    assert names(tmp_path) == ["out"]


def test_what_is_not_a_run_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    (tmp_path / "out" / REPORT).write_text("[]")
    with pytest.raises(TableError, match="not a directory of an earlier run"):
        write(tmp_path / "out", "one")
    with pytest.raises(TableError, match="thesis.txt: not a directory"):
        write(tmp_path / "out" / "thesis.txt", "one")
    assert names(tmp_path) == ["out"]


def test_an_empty_directory_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", "one")
    assert read_report(tmp_path / "out") == {"tamis": "0"}


def test_two_runs_at_a_time_are_refused(tmp_path: Path) -> None:
    with building(tmp_path / "out") as place:
        (place / REPORT).write_text('{"tamis": "0"}')
        with pytest.raises(TableError, match="another run is writing it"):
            write(tmp_path / "out", "other")
        assert place.exists()
    assert names(tmp_path / "out") == [REPORT]
