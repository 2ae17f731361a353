"""The quick experiments, whole and small; all of them in `make soak`."""

from __future__ import annotations

import pytest

from tamis_lab.registry import EXPERIMENTS, find_experiments
from tamis_lab.report.writing import write_report
from tamis_lab.results import Results, Setting
from tamis_lab.running import here, judge, run_experiments
from tamis_lab.scale import Scale
from tamis_lab.verdicts import ClaimVerdict

QUICK = ("z-cubes", "z-plateau", "rp-one-projection", "rp-error")
#: What the papers got wrong, or right, whatever the scale.
EXPECTED = {
    "Z1": ClaimVerdict.HELD,
    "Z3": ClaimVerdict.HELD,
    "Z4": ClaimVerdict.HELD,
    "Z5": ClaimVerdict.HELD,
    "Z10": ClaimVerdict.HELD,
    "RP1": ClaimVerdict.HELD,
    "RP2": ClaimVerdict.NOT_HELD,
    "RP3": ClaimVerdict.NOT_HELD,
    "RP4": ClaimVerdict.HELD,
    "RP7": ClaimVerdict.NOT_HELD,
}


def test_quick_ones(results: Results) -> None:
    experiments = find_experiments(QUICK)
    list(run_experiments(experiments, results, Setting(Scale.SMALL, 0), here))
    verdicts = {finding.claim: finding.verdict for finding in judge(experiments, results)}
    assert {claim: verdicts[claim] for claim in EXPECTED} == EXPECTED


@pytest.mark.soak
def test_lab_all_small(results: Results) -> None:
    list(run_experiments(list(EXPERIMENTS.values()), results, Setting(Scale.SMALL, 0), here))
    _, findings = write_report(results)
    assert {finding.claim for finding in findings} == {c for each in EXPERIMENTS.values() for c in each.claims}
    untestable = [finding.claim for finding in findings if finding.verdict is ClaimVerdict.NOT_TESTABLE]
    assert untestable == ["M12"]
