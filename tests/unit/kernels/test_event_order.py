"""Ordering a batch changes the speed, never the answer."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.index.packed.boxes import matching as reader
from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.outputs import Outputs
from tamis.kernels.boxes.event_order import event_keys, reorder_csr
from tamis.kernels.boxes.staged import emit_staged, stage_events
from tests.unit.kernels.naive_boxes import fast_match, nasty_boxes, nasty_events

FORMS = pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])


def pick(function, plain):
    return function.py_func if plain else function


@FORMS
def test_reordering_is_the_obvious_permutation(plain):
    rng = np.random.default_rng(1)
    order = rng.permutation(7)
    lists = [rng.integers(0, 99, size).astype(np.int32) for size in (3, 0, 5, 1, 0, 2, 4)]
    flat = (np.concatenate(([0], np.cumsum([rows.size for rows in lists]))), np.concatenate(lists))
    offsets, out = np.zeros(8, np.int64), np.full(22, -1, np.int32)
    offsets[0] = 6
    pick(reorder_csr, plain)(order, flat, offsets, out)
    for i, e in enumerate(order):
        assert out[offsets[e] : offsets[e + 1]].tolist() == lists[i].tolist()
    assert (out[:6] == -1).all()


@FORMS
def test_staged_lanes_become_the_rows_of_their_events(plain):
    """Trees and a delta, ties among them; room that is too small is asked for, and nothing is written then."""
    rng = np.random.default_rng(4)
    lo, hi = nasty_boxes(rng, 1_300, 2)
    index = BoxIndex(2)
    index.add_boxes(lo[:1_200], hi[:1_200], np.arange(1_200, dtype=np.int32))
    index.add_boxes(lo[1_200:], hi[1_200:], np.arange(1_200, 1_300, dtype=np.int32))
    lows, highs = nasty_events(rng, lo, hi, 12)
    place = rng.permutation(12)
    order = np.argsort(place)
    scratch, starts, stage = reader.BoxReader(2, Outputs())._scratch, np.zeros(13, np.int64), np.empty(4_096, np.int64)
    events = (lows[order], highs[order])
    assert pick(stage_events, plain)(index.snapshot.directory, events, 0, starts, stage, scratch) == 12
    offsets, out = np.zeros(13, np.int64), np.full(3, -1, np.int32)
    offsets[0] = 2
    needed = pick(emit_staged, plain)(place, (starts, stage), offsets, out)
    assert (out == -1).all()
    out = np.full(needed, -1, np.int32)
    assert pick(emit_staged, plain)(place, (starts, stage), offsets, out) == needed
    for e in range(12):
        assert sorted(out[offsets[e] : offsets[e + 1]].tolist()) == fast_match(lo, hi, lows[e], highs[e])
    assert offsets[12] > 50
    assert (out[:2] == -1).all()


@FORMS
@pytest.mark.parametrize("d", [1, 3, 5])
def test_keys_follow_the_values(plain, d):
    index = BoxIndex(d)
    lo = np.random.default_rng(2).random((3_000, d))
    index.add_boxes(lo, lo + 0.1, np.arange(3_000, dtype=np.int32))
    events = np.tile(np.array([[-1.0], [0.2], [0.8], [2.0], [np.nan]]), (1, d))
    keys = np.empty(5, np.uint16)
    pick(event_keys, plain)(index.snapshot.directory[0], events, keys)
    assert keys[:4].tolist() == sorted(keys[:4].tolist())
    assert keys[0] < keys[1] < keys[3]
    assert keys[4] == 0


@pytest.mark.parametrize("short", [np.inf, -1.0], ids=["copied", "staged"])
@pytest.mark.parametrize("seed", range(3))
def test_ordered_batches_give_the_same_answers(monkeypatch, seed, short):
    monkeypatch.setattr(reader, "_MANY", 8)
    monkeypatch.setattr(reader, "_LARGE", 1)
    monkeypatch.setattr(reader, "_SHORT", short)
    monkeypatch.setattr(reader, "_CHUNK", 25)
    rng = np.random.default_rng(seed)
    lo, hi = nasty_boxes(rng, 1_500, 3)
    index = BoxIndex(3)
    index.add_boxes(lo, hi, np.arange(1_500, dtype=np.int32))
    lows, highs = nasty_events(rng, lo, hi, 90)
    for bounds in ((lows, highs), (lows, lows)):
        offsets, rows = index.match_points(*bounds)
        for e in range(90):
            want = fast_match(lo, hi, bounds[0][e], bounds[1][e])
            assert sorted(rows[offsets[e] : offsets[e + 1]].tolist()) == want
