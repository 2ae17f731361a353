"""A box index through random lives: add, remove, match, merge at any moment, save and open."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.segment import LAYOUTS
from tamis.kernels import directory as at
from tests.unit.kernels.naive_boxes import fast_match, nasty_boxes, nasty_events

seeds = st.integers(0, 2**32 - 1)
#: All of them, and each alone: pair grids take boxes that are sparse, and leave the others to trees.
layouts = st.sampled_from([LAYOUTS, (at.TREE,), (at.TREE, at.PAIRS), (at.BITMAPS,)])


class BoxIndexLife(RuleBasedStateMachine):
    """The model is a dict of dense boxes."""

    @initialize(d=st.sampled_from([1, 2, 4, 9]), chosen=layouts)
    def start(self, d, chosen):
        self.index = BoxIndex(d, chosen)
        self.model = {}
        self.plan = None

    def random_boxes(self, seed, n):
        rng = np.random.default_rng(seed)
        return nasty_boxes(rng, n, self.index.n_axes, free=rng.choice([0.0, 0.4, 0.8]))

    @rule(seed=seeds, n=st.sampled_from([1, 2, 30, 500, 1_500]))
    def add(self, seed, n):
        lo, hi = self.random_boxes(seed, n)
        free = np.setdiff1d(np.arange(len(self.model) + n), np.array(list(self.model), int))
        rows = np.random.default_rng(seed).permutation(free)[:n].astype(np.int32)
        self.index.add_boxes(lo, hi, rows)
        self.model.update({int(row): (lo[i], hi[i]) for i, row in enumerate(rows)})

    @precondition(lambda self: self.model)
    @rule(seed=seeds, share=st.sampled_from([0.0, 0.1, 0.9]))
    def remove(self, seed, share):
        rng = np.random.default_rng(seed)
        rows = rng.choice(sorted(self.model), max(1, int(share * len(self.model))), replace=False)
        self.index.remove(rows.astype(np.int32))
        for row in rows.tolist():
            del self.model[row]

    @rule(chosen=layouts)
    def change_layouts(self, chosen):
        """What is built from now on is laid out in another way, the result of a merge too."""
        self.index._parts._layouts = chosen

    @rule()
    def plan_merge(self):
        self.plan = self.index.plan_merge() or self.plan

    @precondition(lambda self: self.plan)
    @rule()
    def run(self):
        self.plan.run()

    @precondition(lambda self: self.plan)
    @rule()
    def install(self):
        self.index.install(self.plan)
        self.plan = None

    @rule()
    def compact(self):
        self.index.compact()

    @precondition(lambda self: self.index.n_axes < 12)
    @rule()
    def grow(self):
        d = self.index.n_axes + 1
        self.index.grow(d)
        for row, (lo, hi) in self.model.items():
            self.model[row] = (np.append(lo, -np.inf), np.append(hi, np.inf))

    @rule()
    def save_and_open(self):
        arrays = {name: array.copy() for name, array in self.index.to_arrays().items()}
        for array in arrays.values():
            array.flags.writeable = False
        self.index = BoxIndex.from_arrays(arrays)
        self.plan = None

    @rule(seed=seeds, n=st.sampled_from([8, 40]))
    def match(self, seed, n):
        rows = np.array(sorted(self.model), int)
        d = self.index.n_axes
        lo = np.array([self.model[row][0] for row in rows]).reshape(-1, d)
        hi = np.array([self.model[row][1] for row in rows]).reshape(-1, d)
        rng = np.random.default_rng(seed)
        lows, highs = nasty_events(rng, *((lo, hi) if rows.size else self.random_boxes(seed, 5)), n)
        offsets, got = self.index.match_points(lows, highs)
        met = np.zeros(n, np.bool_)
        self.index.meet_points(lows, highs, met, self.index.snapshot)
        for e in range(n):
            want = rows[fast_match(lo, hi, lows[e], highs[e])].tolist()
            assert sorted(got[offsets[e] : offsets[e + 1]].tolist()) == want
            assert sorted(self.index.match_point(lows[e], highs[e]).tolist()) == want
            assert met[e] == bool(want)

    @invariant()
    def whole(self):
        if hasattr(self, "index"):
            assert len(self.index) == len(self.model)
            self.index.check_invariants()


BoxIndexLife.TestCase.settings = settings(
    max_examples=100, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestBoxIndexLife = BoxIndexLife.TestCase
