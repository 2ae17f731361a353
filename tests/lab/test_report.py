"""The report: made from rows alone, one page that needs nothing else, and the committed one is up to date."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tamis.errors import ModelError
from tamis_lab import registry
from tamis_lab.errata import ERRATA
from tamis_lab.experiment import Experiment
from tamis_lab.report.contents import gather
from tamis_lab.report.markdown import markdown_pages
from tamis_lab.report.practice import PRACTICE
from tamis_lab.report.writing import write_report
from tamis_lab.results import Results, Setting
from tamis_lab.running import here, run_experiments
from tamis_lab.scale import Scale
from tests.lab.toys import RAN

DOCS = Path(__file__).resolve().parents[2] / "docs" / "lab"
VOID = {"meta", "br", "img", "use", "path"}


class Page(HTMLParser):
    """Collects ids, links and what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "xlink:href", "src"):
                self.references.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()


@pytest.fixture
def written(toy: Experiment, results: Results) -> Results:
    list(run_experiments([toy], results, Setting(Scale.SMALL, 0), here))
    RAN.clear()
    write_report(results)
    return results


def test_nothing_is_computed_again(written: Results) -> None:
    assert RAN == []


def test_the_page_stands_alone(written: Results) -> None:
    text = (written.directory / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert "script" not in page.tags
    assert {"svg", "table"} <= page.tags
    assert all(reference.startswith("#") and reference[1:] in page.ids for reference in page.references)
    assert all(f"{name}" in page.ids for name in re.findall(r"url\(#([^)]+)\)", text))
    assert "prefers-color-scheme: dark" in text


def both_reports(results: Results) -> list[str]:
    """The HTML page, and the Markdown pages together."""
    pages = sorted(results.directory.glob("*.md"))
    assert [page.stem for page in pages] == sorted(["report", *registry.PAPERS])
    return [(results.directory / "report.html").read_text(), "\n".join(page.read_text() for page in pages)]


def test_both_reports_tell_what_was_found(written: Results) -> None:
    for text in both_reports(written):
        for words in (
            "T1",
            "more than 0",
            "12",
            "A sum.",
            "at a smaller scale than the paper",
            "seed 0",
            "Because it is a toy.",
            "It was another toy.",
        ):
            assert words in text
        assert all(erratum.test in text for erratum in ERRATA)
    assert "](toy-1.svg)" in (written.directory / "zcurve.md").read_text()
    assert (written.directory / "toy-1.png").exists()


def test_the_summary_says_what_held_and_what_the_rows_are(written: Results) -> None:
    page = (written.directory / "report.md").read_text()
    summary = page[page.index("## In two minutes") : page.index("## All claims")]
    assert "| [zcurve](zcurve.md) | T1 |  |  |  |  |" in summary
    assert re.search(r"Rows: 1 experiment, 1 of scale small, from commit [0-9a-f]{10}, seed 0\.", summary)
    assert all(sentence in summary for sentences in PRACTICE.values() for sentence in sentences)
    html = (written.directory / "report.html").read_text()
    assert html.index("In two minutes") < html.index('<a href="#T1">T1</a>') < html.index("All claims</h2>")


def test_a_directory_without_rows(results: Results) -> None:
    with pytest.raises(ModelError, match="holds no rows: run `tamis lab run all --out"):
        gather(results)


def _no_run(*_: object) -> list[dict[str, object]]:
    raise AssertionError("a report runs nothing")


def test_the_committed_report_is_made_from_the_committed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, experiment in list(registry.EXPERIMENTS.items()):
        monkeypatch.setitem(registry.EXPERIMENTS, name, replace(experiment, run=_no_run))
    contents = gather(Results(DOCS))
    assert contents.missing == []
    for name, page in markdown_pages(contents).items():
        assert page == (DOCS / name).read_text(encoding="utf-8"), name
    claims = {claim for each in registry.EXPERIMENTS.values() for claim in each.claims}
    waiting = {claim for claim, _ in contents.waiting}
    assert {finding.claim for finding in contents.findings} | waiting == claims


def test_rows_of_an_earlier_design_are_not_judged(
    toy: Experiment, written: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = replace(toy, design=toy.design + 1)
    monkeypatch.setitem(registry.EXPERIMENTS, "toy", changed)
    contents = gather(written)
    assert contents.findings == []
    assert contents.summary == "1 to be judged when their rows are made again"
    write_report(written)
    for text in both_reports(written):
        assert "rows must be made again" in text
        assert "The sum is above 0." in text
        assert "toy-1" not in text
    assert not written.is_done(changed, Setting(Scale.SMALL, 0))
    list(run_experiments([changed], written, Setting(Scale.SMALL, 0), here))
    assert len(gather(written).findings) == 1


def test_the_notebook_draws_from_the_committed_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS)
    cells = json.loads((DOCS / "figures.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), "figures.ipynb", "exec"), names)
    assert set(registry.EXPERIMENTS) == set(names["here"])  # type: ignore[call-overload]
    assert names["figures"]
    assert names["findings"]


def test_every_paper_says_what_to_do_with_it(written: Results) -> None:
    assert PRACTICE.keys() == registry.PAPERS.keys()
    for paper, sentences in PRACTICE.items():
        page = (written.directory / f"{paper}.md").read_text()
        assert all(sentence in page for sentence in sentences)
