"""The report as Markdown pages: a summary and one for each paper; pictures are links to files beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tamis_lab.errata import Erratum
from tamis_lab.experiment import Finding
from tamis_lab.report.contents import Chapter, Contents, Section, how_large, made_from, statement
from tamis_lab.verdicts import ClaimVerdict, Judge

__all__ = ["markdown_pages"]


def markdown_pages(contents: Contents) -> dict[str, str]:
    """Return the report by file name: a summary with all claims, and a page for each paper."""
    pages = {f"{chapter.paper}.md": _chapter(chapter) for chapter in contents.chapters}
    lines = {"report.md": _summary(contents), **pages}
    return {name: "\n".join(page) + "\n" for name, page in lines.items()}


def _summary(contents: Contents) -> Iterator[str]:
    yield "# The papers, run again"
    yield ""
    yield f"Claims: {contents.summary}."
    yield ""
    yield "## In two minutes"
    yield ""
    heads = ("paper", *map(str, ClaimVerdict))
    yield from _table(heads, [_in_a_line(chapter) for chapter in contents.chapters])
    yield f"Rows: {contents.origin}."
    if contents.comparison is not None:
        yield f"Another run ({contents.comparison.other}): {contents.other_run}."
    yield ""
    for chapter in contents.chapters:
        yield from (f"- **{chapter.paper}**: {sentence}" for sentence in chapter.practice)
    yield ""
    yield "## All claims"
    yield ""
    yield "Written by `tamis lab report` from the rows beside this page and the rules of judges. Brackets are 95 %"
    yield "intervals over seeds. Times are processor times, compared as ratios. What a paper states is quoted. The page"
    yield "of a paper has rules, figures and errors; the numbers of an error are those of the tests beside it."
    yield ""
    yield from _table(("claim", "verdict", "the paper", "here"), [_brief(each) for each in contents.findings])
    yield from _not_judged(contents)


def _not_judged(contents: Contents) -> Iterator[str]:
    """Yield the claims and experiments without a verdict."""
    if contents.waiting:
        yield "Rows of an earlier design, made before the rules of these claims changed; no verdict until they are run"
        yield "again with `tamis lab run NAME --scale paper --again`:"
        yield ""
        waiting = [(claim, judge.paper_value, _last_verdict(judge)) for claim, judge in contents.waiting]
        yield from _table(("claim", "the paper", "verdict of the earlier rule"), waiting)
    if contents.missing:
        yield f"Not run in this directory: {', '.join(contents.missing)}."
        yield ""


def _in_a_line(chapter: Chapter) -> list[str]:
    return [f"[{chapter.paper}]({chapter.paper}.md)", *(" ".join(claims) for claims in chapter.claims.values())]


def _brief(finding: Finding) -> tuple[str, ...]:
    scale = how_large(finding)
    verdict = f"{finding.verdict} ({scale})" if scale else str(finding.verdict)
    return finding.claim, verdict, finding.paper_value, finding.our_value


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f"# {chapter.paper}"
    yield ""
    yield f"{chapter.title}. [All papers](report.md)."
    yield ""
    if chapter.practice:
        yield "In practice:"
        yield ""
        yield from (f"- {sentence}" for sentence in chapter.practice)
        yield ""
    for section in chapter.sections:
        yield from _section(section)
    if chapter.errata:
        yield "## Errors in this paper"
        yield ""
        yield from _table(("", "the paper", "what is the case", "test"), [_erratum(each) for each in chapter.errata])


def _section(section: Section) -> Iterator[str]:
    experiment = section.experiment
    yield f"## {experiment.name}: {experiment.figure}"
    yield ""
    yield experiment.set_up
    yield ""
    for reading in experiment.readings:
        yield f"- Reading: {reading}"
    if experiment.readings:
        yield ""
    for finding in section.findings:
        yield from _finding(finding, experiment.claims[finding.claim])
    if section.outdated:
        for claim, judge in experiment.claims.items():
            yield f"**{claim}: rows must be made again**. The rows beside this page are of an earlier design."
            yield ""
            yield from _statement(judge)
    if section.lesson:
        yield section.lesson
        yield ""
    for picture, chart in zip(section.pictures, experiment.charts, strict=False):  # none of outdated rows
        yield f"![{chart.title}]({picture.name})"
        yield ""
    yield f"<sub>{made_from(section.manifest)}</sub>"
    yield ""


def _last_verdict(judge: Judge) -> str:
    return judge.history[-1].old_verdict if judge.history else "rule unchanged, more seeds"


def _statement(judge: Judge) -> Iterator[str]:
    yield from (f"- {label}: {text}" for label, text in statement(judge))
    yield ""


def _finding(finding: Finding, judge: Judge) -> Iterator[str]:
    scale = how_large(finding)
    yield f"**{finding.claim}: {finding.verdict}**{f' ({scale})' if scale else ''}. {finding.why}"
    yield ""
    yield f"- the paper: {finding.paper_value}"
    if finding.our_value:
        yield f"- here: {finding.our_value}"
    yield from _statement(judge)


def _erratum(erratum: Erratum) -> tuple[str, ...]:
    tests = ", ".join(f"`{test}`" for test in erratum.tests)
    return erratum.item, erratum.stated, erratum.shown, tests


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""
