"""Boxes of one size: how they lie, and that a trial of them is the same for every policy."""

from __future__ import annotations

import re

import pytest

from tamis.demo.range_questions import SIZE, VALUES, range_trial
from tamis.errors import ModelError
from tamis.runtime.simulation.topology import Topology

LINE = Topology.of("line", 2)


@pytest.mark.parametrize(("kind", "least", "most"), [("uniform", 0.4, 0.6), ("zipf", 0.8, 1.0)])
def test_where_questions_lie(kind: str, least: float, most: float) -> None:
    trial = range_trial(LINE, kind, attributes=3, subscriptions=400, events=50, clients=2)
    starts = []
    for _, text, _ in trial.subscriptions:
        ends = [(int(low), int(high)) for low, high in re.findall(r"BETWEEN (\d+) AND (\d+)", str(text))]
        assert len(ends) == 3
        assert all(low >= 0 and high == low + SIZE - 1 < VALUES for low, high in ends)
        starts += [low for low, _ in ends]
    assert least < sum(start < VALUES // 2 for start in starts) / len(starts) < most
    assert all(set(event) == {"x1", "x2", "x3"} for event in trial.events)


def test_the_gain_of_subsumption_is_larger_with_fewer_attributes() -> None:
    """[mics] Fig. 7: subsumption cuts more where subscriptions overlap more."""
    shares = []
    for d in (1, 2):
        trial = range_trial(LINE, attributes=d, subscriptions=120, events=1, clients=2)
        every, subsumed = (trial.run(name).subscription_messages for name in ("every", "subsumption"))
        shares.append(subsumed / every)
    assert shares[0] < shares[1] < 1


def test_an_unknown_kind() -> None:
    with pytest.raises(ModelError, match="unknown kind of ranges 'normal'; choose from uniform, zipf"):
        range_trial(LINE, "normal", clients=1)
