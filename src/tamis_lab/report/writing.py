"""Writes the report of a directory of results into it; draws pictures that are missing, computes nothing else."""

from __future__ import annotations

from pathlib import Path

from tamis_lab.experiment import Finding
from tamis_lab.figures import draw_figures
from tamis_lab.report.contents import Contents, gather
from tamis_lab.report.html import as_html
from tamis_lab.report.markdown import markdown_pages
from tamis_lab.results import Results

__all__ = ["write_report"]


def write_report(results: Results) -> tuple[list[Path], list[Finding]]:
    """Write report.html, the Markdown pages and findings.json; return the pages and the findings."""
    contents = gather(results)
    _draw_missing(contents, results)
    pages = {"report.html": as_html(contents), **markdown_pages(contents)}
    for name, text in pages.items():
        (results.directory / name).write_text(text, encoding="utf-8")
    results.write_findings(contents.findings)
    return [results.directory / name for name in pages], contents.findings


def _draw_missing(contents: Contents, results: Results) -> None:
    for chapter in contents.chapters:
        for section in chapter.sections:
            if not section.outdated and not all(picture.exists() for picture in section.pictures):
                draw_figures(section.experiment, results)
