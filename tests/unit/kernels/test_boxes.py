"""Boxes as entries: packing, taking, and the float64 verdict."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.kernels.boxes import bits
from tamis.kernels.boxes import sparse as b
from tests.unit.kernels.naive_boxes import naive_match, nasty_boxes, nasty_events

FORMS = pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])


def pick(function, plain):
    return function.py_func if plain else function


def pack(lo, hi, plain=False):
    first = np.zeros(len(lo) + 1, np.uint32)
    assert pick(b.count_boxes, plain)(lo, hi, first) == -1
    packed = b.Boxes(first, np.empty(first[-1], np.int16), np.empty((first[-1], 2)))
    pick(b.pack_boxes, plain)(lo, hi, packed.axis, packed.ends)
    return packed


@FORMS
def test_holds_agrees_with_the_textbook(plain):
    rng = np.random.default_rng(1)
    lo, hi = nasty_boxes(rng, 80, 3)
    packed = pack(lo, hi, plain)
    table = np.array([array.ctypes.data for array in packed], np.int64)
    lows, highs = nasty_events(rng, lo, hi, 40)
    for low, high in zip(lows, highs, strict=True):
        got = [s for s in range(80) if pick(b.holds, plain)(table, s, low, high)]
        assert got == naive_match(lo, hi, low, high)


@FORMS
def test_take_boxes_joins_parts(plain):
    rng = np.random.default_rng(2)
    lo, hi = nasty_boxes(rng, 30, 4)
    packed = pack(lo, hi)
    slots = np.array([3, 0, 29, 7])
    target = b.Boxes(np.zeros(9, np.uint32), np.empty(40, np.int16), np.empty((40, 2)))
    count = pick(b.take_boxes, plain)(packed, slots, target, 0)
    count = pick(b.take_boxes, plain)(packed, slots[::-1].copy(), target, count)
    assert count == 8
    for i, s in enumerate([*slots, *slots[::-1]]):
        own = slice(packed.first[s], packed.first[s + 1])
        new = slice(target.first[i], target.first[i + 1])
        assert packed.axis[own].tolist() == target.axis[new].tolist()
        assert packed.ends[own].tolist() == target.ends[new].tolist()


@FORMS
@pytest.mark.parametrize("bad", [(np.nan, 1), (0, np.nan), (2, 1), (np.inf, np.inf), (-np.inf, -np.inf)])
def test_a_bad_box_is_named(plain, bad):
    lo, hi = np.zeros((3, 2)), np.ones((3, 2))
    lo[1, 1], hi[1, 1] = bad
    assert pick(b.count_boxes, plain)(lo, hi, np.zeros(4, np.uint32)) == 1


@FORMS
def test_alive_bits(plain):
    alive = np.zeros(4, np.uint8)
    pick(bits.set_bits, plain)(alive, 0, 5)
    pick(bits.set_bits, plain)(alive, 5, 32)
    assert (alive == 255).all()
    assert pick(bits.clear_bits, plain)(alive, np.array([3, 8, 3, 31], np.int32)) == 3
    slots = np.empty(33, np.int64)
    count = pick(bits.live_slots, plain)(alive, 30, slots)
    assert slots[:count].tolist() == [s for s in range(30) if s not in (3, 8)]


@FORMS
def test_adopting_leaves_out_rows_that_left(plain):
    home = np.array([1, 2, 3, 0, 9], np.int32)
    slot_of = np.full(5, -1, np.int32)
    alive = np.full(1, 31, np.uint8)
    rows = np.array([4, 3, 2, 1, 0], np.int32)
    removed = pick(bits.adopt_rows, plain)(rows, np.array([1, 2], np.int32), 5, home, slot_of, alive)
    assert removed == 3
    assert home.tolist() == [5, 5, 3, 0, 9]
    assert slot_of[:2].tolist() == [4, 3]
    assert alive[0] == 0b11000
