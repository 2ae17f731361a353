"""Readers in threads while one writer adds, removes and merges: settled rows are always answered, exactly."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.kernels import directory as at
from tests.unit.kernels.naive_boxes import fast_match


def make_boxes(rng, n, d):
    lo = rng.random((n, d)) * 100
    hi = lo + rng.random((n, d)) * 20
    if d > 6:  # sparse: pair grids
        free = rng.random((n, d)) < 0.8
        lo[free], hi[free] = -np.inf, np.inf
    return lo, hi


@pytest.mark.parametrize(
    ("d", "layouts"),
    [(3, (at.TREE,)), (10, (at.TREE, at.PAIRS)), (10, (at.BITMAPS,))],
    ids=["tree", "pairs", "bitmaps"],
)
def test_answers_hold_while_the_writer_works(d, layouts):
    rng = np.random.default_rng(1)
    settled, moving = 3_000, 4_000
    lo, hi = make_boxes(rng, settled + moving, d)
    index = BoxIndex(d, layouts)
    for part in np.array_split(np.arange(settled), 3):
        index.add_boxes(lo[part], hi[part], part.astype(np.int32))
    events = rng.random((16, d)) * 100
    sure = [fast_match(lo[:settled], hi[:settled], event, event) for event in events]
    possible = [set(fast_match(lo, hi, event, event)) for event in events]
    index.match_points(events)
    stop = threading.Event()
    faults, rounds = [], [0, 0]

    def read(number):
        while not stop.is_set() and not faults:
            rounds[number] += 1
            offsets, rows = index.match_points(events)
            answers = [rows[a:b].tolist() for a, b in itertools.pairwise(offsets)]
            answers[0] = index.match_point(events[0]).tolist()
            for e, answer in enumerate(answers):
                kept = sorted(row for row in answer if row < settled)
                if kept != sure[e] or len(set(answer)) < len(answer) or not set(answer) <= possible[e]:
                    faults.append((e, kept, sure[e]))

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    try:
        live = np.zeros(moving, bool)
        for step in range(40):
            chosen = np.sort(rng.choice(moving, 400, replace=False))
            out, new = chosen[live[chosen]], chosen[~live[chosen]]
            index.remove((settled + out).astype(np.int32))
            rows = settled + new
            index.add_boxes(lo[rows], hi[rows], rows.astype(np.int32))
            live[out], live[new] = False, True
            plan = index.plan_merge()
            if plan is not None:
                worker = threading.Thread(target=plan.run)
                worker.start()
                removed = settled + np.flatnonzero(live)[:5]
                index.remove(removed.astype(np.int32))
                live[removed - settled] = False
                worker.join()
                assert index.install(plan)
            if step % 20 == 19:
                index.compact()
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not faults
    assert min(rounds) > 0
    index.check_invariants()
    now = np.concatenate((np.arange(settled), settled + np.flatnonzero(live)))
    for event in events:
        assert sorted(index.match_point(event).tolist()) == now[fast_match(lo[now], hi[now], event, event)].tolist()
