"""What a pipeline's report looks like on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tamis.cli.screen import make_table, output, shown

if TYPE_CHECKING:
    from tamis.spark.pipelines.report import Reason, Report
    from tamis.spark.reduction.reduce import ReductionCounts

__all__ = ["show_report", "show_top", "show_where"]

_TOP = 5


def show_report(report: Report) -> None:
    """Print the stages, where every row went, and what was refused."""
    console = output()
    console.say(f"\n{report.pipeline}", "bold")
    table = make_table("stage", "rows in", "rows out", "seconds", right=("rows in", "rows out", "seconds"))
    for stage in report.stages:
        table.add_row(stage.stage, _count(stage.rows_in), _count(stage.rows_out), f"{stage.seconds:.1f}")
    console.print(table)
    counts, events = report.subscriptions, report.events
    console.say(
        f"{counts.rows:,} subscriptions = {counts.accepted:,} accepted + {counts.rejected:,} rejected"
        f" + {counts.repeated:,} repeated"
    )
    console.say(f"{events.rows:,} events = {events.matched_input:,} matched + {events.quarantined:,} quarantined")
    console.say(f"{report.deliveries:,} deliveries")
    if report.reduction is not None:
        console.say(_carried(report.reduction))
    _show_quarantine("subscriptions", report.rejected_subscriptions)
    _show_quarantine("events", report.rejected_events)


def show_top(top: Sequence[tuple[object, int]], title: str) -> None:
    """Print the subscriptions with most deliveries."""
    console = output()
    console.say(f"\n{title}", "bold")
    table = make_table("subscription", "deliveries", right=("deliveries",))
    for id, count in top[:_TOP]:
        table.add_row(shown(id), f"{count:,}")
    console.print(table)


def show_where(report: Report) -> None:
    """Print the subscriptions with most deliveries, and where the files are."""
    if report.top:
        show_top(report.top, "Subscriptions with most deliveries")
    console = output()
    folder = report.output.partition("/run-")[0] if "://" in report.output else report.output
    console.say("\nWhere to look", "bold")
    for path, contents in (
        (f"{report.output}/deliveries", "who gets what, as Parquet"),
        (f"{report.output}/quarantine", "what was refused, each row with its reason"),
        (f"{folder}/report.json", "all of the above"),
        (report.snapshot, "the indexed subscriptions" + ("" if report.new_snapshot else ", unchanged")),
    ):
        console.say(f"  {path}  {contents}")


def _show_quarantine(subject: str, reasons: Sequence[Reason]) -> None:
    if not reasons:
        return
    console = output()
    console.say(f"\nQuarantined {subject}", "bold")
    table = make_table("rows", "reason", "for example", right=("rows",))
    for reason in reasons[:_TOP]:
        table.add_row(
            f"{reason.rows:,}", shown(reason.reason, 70), "" if reason.example is None else shown(reason.example, 24)
        )
    console.print(table)


def _carried(counts: ReductionCounts) -> str:
    """Return a sentence: how many subscriptions brokers must forward, and which rules removed the others."""
    rules = ("covered", "equivalent", "subsumed", "merged", "impossible")
    parts = ", ".join(f"{getattr(counts, rule):,} {rule}" for rule in rules if getattr(counts, rule))
    return f"{counts.after:,} of {counts.before:,} subscriptions must be forwarded to neighbours" + (
        f": {parts}" if parts else ""
    )


def _count(n: int | None) -> str:
    return "" if n is None else f"{n:,}"
