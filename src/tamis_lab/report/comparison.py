"""The verdicts of two runs side by side: a claim that one run decided must be decided the same way by another.

The rows of both runs are judged by the present rules. What the first run left undecided may come out either way in the
second; every other verdict must stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tamis.errors import ModelError
from tamis_lab.experiment import Finding
from tamis_lab.registry import EXPERIMENTS
from tamis_lab.results import KeptComparison, Results, origin_of
from tamis_lab.running import judge
from tamis_lab.verdicts import ClaimVerdict

__all__ = ["ClaimComparison", "RunComparison", "compare_findings", "compare_runs", "keep"]


class ClaimComparison(NamedTuple):
    """A claim, and its finding in each of two runs; None where a run has no rows to judge it by."""

    claim: str
    first: Finding | None
    second: Finding | None

    @property
    def changed(self) -> bool:
        """Whether the two runs differ."""
        return _verdict(self.first) != _verdict(self.second)

    @property
    def allowed(self) -> bool:
        """Whether both runs have a verdict, and the second repeats the first or decides what the first left open."""
        if self.first is None or self.second is None:
            return False
        return self.first.verdict in (ClaimVerdict.UNDECIDED, self.second.verdict)


class RunComparison(NamedTuple):
    """All claims of two runs, and what the rows of each come from."""

    claims: Sequence[ClaimComparison]
    first_from: str
    second_from: str

    @property
    def repeats(self) -> bool:
        """Whether no verdict changed but undecided ones."""
        return all(each.allowed for each in self.claims)


def compare_runs(first: Results, second: Results) -> RunComparison:
    """Judge the rows of two directories and compare the verdicts claim by claim.

    Raises `ModelError` where one of them holds no rows, or where an experiment has rows of one scale here and of
    another there: those are two questions.
    """
    experiments = [experiment for experiment in EXPERIMENTS.values() if experiment.claims]
    for results in (first, second):
        if not any(results.has(experiment) for experiment in experiments):
            raise ModelError(f"{results.directory} holds no rows: run `tamis lab run all --out {results.directory}`")
    for experiment in experiments:
        if first.has(experiment) and second.has(experiment):
            scales = [results.manifest(experiment).scale for results in (first, second)]
            if scales[0] is not scales[1]:
                raise ModelError(
                    f"the rows of {experiment.name} are of scale {scales[0]} in {first.directory} and of scale "
                    f"{scales[1]} in {second.directory}: runs of one scale can be compared"
                )
    claims = compare_findings(judge(experiments, first), judge(experiments, second))
    return RunComparison(claims, _origin(first), _origin(second))


def compare_findings(first: Sequence[Finding], second: Sequence[Finding]) -> list[ClaimComparison]:
    """Return all claims of either run, in the order of the first."""
    of_first, of_second = ({finding.claim: finding for finding in findings} for findings in (first, second))
    return [ClaimComparison(claim, of_first.get(claim), of_second.get(claim)) for claim in of_first | of_second]


def keep(comparison: RunComparison, results: Results) -> None:
    """Write what the first run says beside the rows of the second, so that its report says so."""
    of_first = {each.claim: _verdict(each.first) for each in comparison.claims}
    of_second = {each.claim: _verdict(each.second) for each in comparison.claims}
    results.write_comparison(KeptComparison(comparison.first_from, of_first, of_second))


def _verdict(finding: Finding | None) -> str | None:
    return None if finding is None else str(finding.verdict)


def _origin(results: Results) -> str:
    experiments = [experiment for experiment in EXPERIMENTS.values() if experiment.claims and results.has(experiment)]
    return origin_of([results.manifest(experiment) for experiment in experiments])
