"""Arrays in one file: what is written is mapped, and what is not such a file is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.engine.snapshot.array_file import map_arrays, write_arrays
from tamis.errors import SnapshotError


def test_round_trip(tmp_path: Path) -> None:
    arrays = {
        "floats": np.arange(7.0).reshape(7, 1),
        "none": np.empty((0, 3), np.int16),
        "bits": np.array([True, False]),
        "strided": np.arange(10, dtype=np.int32)[::2],
    }
    write_arrays(tmp_path / "file", arrays)
    found = map_arrays(tmp_path / "file")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
        assert not found[name].flags.writeable
        assert not found[name].nbytes or found[name].ctypes.data % 64 == 0


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
