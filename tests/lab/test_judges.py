"""Every judge states its rule, can say yes, and says no to each fault of its rule; intervals leave claims undecided."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np
import pytest

from tamis_lab.experiment import SEEDS
from tamis_lab.intervals import Interval, bootstrap, exactly, share_interval
from tamis_lab.registry import EXPERIMENTS
from tamis_lab.rows import Row
from tamis_lab.verdicts import ClaimVerdict, Clause, Decision, Judge, above, all_above, all_below, below, between

JUDGES = {claim: judge for experiment in EXPERIMENTS.values() for claim, judge in experiment.claims.items()}
TESTABLE = {claim: judge for claim, judge in JUDGES.items() if judge.decide is not None}
FAULTS = [(claim, fault) for claim, judge in TESTABLE.items() for fault in judge.failing]


@pytest.mark.parametrize("claim", JUDGES)
def test_a_judge_states_its_rule_and_why(claim: str) -> None:
    judge = JUDGES[claim]
    assert judge.rule.endswith(".")
    assert judge.reason.endswith(".")
    assert judge.paper_value
    assert bool(judge.failing) == (judge.decide is not None)
    for change in judge.history:
        assert change.date >= "2026-11-16"
        assert change.old_rule != judge.rule
        assert change.old_verdict
        assert change.reason


def test_only_what_another_paper_measured_is_not_testable() -> None:
    assert JUDGES.keys() - TESTABLE.keys() == {"M12"}
    assert JUDGES["M12"].judge([]).verdict is ClaimVerdict.NOT_TESTABLE


@pytest.mark.parametrize("claim", TESTABLE)
def test_a_judge_can_say_yes(claim: str) -> None:
    judge = TESTABLE[claim]
    assert judge.judge(judge.passing()).verdict is judge.best, judge.judge(judge.passing())


@pytest.mark.parametrize("claim", TESTABLE)
def test_what_a_judge_says_is_whole(claim: str) -> None:
    """A second line that is not joined to the first leaves half a sentence."""
    judge = TESTABLE[claim]
    assert judge.decide is not None
    decision = judge.decide(judge.passing())
    assert decision.our_value == decision.our_value.strip()
    assert not decision.remark or decision.remark.endswith(".")


@pytest.mark.parametrize(("claim", "fault"), FAULTS)
def test_a_judge_says_no_to(claim: str, fault: str) -> None:
    judge = TESTABLE[claim]
    spoiled = [judge.failing[fault](row) for row in judge.passing()]
    assert judge.judge(spoiled).verdict is ClaimVerdict.NOT_HELD, judge.judge(spoiled)


@pytest.mark.parametrize("claim", TESTABLE)
def test_every_clause_has_a_fault_that_breaks_it(claim: str) -> None:
    """No clause is only for show: for each of them some fault makes it fail."""
    judge = TESTABLE[claim]
    assert judge.decide is not None
    clauses = judge.decide(judge.passing()).clauses
    broken = {
        place
        for fault in judge.failing.values()
        for place, clause in enumerate(judge.decide([fault(row) for row in judge.passing()]).clauses)
        if clause.holds is not True
    }
    assert broken == set(range(len(clauses))), [clauses[place].seen for place in set(range(len(clauses))) - broken]


#: How far rows go from those that hold (0) to those of a fault (1): some faults are far from the threshold.
WAYS = (0.0, *np.geomspace(1e-6, 1.0, 120).tolist())
#: How much further than the mean of all each seed goes, in turn.
APART = (0.5, 1.5)
#: The most steps from a clause that holds to one that fails where seeds hardly differ: a factor of 3 at most.
CLOSE = 10
#: Clauses that no fault makes false: where the rows of Z11 cannot tell, the claim is undecided.
NEVER_FALSE = {("Z11", 1)}


def clauses_on_the_way(judge: Judge, fault: str, way: float, apart: Sequence[float] = (1.0,)) -> Sequence[Clause]:
    """Return the clauses that a judge sees in rows that are part of the way from those that hold to a fault."""
    assert judge.decide is not None
    rows = []
    for row in judge.passing():
        spoiled = judge.failing[fault](row)
        share = min(1.0, way * apart[row.get("seed", 0) % len(apart)])
        changed = {name: value for name, value in spoiled.items() if row[name] != value}
        numbers = {name: value for name, value in changed.items() if not isinstance(value, bool | str)}
        moved = {name: row[name] + share * (value - row[name]) for name, value in numbers.items()}
        rows.append({**row, **(changed if share == 1.0 else moved)})
    return judge.decide(rows).clauses


@pytest.mark.parametrize("claim", TESTABLE)
def test_a_clause_holds_below_its_threshold_fails_above_it_and_is_open_where_seeds_disagree(claim: str) -> None:
    """Rows go step by step from those that hold to those of a fault, which crosses the threshold of a clause.

    A clause that no interval blurs (``exact``) has two sides and nothing between.
    """
    judge = TESTABLE[claim]
    assert judge.decide is not None
    clauses = judge.decide(judge.passing()).clauses
    ends = {fault: clauses_on_the_way(judge, fault, 1.0) for fault in judge.failing}
    for place in set(range(len(clauses))) - {place for name, place in NEVER_FALSE if name == claim}:
        fault = next(fault for fault, end in ends.items() if end[place].holds is False)

        def holds(step: int, apart: Sequence[float] = (1.0,)) -> bool | None:
            return clauses_on_the_way(judge, fault, WAYS[step], apart)[place].holds  # noqa: B023

        steps = range(len(WAYS))
        leaves = bisect.bisect_left(steps, True, key=lambda step: holds(step) is not True)
        fails = bisect.bisect_left(steps, True, key=lambda step: holds(step) is False)
        assert holds(leaves - 1) is True, clauses[place].seen
        assert holds(fails) is False, clauses[place].seen
        if clauses[place].exact:
            assert fails == leaves, clauses[place].seen
        else:
            assert fails - leaves <= CLOSE, clauses[place].seen
            between = {holds(step, APART) for step in range(leaves - 1, min(fails + 2, len(WAYS)))}
            assert None in between, clauses[place].seen


def test_fitted_names_its_parameters() -> None:
    assert {claim for claim, judge in JUDGES.items() if judge.fitted} == {"Z7", "Z8", "M9"}


@pytest.mark.parametrize(
    ("clauses", "fitted", "verdict"),
    [
        ((True, True), "", ClaimVerdict.HELD),
        ((True, True), "a length", ClaimVerdict.FITTED),
        ((True, None), "", ClaimVerdict.UNDECIDED),
        ((None, False), "", ClaimVerdict.NOT_HELD),
        ((True, False), "a length", ClaimVerdict.NOT_HELD),
    ],
)
def test_verdicts(clauses: Sequence[bool | None], fitted: str, verdict: ClaimVerdict) -> None:
    decision = Decision([Clause("x", holds) for holds in clauses], "ours")
    judge = Judge("A rule.", "A reason.", "theirs", decide=lambda _: decision, fitted=fitted)
    assert judge.judge([]).verdict is verdict


def test_an_interval_that_holds_the_limit_decides_nothing() -> None:
    wide = Interval(1.0, 2.0, 3.0)
    assert [above("x", wide, limit).holds for limit in (0.9, 1.0, 2.9, 3.0)] == [True, None, None, False]
    assert [below("x", wide, limit).holds for limit in (1.0, 1.1, 3.0, 3.1)] == [False, None, None, True]
    assert [between("x", wide, low, 3.0).holds for low in (1.0, 1.5, 3.5)] == [True, None, False]
    assert all_above("x", [exactly(5), wide], 1).holds is None
    assert all_above("x", [exactly(0), wide], 1).holds is False
    assert all_below("x", [exactly(0), wide], 4).holds is True
    assert all_below("x", [exactly(9), wide], 2).holds is False


def test_bootstrap_intervals_hold_the_mean_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    samples = rng.normal(5.0, 2.0, (400, SEEDS))
    ends = [bootstrap(sample.tolist()) for sample in samples]
    inside = np.mean([interval.low <= 5.0 <= interval.high for interval in ends])
    assert 0.88 < inside < 0.97  # 95 % in the limit of many seeds; somewhat less with 20
    assert bootstrap(samples[0].tolist()) == ends[0]


def test_intervals_that_are_read_together_hold_all_their_means_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(11)
    together = 8
    runs = rng.normal(0.0, 1.0, (40, together, SEEDS)).tolist()

    def holding(at_once: int) -> float:
        return float(np.mean([all(_holds_0(bootstrap(sample, at_once)) for sample in run) for run in runs]))

    assert holding(1) < 0.75 < 0.85 < holding(together)


def _holds_0(interval: Interval) -> bool:
    return interval.low <= 0 <= interval.high


def test_a_share_of_none_is_not_certain() -> None:
    none = share_interval(0, 1_000)
    assert none.low == 0.0
    assert 0.003 < none.high < 0.005
    assert share_interval(1_000, 1_000).high == 1.0


def _undecided(rows: Sequence[Row], name: str, factor: float) -> list[Row]:
    """Pull the seeds apart, so that the interval of a column holds 1."""
    return [{**row, name: row[name] * (factor if row["seed"] % 2 else 1 / factor)} for row in rows]


def test_seeds_that_disagree_leave_a_claim_undecided() -> None:
    judge = JUDGES["SP4"]
    rows = _undecided(judge.passing(), "ratio_seconds", 9.0)
    assert judge.judge(rows).verdict is ClaimVerdict.UNDECIDED


def test_a_share_that_depends_on_the_size_is_undecided_at_another_size() -> None:
    judge = JUDGES["D7"]
    rows = [{**row, "n": 1_000} for row in judge.passing()]
    assert judge.judge(rows).verdict is ClaimVerdict.UNDECIDED
