"""The result of a reduction, for programs and for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tamis.model.subscription import Subscription, SubscriptionId

__all__ = ["Reduction"]

#: Rows of each kind that the text report lists, and ids in one row.
MAX_ROWS, MAX_IDS = 20, 8


@dataclass(frozen=True, slots=True)
class Reduction:
    """The subscriptions that remain, and why the others need not be forwarded.

    Every id of the input is in exactly one of ``kept``, ``covered``, ``equivalent``, ``subsumed``,
    ``impossible`` and the values of ``merged``. The ids on the right hand side remain: they are in
    ``kept`` or are keys of ``merged``. ``subscriptions`` are those that remain, simplified; their union
    matches exactly what all of the input matched. An id that occurs in several namespaces is shown as
    ``namespace/id``. ``undecided`` are those of ``kept`` and of the values of ``merged`` that others may cover: the
    budget of the proof ran out.
    """

    before: int
    kept: tuple[SubscriptionId, ...]
    covered: Mapping[SubscriptionId, SubscriptionId]
    equivalent: Mapping[SubscriptionId, SubscriptionId]
    subsumed: Mapping[SubscriptionId, tuple[SubscriptionId, ...]]
    merged: Mapping[SubscriptionId, tuple[SubscriptionId, ...]]
    impossible: tuple[SubscriptionId, ...]
    subscriptions: Sequence[Subscription]
    undecided: tuple[SubscriptionId, ...] = ()

    @property
    def after(self) -> int:
        """The number of subscriptions that remain."""
        return len(self.subscriptions)

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain lists and dicts."""
        return {
            "before": self.before,
            "kept": list(self.kept),
            "covered": dict(self.covered),
            "equivalent": dict(self.equivalent),
            "subsumed": {id: list(by) for id, by in self.subsumed.items()},
            "merged": {id: list(ids) for id, ids in self.merged.items()},
            "impossible": list(self.impossible),
            "undecided": list(self.undecided),
        }

    def report(self) -> str:
        """Return the result as text: the number that remain, and the reason for each of the others."""
        share = f" ({self.after / self.before:.0%})" if self.before else ""
        lines = [
            f"{self.before:,} subscriptions -> {self.after:,}{share}",
            "",
            f"{'kept as they are':<28}{len(self.kept):>8,}",
            f"{'merged into ' + format(len(self.merged), ','):<28}{sum(map(len, self.merged.values())):>8,}",
            f"{'covered by another':<28}{len(self.covered):>8,}",
            f"{'equivalent to another':<28}{len(self.equivalent):>8,}",
            f"{'subsumed by several':<28}{len(self.subsumed):>8,}",
            f"{'can never match':<28}{len(self.impossible):>8,}",
        ]
        if self.undecided:
            lines.append(f"{'not decided (see below)':<28}{len(self.undecided):>8,}")
        lines += _section("covered", (f"{id} by {by}" for id, by in self.covered.items()))
        lines += _section("equivalent", (f"{id} to {by}" for id, by in self.equivalent.items()))
        lines += _section("subsumed", (f"{id} by {_listed(by)}" for id, by in self.subsumed.items()))
        lines += _section("merged", (f"{id} from {_listed(ids)}" for id, ids in self.merged.items()))
        lines += _section("can never match", (str(id) for id in self.impossible))
        lines += _section("kept, since the proof ran out of its budget", (str(id) for id in self.undecided))
        return "\n".join(lines)


def _section(title: str, rows: Iterable[str]) -> list[str]:
    listed = list(rows)
    if not listed:
        return []
    more = [f"  ... and {len(listed) - MAX_ROWS:,} more"] if len(listed) > MAX_ROWS else []
    return ["", title, *(f"  {row}" for row in listed[:MAX_ROWS]), *more]


def _listed(ids: Sequence[SubscriptionId]) -> str:
    """Return ids as one line of text; of many only the first.

    >>> _listed(range(1_000))
    '0, 1, 2, 3, 4, 5, 6, 7 and 992 more'
    """
    text = ", ".join(str(id) for id in ids[:MAX_IDS])
    return text if len(ids) <= MAX_IDS else f"{text} and {len(ids) - MAX_IDS:,} more"
