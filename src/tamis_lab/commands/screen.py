"""Findings on the screen: a line per claim, and how many held; and the verdicts of two runs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tamis.cli.screen import make_table, output, shown

if TYPE_CHECKING:
    from tamis_lab.experiment import Finding
    from tamis_lab.report.comparison import ClaimComparison, RunComparison

__all__ = ["as_comparison_row", "as_row", "show_comparison", "show_findings"]

#: What the columns of claims and verdicts take.
_NARROW: Final = len("claim not testable ") + 2


def as_row(finding: Finding) -> dict[str, Any]:
    """Return a finding as one JSON object."""
    names = ("claim", "paper", "verdict", "paper_value", "our_value", "why", "rule", "experiment", "scale", "smaller")
    return {name: getattr(finding, name) for name in names}


def show_findings(findings: Sequence[Finding]) -> None:
    """Print the claims, what the paper says, what came out; then the reasons where a claim did not hold."""
    console = output()
    table = make_table("claim", "verdict", "the paper", "here")
    width = max(12, (console.width - _NARROW) // 2)  # on a narrow terminal the long texts give way, not the verdicts
    for finding in findings:
        numbers = (shown(text, width) for text in (finding.paper_value, finding.our_value))
        table.add_row(finding.claim, str(finding.verdict), *numbers)
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


def as_comparison_row(comparison: ClaimComparison) -> dict[str, Any]:
    """Return a claim of two runs as one JSON object; null where a run has no verdict."""
    verdicts = (None if finding is None else str(finding.verdict) for finding in (comparison.first, comparison.second))
    row = dict(zip(("first", "second"), verdicts, strict=True))
    return {"claim": comparison.claim, **row, "changed": comparison.changed, "allowed": comparison.allowed}


def show_comparison(comparison: RunComparison) -> None:
    """Print the claims whose verdicts differ between two runs, and whether the second repeats the first."""
    console = output()
    console.say(f"first:  {comparison.first_from}", "dim")
    console.say(f"second: {comparison.second_from}", "dim")
    changed = [each for each in comparison.claims if each.changed]
    table = make_table("claim", "first", "second", "")
    for each in changed:
        verdicts = ("no verdict" if finding is None else str(finding.verdict) for finding in (each.first, each.second))
        table.add_row(each.claim, *verdicts, _remark(each))
    if changed:
        console.print(table)
    for each in changed:
        for name, finding in (("first", each.first), ("second", each.second)):
            if finding is not None:
                console.say(f"{each.claim} {name}, {finding.verdict}: {finding.why}", "dim")
    remarks = Counter(_remark(each) for each in changed)
    parts = [f"{count} {_SUMMARY[remark]}" for remark, count in remarks.items()]
    console.say(", ".join([f"{len(comparison.claims)} claims", *(parts or ["no verdict changed"])]), "bold")


def _remark(comparison: ClaimComparison) -> str:
    if comparison.first is None or comparison.second is None:
        return "not judged in both"
    return "was undecided" if comparison.allowed else "MUST NOT CHANGE"


#: What the last line says of the claims with a remark.
_SUMMARY: Final = {
    "not judged in both": "without a verdict in one run",
    "was undecided": "changed that were undecided",
    "MUST NOT CHANGE": "changed that were decided",
}
