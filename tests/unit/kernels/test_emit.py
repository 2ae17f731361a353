"""Lane primitives: compiled, plain, and against the obvious loop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tamis.kernels import emit
from tamis.kernels.compile import hot_kernel


@hot_kernel
def call_emit(address, mask, out, at):
    return emit.emit_lanes(address, mask, out, at)


@hot_kernel
def call_bit(mask):
    return emit.lowest_bit(mask)


@hot_kernel
def call_readers(address, index):
    emit.prefetch(address)
    return (
        emit.uint8_at(address, index)
        + emit.int16_at(address, index)
        + emit.uint16_at(address, index)
        + emit.int32_at(address, index)
        + emit.uint32_at(address, index)
        + emit.int64_at(address, index)
        + emit.float64_at(address, index)
    )


def both(function):
    return pytest.mark.parametrize("call", [function, function.py_func], ids=["compiled", "plain"])


@both(call_emit)
def test_emit_writes_the_set_lanes_in_order(call):
    rows = np.arange(100, 116, dtype=np.int32)
    rng = np.random.default_rng(3)
    for mask in [0, 0xFFFF, 1, 0x8000, *rng.integers(0, 65536, 50).tolist()]:
        out = np.full(40, -1, np.int32)
        count = call(rows.ctypes.data, mask, out, 5)
        want = [100 + i for i in range(16) if mask >> i & 1]
        assert count == len(want)
        assert out[5 : 5 + count].tolist() == want
        assert (out[:5] == -1).all()


@hot_kernel
def call_lane(rows, slot, out, at):
    emit.emit_lane(rows, slot, out, at)


@hot_kernel
def call_count(mask):
    return emit.count_bits(mask)


@both(call_emit)
def test_lanes_are_staged_in_int64(call):
    """One number per block, where its rows lie and which match; a block without a match is written over."""
    out = np.full(3, -1, np.int64)
    assert call(1 << 40, 0b1010, out, 1) == 1
    assert call(1 << 40, 0, out, 2) == 0
    assert (out[1] >> 16, out[1] & 0xFFFF, out[0]) == (1 << 40, 0b1010, -1)


@both(call_lane)
def test_one_lane_is_written_or_staged(call):
    rows, out, stage = np.arange(100, 148, dtype=np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64)
    for slot in (0, 15, 16, 40):
        call(rows.ctypes.data, slot, out, 0)
        call(rows.ctypes.data, slot, stage, 0)
        assert out[0] == 100 + slot
        assert (stage[0] >> 16, stage[0] & 0xFFFF) == (rows.ctypes.data + 64 * (slot // 16), 1 << slot % 16)


@hot_kernel
def call_prefetch(array, row):
    emit.prefetch_row(array, row)
    return array[row, 0]


@both(call_prefetch)
def test_asking_ahead_changes_nothing(call):
    rows = np.arange(12.0).reshape(4, 3)
    assert [call(rows, row) for row in range(4)] == [0.0, 3.0, 6.0, 9.0]


@both(call_count)
def test_count_bits(call):
    assert [call(mask) for mask in (0, 1, 0xFFFF, 0b1011)] == [0, 1, 16, 3]


@both(call_bit)
def test_lowest_bit(call):
    assert [call(1 << i | 1 << 40) for i in range(20)] == list(range(20))


@both(call_readers)
def test_readers_read_their_types(call):
    numbers = np.arange(8, dtype=np.float64) + 0.5
    index = 2
    want = sum(
        float(numbers.view(kind)[index])
        for kind in (np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.float64)
    )
    assert call(numbers.ctypes.data, index) == pytest.approx(want)


def test_the_loop_form_gives_the_same_rows(tmp_path):
    """On a processor without the compress instruction: same rows (forced in a process of its own)."""
    script = (
        "import test_emit as t\n"
        "assert not t.emit.HAS_COMPRESS\n"
        "t.test_emit_writes_the_set_lanes_in_order(t.call_emit)\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = {**os.environ, "TAMIS_NO_COMPRESS": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=120)
