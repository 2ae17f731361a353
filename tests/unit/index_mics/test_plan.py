"""Plans as bytes, joined plans, and bytes that are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.curves.runs import difference, merged, union
from tamis.errors import LimitError, ModelError
from tamis.index.mics.plan import RangeDelta, RangePlan

runs = st.lists(st.tuples(st.integers(0, 2**61), st.integers(0, 300)), max_size=6).map(
    lambda some: merged([[a, a + b] for a, b in some])
)
small = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=5).map(
    lambda some: merged([[a, a + b] for a, b in some])
)
plans = st.builds(
    RangePlan,
    st.sampled_from(["", "0123456789abcdef", "a+b"]),
    st.lists(st.builds(RangeDelta, runs, runs), max_size=3).map(tuple),
    st.booleans(),
)


def plain(plan: RangePlan) -> tuple[str, bool, list[list[list[list[int]]]]]:
    return plan.version, plan.is_full, [[part.added.tolist(), part.removed.tolist()] for part in plan.parts]


@given(plans)
def test_bytes_come_back(plan: RangePlan) -> None:
    assert plain(RangePlan.from_bytes(plan.to_bytes())) == plain(plan)


@given(small, small, small, small, small)
def test_a_joined_plan_does_what_both_do(state, added, removed, more, less) -> None:
    def after(runs, delta):
        return difference(union(runs, delta.added), delta.removed)

    first, two = RangeDelta(added, removed), RangeDelta(more, less)
    assert after(state, first.then(two)).tolist() == after(after(state, first), two).tolist()


def test_plans_are_joined_only_within_a_space() -> None:
    plan = RangePlan("a", (RangeDelta(merged([[1, 2]]), merged([])),))
    assert plain(plan.then(RangePlan("b", (), is_full=True))) == ("b", True, [])
    with pytest.raises(ModelError, match="snapshot"):
        plan.then(RangePlan("b", plan.parts))
    assert plan.then(plan).n_ranges == 1


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for bad in (data, b"MICS1" + data):
        try:
            read = RangePlan.from_bytes(bad)
        except ModelError:
            continue
        assert plain(RangePlan.from_bytes(read.to_bytes())) == plain(read)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "ends too early"),
        (lambda data: data + b"\x01", "after its end"),
        (lambda data: b"x" + data, "not a range plan"),
        (lambda data: data.replace(b"\x02\x05\x01\x03", b"\x02\x05\x01\x00"), "touch"),
        (lambda data: b"MICS1" + b"\xff" * 12, "too large"),
    ],
)
def test_broken_bytes_are_refused_with_a_reason(change, message: str) -> None:
    data = RangePlan("v", (RangeDelta(merged([[5, 6], [10, 12]]), merged([])),)).to_bytes()
    with pytest.raises(ModelError, match=message):
        RangePlan.from_bytes(change(data))


def test_a_plan_that_no_message_can_hold() -> None:
    many = np.stack([np.arange(0, 400_000, 3), np.arange(0, 400_000, 3)], axis=1)
    with pytest.raises(LimitError, match="bytes of a range plan"):
        RangePlan("v", (RangeDelta(many, merged([])),)).to_bytes()
    with pytest.raises(LimitError, match="bytes of a range plan"):
        RangePlan.from_bytes(b"MICS1" + bytes(300_000))
