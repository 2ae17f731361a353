"""Verdicts, and the judges that give them.

A judge states its rule before the run: what must be the case, why that, and what the paper has. It is an object with
examples of its own: made-up rows on which the claim holds, and ways to spoil them, one for each clause of the rule,
on which it must not. A rule that was changed keeps the old one in its history, with the verdict it gave.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tamis_lab.intervals import Interval
from tamis_lab.rows import Row, Rows

__all__ = [
    "Change",
    "ClaimVerdict",
    "Clause",
    "Decision",
    "Judge",
    "Outcome",
    "above",
    "all_above",
    "all_below",
    "below",
    "between",
    "certain",
]


class ClaimVerdict(enum.StrEnum):
    """The outcome of a claim that was judged by its rule."""

    HELD = "held"
    FITTED = "fitted"
    NOT_HELD = "not held"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable"


class Clause(NamedTuple):
    """One part of a rule: what was seen, and whether it is as it must be; None if the interval holds the threshold.

    ``exact`` says that no interval blurs it: rows decide it either way.
    """

    seen: str
    holds: bool | None
    exact: bool = False


class Decision(NamedTuple):
    """What a judge sees in rows: every clause of its rule, our number, and a remark that decides nothing."""

    clauses: Sequence[Clause]
    our_value: str
    remark: str = ""


class Change(NamedTuple):
    """A rule that was replaced: when, what it was, the verdict that it gave, and why it was replaced."""

    date: str
    old_rule: str
    old_verdict: str
    reason: str


class Outcome(NamedTuple):
    """What a judge says: the verdict, the paper's number, ours, and what was seen clause by clause."""

    verdict: ClaimVerdict
    paper_value: str
    our_value: str
    why: str


@dataclass(frozen=True)
class Judge:
    """Decides one claim from the rows alone.

    ``passing`` makes up rows on which the claim holds. Each entry of ``failing`` names a fault and puts it into a row;
    with the fault in every row the verdict must be *not held*. ``fitted`` names the parameters that were chosen so
    that the numbers fit: where it is not empty, the best verdict is *fitted*. Without ``decide`` the claim is not
    testable here, and ``reason`` says why.
    """

    rule: str
    reason: str
    paper_value: str
    decide: Callable[[Rows], Decision] | None = None
    passing: Callable[[], Rows] = list
    failing: Mapping[str, Callable[[Row], Row]] = field(default_factory=dict)
    fitted: str = ""
    history: tuple[Change, ...] = ()

    @property
    def best(self) -> ClaimVerdict:
        """The verdict when every clause holds."""
        return ClaimVerdict.FITTED if self.fitted else ClaimVerdict.HELD

    def judge(self, rows: Rows) -> Outcome:
        """Return the verdict on these rows."""
        if self.decide is None:
            return Outcome(ClaimVerdict.NOT_TESTABLE, self.paper_value, "", self.reason)
        decision = self.decide(rows)
        seen = "; ".join(f"{clause.seen}: {_WORDS[clause.holds]}" for clause in decision.clauses)
        why = f"{seen}. {decision.remark}".strip()
        return Outcome(self._verdict(decision.clauses), self.paper_value, decision.our_value, why)

    def _verdict(self, clauses: Iterable[Clause]) -> ClaimVerdict:
        holds = [clause.holds for clause in clauses]
        if False in holds:
            return ClaimVerdict.NOT_HELD
        return ClaimVerdict.UNDECIDED if None in holds else self.best


_WORDS = {True: "yes", False: "no", None: "undecided"}


def certain(seen: str, holds: bool) -> Clause:
    """Return a clause that no interval blurs."""
    return Clause(seen, bool(holds), exact=True)


def above(name: str, value: Interval, limit: float, form: str = ".3g") -> Clause:
    """Return the clause that a value is above a limit.

    >>> [above("x", Interval(1, 2, 3), limit).holds for limit in (0.5, 2.5, 4)]
    [True, None, False]
    """
    return all_above(name, [value], limit, form)


def below(name: str, value: Interval, limit: float, form: str = ".3g") -> Clause:
    """Return the clause that a value is below a limit."""
    return all_below(name, [value], limit, form)


def all_above(name: str, values: Sequence[Interval], limit: float, form: str = ".3g") -> Clause:
    """Return the clause that every value is above a limit; it shows the least one."""
    least = min(values, key=lambda value: value.low)
    fails, holds = any(value.high <= limit for value in values), all(value.low > limit for value in values)
    return Clause(f"{name} {least:{form}} > {limit:{form}}", False if fails else holds or None)


def all_below(name: str, values: Sequence[Interval], limit: float, form: str = ".3g") -> Clause:
    """Return the clause that every value is below a limit; it shows the greatest one."""
    greatest = max(values, key=lambda value: value.high)
    fails, holds = any(value.low >= limit for value in values), all(value.high < limit for value in values)
    return Clause(f"{name} {greatest:{form}} < {limit:{form}}", False if fails else holds or None)


def between(name: str, value: Interval, low: float, high: float, form: str = ".3g") -> Clause:
    """Return the clause that a value lies between two limits, both included.

    >>> [between("x", Interval(1, 2, 3), *limits).holds for limits in ((0, 4), (2, 4), (5, 9))]
    [True, None, False]
    """
    inside, outside = low <= value.low and value.high <= high, value.high < low or value.low > high
    return Clause(f"{name} {value:{form}} in {low:{form}} to {high:{form}}", False if outside else inside or None)
