"""What stands in a report: by paper, the experiments with their findings and pictures; and the errors of the papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tamis.errors import ModelError
from tamis_lab.errata import ERRATA, Erratum
from tamis_lab.experiment import Experiment, Finding
from tamis_lab.registry import EXPERIMENTS, PAPERS
from tamis_lab.report.practice import PRACTICE
from tamis_lab.results import KeptComparison, ResultManifest, Results, origin_of
from tamis_lab.verdicts import ClaimVerdict, Judge

__all__ = ["Chapter", "Contents", "Section", "gather", "how_large", "made_from", "statement"]

_SMALLER: Final = "at a smaller scale than the paper's"


@dataclass(frozen=True)
class Section:
    """One experiment: what came of its claims, and its pictures as SVG files.

    ``outdated`` says that the rows are of an earlier design of the experiment: nothing is judged by them.
    """

    experiment: Experiment
    manifest: ResultManifest
    findings: Sequence[Finding]
    lesson: str
    pictures: Sequence[Path]
    outdated: bool = False


@dataclass(frozen=True)
class Chapter:
    """One paper: its experiments that were run, what to do with it in practice, and its errors."""

    paper: str
    title: str
    sections: Sequence[Section]
    errata: Sequence[Erratum]
    practice: Sequence[str] = ()

    @property
    def claims(self) -> dict[ClaimVerdict, list[str]]:
        """The claims of the paper by verdict."""
        findings = [finding for section in self.sections for finding in section.findings]
        return {verdict: [each.claim for each in findings if each.verdict is verdict] for verdict in ClaimVerdict}


@dataclass(frozen=True)
class Contents:
    """All of a report; ``missing`` names the experiments without rows."""

    chapters: Sequence[Chapter]
    missing: Sequence[str]
    comparison: KeptComparison | None = None

    @property
    def findings(self) -> list[Finding]:
        """The findings on every claim, in the order of the report."""
        return [f for chapter in self.chapters for section in chapter.sections for f in section.findings]

    @property
    def summary(self) -> str:
        """How many claims held, in a line."""
        counts = Counter(finding.verdict for finding in self.findings)
        parts = [f"{counts[verdict]} {verdict}" for verdict in ClaimVerdict if counts[verdict]]
        waiting = len(self.waiting)
        return ", ".join([*parts, f"{waiting} to be judged when their rows are made again"] if waiting else parts)

    @property
    def origin(self) -> str:
        """What all rows come from: commits, seeds, and the experiments of each scale."""
        return origin_of([section.manifest for chapter in self.chapters for section in chapter.sections])

    @property
    def other_run(self) -> str:
        """What another run says, in a sentence; "" if none was compared.

        Raises `ModelError` where the verdicts of this directory are not those that were compared.
        """
        if self.comparison is None:
            return ""
        here = {finding.claim: str(finding.verdict) for finding in self.findings}
        if self.comparison.here != here:
            raise ModelError("the verdicts changed since they were compared: run `tamis lab compare --keep` again")
        compared = {claim: verdict for claim, verdict in self.comparison.verdicts.items() if verdict is not None}
        differences = [
            f"{claim} ({verdict} there, {here[claim]} here)"
            for claim, verdict in compared.items()
            if verdict != here[claim]
        ]
        sentence = f"the same on {len(compared) - len(differences)} of {len(compared)} claims"
        sentence += f", but not on {', '.join(differences)}" if differences else ""
        missing = len(here) - len(compared)
        return f"{sentence}; {missing} more have no verdict there" if missing else sentence

    @property
    def waiting(self) -> list[tuple[str, Judge]]:
        """The claims whose rows are of an earlier design, with their judges."""
        sections = [section for chapter in self.chapters for section in chapter.sections if section.outdated]
        return [pair for section in sections for pair in section.experiment.claims.items()]


def gather(results: Results) -> Contents:
    """Return the contents of a report on a directory of results.

    Raises `ModelError` with the command to run when the directory has no rows.
    """
    present = [experiment for experiment in EXPERIMENTS.values() if results.has(experiment)]
    if not present:
        raise ModelError(f"{results.directory} holds no rows: run `tamis lab run all --out {results.directory}` first")
    chapters = [
        Chapter(
            paper,
            title,
            [_section(experiment, results) for experiment in present if experiment.paper == paper],
            [erratum for erratum in ERRATA if erratum.paper == paper],
            PRACTICE.get(paper, ()),
        )
        for paper, title in PAPERS.items()
    ]
    missing = [experiment.name for experiment in EXPERIMENTS.values() if experiment not in present]
    return Contents(chapters, missing, results.comparison())


def _section(experiment: Experiment, results: Results) -> Section:
    manifest = results.manifest(experiment)
    numbered = [results.picture(experiment, number) for number in range(1, len(experiment.charts) + 1)]
    if not results.is_current(experiment):
        return Section(experiment, manifest, [], "", [], outdated=True)
    rows = results.read(experiment)
    return Section(
        experiment,
        manifest,
        experiment.judge(rows, manifest.scale),
        experiment.lesson(rows) if experiment.lesson else "",
        numbered,
    )


def statement(judge: Judge) -> list[tuple[str, str]]:
    """Return what a judge states before the run: labels and sentences."""
    lines = [("rule", judge.rule), ("why this rule", judge.reason)]
    if judge.fitted:
        lines.append(("chosen to fit", f"{judge.fitted}."))
    if judge.failing:
        lines.append(("says no to made-up rows with", f"{'; '.join(judge.failing)}."))
    for change in judge.history:
        text = f"The rule was: {change.old_rule}. Its verdict: {change.old_verdict}. {change.reason}"
        lines.append((f"changed on {change.date}", text))
    return lines


def how_large(finding: Finding) -> str:
    """Return the scale that a finding was judged at, as a reader needs it; "" where it is that of the paper."""
    if finding.verdict is ClaimVerdict.NOT_TESTABLE:
        return ""
    return _SMALLER if finding.smaller else f"at scale {finding.scale}" if finding.scale == "beyond" else ""


def made_from(manifest: ResultManifest) -> str:
    """Return in a line what rows came from."""
    commit = f", commit {manifest.commit[:10]}" if manifest.commit else ""
    return (
        f"{manifest.n_rows:,} rows, scale {manifest.scale}, seed {manifest.seed}; tamis {manifest.tamis}{commit}, "
        f"Python {manifest.python}, NumPy {manifest.numpy}, {manifest.machine}, "
        f"{manifest.finished[:10]}"
    )
