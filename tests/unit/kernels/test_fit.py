"""Tests of sixteen boxes: compiled, plain, and against the obvious loop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tamis.kernels.boxes import fit
from tamis.kernels.compile import hot_kernel


@hot_kernel
def call_fit_block(address, columns, low, high):
    return fit.fit_block(address, columns, low, high)


@hot_kernel
def call_fit_quads(lines, low, high, care, strict):
    return fit.fit_quads(lines, low, high, care, strict)


@hot_kernel
def call_fit_corners(lines, axes, low, high, strict):
    return fit.fit_corners(lines, axes, low, high, strict)


def both(function):
    return pytest.mark.parametrize("call", [function, function.py_func], ids=["compiled", "plain"])


@both(call_fit_block)
@pytest.mark.parametrize("columns", [1, 2, 5])
def test_fit_block_says_who_fits_and_who_ties(call, columns):
    rng = np.random.default_rng(1)
    for _ in range(200):
        lo = rng.integers(-2, 6, (columns, 16))
        hi = rng.integers(4, 12, (columns, 16))
        lines = np.stack((lo, hi), 1).astype(np.int16)
        low = rng.integers(-1, 10, columns).astype(np.int16)
        high = (low + rng.integers(0, 3, columns)).astype(np.int16)
        slot = call(lines.ctypes.data, columns, low, high)
        for i in range(16):
            fits = (lo[:, i] <= high).all() and (hi[:, i] >= low).all()
            ties = fits and ((lo[:, i] == high) | (hi[:, i] == low)).any()
            assert bool(slot >> i & 1) == fits
            assert bool(slot >> 16 + i & 1) == ties


@both(call_fit_block)
def test_fit_block_does_not_overflow_at_the_extreme_codes(call):
    lo = np.array([-2, 0, 32767, 31999] * 4)
    hi = np.array([32766, 32766, -3, 32000] * 4)
    line = np.concatenate((lo, hi)).astype(np.int16)
    for code, want in ((-1, 0x1111), (2, 0x3333), (32000, 0xBBBB)):  # missing fits free lanes only
        codes = np.array([code], np.int16)
        assert call(line.ctypes.data, 1, codes, codes) & 0xFFFF == want


def some_lanes(rng):
    """Sides of sixteen boxes, two lanes of them without a box."""
    sides = np.sort(rng.integers(1, 12, (16, 4, 2)), axis=2).transpose(2, 0, 1)
    sides[0, 14:], sides[1, 14:] = 255, 0
    return np.ascontiguousarray(sides.astype(np.uint8))


def as_word(codes):
    return int(np.array(codes, np.uint8).view(np.uint32)[0])


def lanes_that_fit(sides, low, high, strict):
    fits = (sides[0] + strict <= high) & (sides[1].astype(int) - strict >= low)
    return sum(1 << i for i in range(14) if fits[i].all())


@both(call_fit_quads)
def test_fit_quads_agrees_with_a_loop(call):
    rng = np.random.default_rng(2)
    for strict in [0, 1] * 100:
        sides = some_lanes(rng)
        low = rng.integers(1, 12, 4)
        high = low + rng.integers(0, 3, 4)
        slot = call(sides.ctypes.data, as_word(low), as_word(high), 0xFFFFFFFF, strict)
        assert slot & 0x3FFF == lanes_that_fit(sides.astype(int), low, high, strict)
        assert strict or slot >> 14 == 0
        some = call(sides.ctypes.data, as_word(low), as_word(high), 0xFF00FF00, strict)
        wide = sides.astype(int)
        wide[0, :, ::2], wide[1, :, ::2] = -9, 999
        assert some & 0x3FFF == lanes_that_fit(wide, low, high, strict)


@both(call_fit_corners)
def test_fit_corners_looks_up_the_axes_of_each_lane(call):
    rng = np.random.default_rng(3)
    for strict in [0, 1] * 100:
        sides = some_lanes(rng)
        axes = rng.integers(0, 64, (16, 2)).astype(np.uint8)
        tables = np.sort(rng.integers(1, 12, (2, 64)), axis=0).astype(np.uint8)
        cell = np.sort(rng.integers(1, 12, (2, 2)), axis=0)
        words = [int(c[0]) << 16 | int(c[1]) << 24 for c in cell]
        low, high = ((tables[i].ctypes.data, words[i]) for i in range(2))
        slot = call(sides.ctypes.data, axes.ctypes.data, low, high, strict)
        event = [np.concatenate((tables[i][axes], np.broadcast_to(cell[i], (16, 2))), axis=1) for i in range(2)]
        assert slot & 0x3FFF == lanes_that_fit(sides.astype(int), *event, strict)
        assert strict or slot >> 14 == 0


@pytest.mark.parametrize(("switch", "expected"), [("1", "False False"), ("", "True True")])
def test_forcing_the_loops_is_one_switch(switch, expected):
    """On a processor that is made to look as if it had both instructions."""
    script = (
        "import llvmlite.binding as llvm\n"
        "llvm.get_host_cpu_features = lambda: {'avx512f': True, 'avx512vbmi': True}\n"
        "from tamis.kernels import vector_ir\n"
        "print(vector_ir.HAS_COMPRESS, vector_ir.HAS_PERMUTE)\n"
    )
    environment = {**os.environ, "TAMIS_NO_COMPRESS": switch, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == expected


def test_the_loop_form_finds_the_same_lanes(tmp_path):
    """On a processor without the table look-up: same lanes (forced in a process of its own)."""
    script = (
        "import test_fit as t\n"
        "from tamis.kernels import vector_ir\n"
        "assert not (vector_ir.HAS_PERMUTE or vector_ir.HAS_COMPRESS)\n"
        "t.test_fit_corners_looks_up_the_axes_of_each_lane(t.call_fit_corners)\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = {**os.environ, "TAMIS_NO_COMPRESS": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=120)
