"""Findings on the screen: a line per claim, and how many held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tamis.cli.screen import make_table, output, plain

if TYPE_CHECKING:
    from tamis.lab.experiment import Finding

__all__ = ["as_row", "show_findings"]


def as_row(finding: Finding) -> dict[str, Any]:
    """Return a finding as one JSON object."""
    names = ("claim", "paper", "verdict", "paper_value", "our_value", "why", "experiment", "scale", "smaller")
    return {name: getattr(finding, name) for name in names}


def show_findings(findings: Sequence[Finding]) -> None:
    """Print the claims, what the paper says, what came out; then the reasons where a claim did not hold."""
    console = output()
    table = make_table("claim", "verdict", "the paper", "here")
    for column, width in zip(table.columns, (5, len("not testable")), strict=False):
        column.min_width = width  # on a narrow terminal the long texts give way, not these
    for finding in findings:
        table.add_row(finding.claim, str(finding.verdict), plain(finding.paper_value), plain(finding.our_value))
    if findings:
        console.print(table)
    for finding in findings:
        if finding.verdict != "held":
            console.say(f"{finding.claim} {finding.verdict}: {finding.why}", "dim")
    counts = Counter(str(finding.verdict) for finding in findings)
    console.say(
        ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "no claims in these experiments"
    )
    smaller = [finding.claim for finding in findings if finding.smaller]
    if smaller:
        console.say(f"at a smaller scale than the papers' (--scale paper): {' '.join(smaller)}", "dim")
