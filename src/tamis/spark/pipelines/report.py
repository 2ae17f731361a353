"""The report of a run: stages with times, where every row went, the top subscriptions, what was refused and why."""

from __future__ import annotations

from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tamis.errors import InvariantError
from tamis.spark.reduction.reduce import ReductionCounts

__all__ = ["EventCounts", "Reason", "Report", "Stage", "SubscriptionCounts", "reasons_in", "top_subscriptions"]

#: Rows that a report names; the files have them all.
_NAMED = 10


class Stage(msgspec.Struct):
    """A step of a run; rows are None where a step has none."""

    stage: str
    rows_in: int | None = None
    rows_out: int | None = None
    seconds: float = 0.0


class SubscriptionCounts(msgspec.Struct, frozen=True):
    """Where every row of the subscriptions went: ``rows = accepted + rejected + repeated``."""

    rows: int
    accepted: int
    rejected: int
    repeated: int

    def check(self) -> None:
        """Raise `InvariantError` when a row was lost."""
        if self.rows != self.accepted + self.rejected + self.repeated:
            _lost("a row of the subscriptions was lost", self)


class EventCounts(msgspec.Struct, frozen=True):
    """Where every event went: ``rows = matched_input + quarantined``.

    ``entered`` is what the matcher itself saw come in, counted while it matched.
    """

    rows: int
    entered: int
    matched_input: int
    quarantined: int
    #: Of those quarantined, the records that could not become an event at all.
    unreadable: int

    def check(self) -> None:
        """Raise `InvariantError` when an event was lost."""
        whole = self.rows == self.matched_input + self.quarantined
        if not whole or self.rows != self.entered + self.unreadable or self.matched_input < 0:
            _lost("an event was lost", self)


class Reason(msgspec.Struct, frozen=True):
    """Why rows were refused: how many for this reason, and one of them."""

    reason: str
    rows: int
    example: str | int | None


class Report(msgspec.Struct, frozen=True):
    """A run that is done."""

    tamis: str
    pipeline: str
    stages: list[Stage]
    subscriptions: SubscriptionCounts
    events: EventCounts
    deliveries: int
    #: (subscription, deliveries), the most first.
    top: list[tuple[str | int, int]]
    rejected_subscriptions: list[Reason]
    rejected_events: list[Reason]
    output: str
    snapshot: str
    #: Tells accepted subscriptions and their schema apart from any others.
    fingerprint: str
    #: Whether this run made the snapshot's version; False when the subscriptions had not changed.
    new_snapshot: bool
    #: What links have to carry, when the pipeline asks for it.
    reduction: ReductionCounts | None = None

    def to_bytes(self) -> bytes:
        """Return the report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def top_subscriptions(deliveries: DataFrame) -> list[tuple[str | int, int]]:
    """Return the subscriptions with most deliveries."""
    counted = deliveries.groupBy("subscription_id").agg(F.count(F.lit(1)).alias("n"))
    rows = counted.orderBy(F.desc("n"), "subscription_id").take(_NAMED)
    return [(row["subscription_id"], row["n"]) for row in rows]


def reasons_in(quarantine: DataFrame, id: str) -> list[Reason]:
    """Return the reasons in a quarantine, the most frequent first."""
    grouped = quarantine.groupBy(_kind_of_reason().alias("reason")).agg(
        F.count(F.lit(1)).alias("rows"), F.min(id).alias("example")
    )
    rows = grouped.orderBy(F.desc("rows"), "reason").take(_NAMED)
    return [Reason(row["reason"], row["rows"], _plain(row["example"])) for row in rows]


def _kind_of_reason() -> Column:
    """Return the first line of a reason, without the value that was met: what many rows share."""
    first = F.substring_index("reason", "\n", 1)
    return F.regexp_replace(F.regexp_replace(first, r" \(got .*", ""), r",? at column \d+.*$", "")


def _plain(value: Any) -> str | int | None:
    return value if value is None or (isinstance(value, str | int) and not isinstance(value, bool)) else str(value)


def _lost(subject: str, counts: msgspec.Struct) -> None:
    story = [f"{name}: {value:,}" for name, value in msgspec.to_builtins(counts).items()]
    raise InvariantError(subject, story)
