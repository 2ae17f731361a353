"""A stranger sends a snapshot whose checksums are right and whose arrays lead kernels out of their memory.

What must happen: opening raises `SnapshotError` that names the file, the array and what is wrong.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.engine.snapshot.array_file import map_arrays, write_arrays
from tamis.errors import SnapshotError
from tamis.kernels import directory
from tamis.kernels.bitmaps import order as node
from tests.fuzz import snapshots as fuzz_snapshots

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    for make in (fuzz_snapshots.texts_engine, fuzz_snapshots.boxes_engine):
        make().save(folder / make.__name__)
    return folder


def _fill(name: str, value: float, at: Any = slice(None)) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name].reshape(-1)[at] = value

    return change


def _put(name: str, make: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name] = make(arrays[name])

    return change


def _lead_beyond(arrays: Arrays) -> None:
    """Let the last hull of the root fit every event: the walk would go on in blocks that do not exist."""
    arrays["plain.segment0.blocks"][15] = -2


def _many_columns(arrays: Arrays) -> None:
    """Let every event write its codes far behind the reader's buffer."""
    arrays["plain.segment0.column_axes"] = np.full(10**6, 10**6, np.int32)


def _odd_flags(arrays: Arrays) -> None:
    arrays["entries.exact"] = np.full(arrays["entries.exact"].shape, 7, np.uint8).view(np.bool_)


def _node(field: int, value: int, at: int) -> Callable[[Arrays], None]:
    """Change one number of one node."""

    def change(arrays: Arrays) -> None:
        arrays["plain.segment0.nodes"][at, field] = value

    return change


def _rootless(arrays: Arrays) -> None:
    arrays["plain.segment0.nodes"] = arrays["plain.segment0.nodes"][1:]


TREE, PAIRS, BITMAPS = "0.arrays", "1.arrays", "2.arrays"
#: (engine, file, the array that is named, what is said of it, the change)
CRAFTED: list[tuple[str, str, str, str, Callable[[Arrays], None]]] = [
    ("boxes", TREE, "plain.segment0.column_axes", "must ascend", _many_columns),
    ("boxes", TREE, "plain.segment0.axis", "outside 0 to 2", _fill("plain.segment0.axis", 3000, 5)),
    ("boxes", TREE, "plain.segment0.axis", "outside", _fill("plain.segment0.axis", -1, 5)),
    ("boxes", TREE, "plain.segment0.rows", "outside", _fill("plain.segment0.rows", 2**31 - 1, 5)),
    ("boxes", TREE, "plain.segment0.rows", "names a row twice", _fill("plain.segment0.rows", 1, slice(0, 2))),
    ("boxes", TREE, "plain.segment0.first", "must ascend from 0", _fill("plain.segment0.first", 2**32 - 1, 9)),
    ("boxes", TREE, "plain.segment0.ends", "an interval that is empty", _fill("plain.segment0.ends", np.nan, 9)),
    ("boxes", TREE, "plain.segment0.meta", "slots in the layout", _fill("plain.segment0.meta", 0, 1)),
    ("boxes", TREE, "plain.segment0.rows", "has the shape", _fill("plain.segment0.meta", 10**6, 0)),
    ("boxes", TREE, "plain.segment0.alive", "beyond the last", _fill("plain.segment0.alive", 255, -1)),
    ("boxes", TREE, "plain.segment0.levels", "the levels of a tree", _fill("plain.segment0.levels", 10**9, -2)),
    ("boxes", TREE, "plain.segment0.blocks", "codes", _put("plain.segment0.blocks", lambda a: a[:-32])),
    ("boxes", TREE, "plain.segment0.blocks", "to one that does not exist", _lead_beyond),
    ("boxes", TREE, "plain.segment0.coding", "outside 0 to 0", _fill("plain.segment0.coding", 7)),
    ("boxes", TREE, "plain.coding0.axes", "names knots", _fill("plain.coding0.axes", 1e6, 0)),
    ("boxes", TREE, "plain.coding0.axes", "levels do not fit", _fill("plain.coding0.axes", 9.0, 2)),
    ("boxes", TREE, "plain.coding0.axes", "a cell that names knots", _fill("plain.coding0.cells", 30_000, 7)),
    ("boxes", TREE, "plain.coding0.knots", "NaN or infinite", _fill("plain.coding0.knots", np.nan, 0)),
    ("boxes", TREE, "plain.index", "speaks of 99 axes", _fill("plain.index", 99, 0)),
    ("boxes", TREE, "balls.0.rows", "names a row twice", _fill("balls.0.rows", 800)),
    ("boxes", TREE, "balls.0.vectors", "unit vectors", _fill("balls.0.vectors", 1e200)),
    ("boxes", TREE, "balls.0.attribute", "is not UTF-8", _fill("balls.0.attribute", 255)),
    ("boxes", TREE, "removed", "must ascend", _fill("removed", -5)),
    ("boxes", TREE, "special", "says 5", _fill("special", 5)),
    ("boxes", PAIRS, "plain.segment0.members", "outside", _fill("plain.segment0.members", 10**6, 3)),
    ("boxes", PAIRS, "plain.segment0.members", "outside", _fill("plain.segment0.members", -(10**6), 3)),
    ("boxes", PAIRS, "plain.segment0.cells", "must ascend from 0", _fill("plain.segment0.cells", 2**31, -1)),
    ("boxes", PAIRS, "plain.segment0.axes", "outside 0 to 63", _fill("plain.segment0.axes", 64, 0)),
    ("boxes", PAIRS, "plain.segment0.groups", "in group 0", _fill("plain.segment0.groups", 500, 0)),
    ("boxes", PAIRS, "plain.segment0.groups", "in group 0", _fill("plain.segment0.groups", 1, 2)),
    ("boxes", PAIRS, "plain.segment0.groups", "in group 0", _fill("plain.segment0.groups", 2**40, 5)),
    ("boxes", PAIRS, "plain.segment0.members", "has the shape", _put("plain.segment0.members", lambda a: a[:-16])),
    ("boxes", BITMAPS, "plain.segment0.buckets", "outside 0 to 30", _fill("plain.segment0.buckets", 31, 7)),
    ("boxes", BITMAPS, "plain.segment0.table_columns", "outside 0 to 11", _fill("plain.segment0.table_columns", 12, 0)),
    ("boxes", BITMAPS, "plain.segment0.first_table", "must ascend", _fill("plain.segment0.first_table", 10**6, 1)),
    ("boxes", BITMAPS, "plain.segment0.tables", "has the shape", _put("plain.segment0.tables", lambda a: a[:-1])),
    ("boxes", BITMAPS, "plain.segment0.codes", "has", _put("plain.segment0.codes", lambda a: a[:-24])),
    ("boxes", BITMAPS, "plain.segment0.nodes", "begin with a root", _rootless),
    ("boxes", BITMAPS, "plain.segment0.nodes", "begin with a root", _node(node.COLUMN, 0, 0)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "names a column", _node(node.COLUMN, 12, -1)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "names a column", _node(node.COLUMN, -1, -1)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "without a parent", _node(node.DEPTH, 0, -1)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "without a parent", _node(node.DEPTH, 64, -1)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "leads back", _node(node.SKIP, 0, 1)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "beyond the last node", _node(node.SKIP, 10**6, 1)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "does not number", _node(node.LEAF, 10**6, -1)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "does not number", _node(node.LEAF, -7, 0)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "each of 4000 slots", _node(node.START, -1, -1)),
    ("boxes", BITMAPS, "plain.segment0.nodes", "each of 4000 slots", _node(node.STOP, 10**6, -1)),
    ("texts", TREE, "entries.row", "must ascend", _fill("entries.row", 10**6, -1)),
    ("texts", TREE, "entries.exact", "neither 0 nor 1", _odd_flags),
    ("texts", TREE, "special.segment0.rows", "outside", _fill("special.segment0.rows", 10**6, 0)),
    ("texts", TREE, "deciders.regions.first", "outside", _fill("deciders.regions.first", -3, 0)),
    ("texts", TREE, "deciders.regions.count", "beyond the last", _fill("deciders.regions.count", 255)),
    ("texts", TREE, "deciders.regions.start", "must ascend from 0", _fill("deciders.regions.start", 10**9, 3)),
    ("texts", TREE, "deciders.regions.start", "is not closed", _fill("deciders.regions.xy", 77.0, 0)),
    ("texts", TREE, "deciders.regions.block_start", "must ascend from 0", _fill("deciders.regions.block_start", -1, 3)),
    ("texts", TREE, "deciders.regions.xy", "NaN or infinite", _fill("deciders.regions.xy", np.inf, 2)),
    ("texts", TREE, "deciders.regions.bounds", "NaN or infinite", _fill("deciders.regions.bounds", np.inf, 2)),
    ("texts", TREE, "deciders.regions.axis", "is not one of regions", _fill("deciders.regions.axis", 0)),
    ("texts", TREE, "deciders.balls.0.entries", "must ascend", _fill("deciders.balls.0.entries", 10**6, 0)),
    ("texts", TREE, "deciders.balls.0.radii", "NaN or infinite", _fill("deciders.balls.0.radii", np.nan, 0)),
    ("texts", TREE, "loose", "names a row outside", _fill("loose", 10**6, 0)),
    ("texts", TREE, "entries.filter", "is <i8, not <u2", _put("entries.filter", lambda a: a.astype(np.int64))),
    ("texts", TREE, "entries.row", "is missing", lambda arrays: arrays.__delitem__("entries.row")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "file", "array", "problem", "change"), CRAFTED, ids=[f"{case[2]}-{i}" for i, case in enumerate(CRAFTED)]
)
def test_an_array_that_leads_out_of_its_memory_is_refused(
    saved: Path, tmp_path: Path, engine: str, file: str, array: str, problem: str, change: Callable[[Arrays], None]
) -> None:
    version = _crafted(saved / f"{engine}_engine", tmp_path, file, change)
    with pytest.raises(SnapshotError) as refused:
        tamis.Engine.load(tmp_path / "crafted")
    assert refused.value.path == str(version / file)
    assert f"the array {array!r}" in refused.value.problem
    assert problem in refused.value.problem


def _crafted(source: Path, folder: Path, file: str, change: Callable[[Arrays], None]) -> Path:
    """Return a version in which one file of arrays was changed, and whose checksums are right."""
    shutil.copytree(source, folder / "crafted")
    version = folder / "crafted" / "v000001"
    arrays: Arrays = {name: np.array(array) for name, array in map_arrays(version / file).items()}
    change(arrays)
    (version / file).unlink()
    write_arrays(version / file, arrays)
    fuzz_snapshots.Changer(version, 0).seal()
    return version


def test_copies_without_a_change_are_opened(saved: Path, tmp_path: Path) -> None:
    """The crafted ones are refused for their change, not for the way they are made."""
    for engine in ("texts_engine", "boxes_engine"):
        _crafted(saved / engine, tmp_path / engine, TREE, lambda arrays: None)
        assert fuzz_snapshots.use(tmp_path / engine / "crafted") > 0


def test_the_saved_engine_has_every_layout(saved: Path) -> None:
    engine = tamis.Engine.load(saved / "boxes_engine")
    layouts = [
        np.array(map_arrays(saved / "boxes_engine" / "v000001" / file)["plain.segment0.meta"])[1]
        for file in (TREE, PAIRS, BITMAPS)
    ]
    assert layouts == [directory.TREE, directory.PAIRS, directory.BITMAPS]
    assert len(engine) > 6_000


def test_bits_beyond_the_boxes_of_a_leaf_are_passed_over(saved: Path, tmp_path: Path) -> None:
    """All bits set: every box of a visited leaf is compared, and no slot behind the last."""
    _crafted(saved / "boxes_engine", tmp_path, BITMAPS, _fill("plain.segment0.tables", -1))
    crafted, sound = tamis.Engine.load(tmp_path / "crafted"), tamis.Engine.load(saved / "boxes_engine")
    event = {f"a{k}": 45.0 for k in range(12)}
    assert crafted.match(event, namespace="wide") == sound.match(event, namespace="wide") != []
    table = {name: np.full(100, value) for name, value in event.items()}
    actual, expected = (engine.match_table(table, namespace="wide") for engine in (crafted, sound))
    assert sorted(actual.rows.tolist()) == sorted(expected.rows.tolist())


def test_a_row_that_stands_nowhere_is_refused(saved: Path, tmp_path: Path) -> None:
    _crafted(saved / "boxes_engine", tmp_path, TREE, _fill("plain.segment0.alive", 254, 0))
    with pytest.raises(SnapshotError, match=r"0\.arrays: its arrays hold row \d+ 0 times, not 1"):
        tamis.Engine.load(tmp_path / "crafted")


def test_a_filter_that_was_not_indexed_is_refused_when_it_is_read(saved: Path, tmp_path: Path) -> None:
    """An entry names filter 9 of a subscription that has one: known when the text is compiled, not before."""
    _crafted(saved / "texts_engine", tmp_path, TREE, _fill("entries.filter", 9))
    engine = tamis.Engine.load(tmp_path / "crafted")
    with pytest.raises(SnapshotError, match="is not the one that was indexed"):
        engine.match({"price": 20.5, "symbol": "a-0"})


def test_a_pipe_in_the_place_of_a_file_does_not_hang(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "boxes_engine", tmp_path / "crafted")
    path = tmp_path / "crafted" / "v000001" / "0.arrays"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SnapshotError, match=r"0\.arrays: not a regular file"):
        tamis.Engine.load(tmp_path / "crafted")


def test_a_short_run_of_the_fuzzer_finds_nothing() -> None:
    seed = random.SystemRandom().randrange(2**32)
    outcomes, findings = fuzz_snapshots.fuzz(seconds=3600, seed=seed, changes=80)
    assert not findings, "\n".join(findings)
    assert sum(outcomes.values()) == 80
    assert outcomes["SnapshotError"] > 10, outcomes


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_a_hundred_thousand_changes_find_nothing(part: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    outcomes, findings = fuzz_snapshots.fuzz(seconds=3600, seed=seed, changes=5_000)
    assert not findings, "\n".join(findings)
    assert sum(outcomes.values()) == 5_000
    assert outcomes["answered"] > 500, outcomes


def test_the_fuzzer_sees_a_process_that_dies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzz_snapshots, "_serve", _dying)
    worker = fuzz_snapshots.Worker(tmp_path, tmp_path, 0)
    for number in range(2):  # another process takes its place
        story, outcome, more = worker.attempt(number)
        assert (story, outcome) == (f"change {number}", "finding")
        assert "exit code -11" in more
    worker.stop()


def _dying(saved: Path, work: Path, seed: int, pipe: Any) -> None:
    pipe.send(("made", f"change {pipe.recv()}"))
    os.kill(os.getpid(), 11)
