"""Arrays in one file: what is written is mapped, and what is not such a file is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.engine.snapshot.array_file import map_arrays, write_arrays
from tamis.errors import SnapshotError
from tamis.kernels.boxes.match import match_events
from tamis.kernels.polygons.region_tests import decide_regions


def test_round_trip(tmp_path: Path) -> None:
    arrays = {
        "floats": np.arange(7.0).reshape(7, 1),
        "none": np.empty((0, 3), np.int16),
        "bits": np.array([True, False]),
        "strided": np.arange(10, dtype=np.int32)[::2],
    }
    write_arrays(tmp_path / "file", arrays)
    mapped = map_arrays(tmp_path / "file")
    assert list(mapped) == list(arrays)
    for name, array in arrays.items():
        assert mapped[name].dtype == array.dtype
        assert np.array_equal(mapped[name], array)
        assert not mapped[name].nbytes or mapped[name].ctypes.data % 64 == 0


def test_who_writes_into_mapped_arrays_changes_neither_the_file_nor_what_others_see(tmp_path: Path) -> None:
    write_arrays(tmp_path / "file", {"numbers": np.arange(1_000)})
    written = (tmp_path / "file").read_bytes()
    mine, theirs = (map_arrays(tmp_path / "file")["numbers"] for _ in range(2))
    mine[:] = -1
    assert np.array_equal(theirs, np.arange(1_000))
    assert (tmp_path / "file").read_bytes() == written


def test_mapped_arrays_need_no_new_kernel(tmp_path: Path) -> None:
    engine = tamis.Engine(tamis.Schema({"price": tamis.Number(), "area": tamis.Region()}))
    for id in range(300):
        engine.subscribe(f"price > {id} AND S_INTERSECTS(area, POLYGON((0 0, {id + 9} 0, 0 9, 0 0)))", id=id)
    areas = ["POLYGON ((1 1, 30 7, 30 2, 1 1))", "POLYGON ((4 4, 30 4, 4 5, 4 4))"]
    events = {"price": [20.5, 50.0] * 20, "area": areas * 20}
    engine.save(tmp_path)
    wanted = engine.match_table(events)
    forms = {kernel: len(kernel.signatures) for kernel in (match_events, decide_regions)}
    matches = tamis.Engine.load(tmp_path).match_table(events)
    assert np.array_equal(matches.rows, wanted.rows)
    assert len(matches.rows) > 40
    assert {kernel: len(kernel.signatures) for kernel in forms} == forms


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    write_arrays(tmp_path / "file", {})
    with pytest.raises(FileExistsError):
        write_arrays(tmp_path / "file", {})


@pytest.mark.parametrize(
    "content",
    [
        b"x" * 100,
        b"tamisarr" + (10**9).to_bytes(8, "little") + b" " * 64,
        b"tamisarr" + (16).to_bytes(8, "little") + b"not json".ljust(16),
        b'tamisarr%b[{"name":"a","dtype":"<f8","shape":[9],"offset":0}]' % (46).to_bytes(8, "little") + b" " * 64,
        b'tamisarr%b[{"name":"a","dtype":"|O","shape":[1],"offset":0}] ' % (46).to_bytes(8, "little") + b" " * 64,
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(SnapshotError, match="not a file of arrays|does not fit the file"):
        map_arrays(tmp_path / "file")
