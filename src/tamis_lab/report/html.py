"""The report as one HTML page: pictures inline, light and dark by the reader's setting, no script, nothing to load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from tamis_lab.errata import Erratum
from tamis_lab.experiment import Finding
from tamis_lab.report.contents import Chapter, Contents, Section, how_large, made_from, statement
from tamis_lab.verdicts import ClaimVerdict, Judge

__all__ = ["as_html"]

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5b6670; --ground: #ffffff; --line: #d9dee3; --card: #f5f7f9;
  --held: #2f7d4f; --not: #b3362c; --none: #7a6a2b; --fitted: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa5af; --ground: #14181c; --line: #2e363e;
  --card: #1c2228; --held: #6cc490; --not: #ef8a80; --none: #d6c06a; --fitted: #e0b060; } }
body { margin: 0 auto; padding: 2rem 1.2rem 4rem; max-width: 66rem; color: var(--ink); background: var(--ground);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.8rem; margin: 0 0 .4rem; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
h3 { margin: 2.4rem 0 .4rem; } p { margin: .5rem 0; } a { color: inherit; }
.soft, .made { color: var(--soft); } .made { font-size: .8rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); }
.verdict { font-weight: 600; white-space: nowrap; }
.held { color: var(--held); } .not-held { color: var(--not); } .not-testable, .undecided { color: var(--none); }
.fitted { color: var(--fitted); }
.finding { background: var(--card); border-left: 3px solid currentColor; padding: .6rem .9rem; margin: .8rem 0; }
.finding > * { color: var(--ink); } .finding .verdict { color: inherit; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .4rem 0 0; font-size: .92rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figure svg text { fill: var(--ink); }
.practice { border: 1px solid var(--line); padding: .6rem .9rem; margin: 1rem 0; }
.practice ul { margin: .3rem 0 0; padding-left: 1.2rem; }
nav { margin: 1rem 0; } nav a { margin-right: 1rem; }
code { font-size: .82rem; overflow-wrap: anywhere; }
@media print { h2 { break-before: page; } .finding, figure { break-inside: avoid; } }
"""


def as_html(contents: Contents) -> str:
    """Return the whole report."""
    return _with_shared_styles("\n".join(_lines(contents)) + "\n")


def _lines(contents: Contents) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>tamis lab: the papers, run again</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield "<h1>The papers, run again</h1>"
    yield f"<p>Claims: <strong>{escape(contents.summary)}</strong>.</p>"
    yield (
        '<p class="soft">Written by <code>tamis lab report</code> from rows and the rules of judges. Brackets are 95 % '
        "intervals over seeds. Times are processor times, compared as ratios. <em>small</em>: at a smaller scale "
        "than the paper's.</p>"
    )
    yield from _summary(contents)
    yield '<h2 id="claims">All claims</h2>'
    yield from _table(["claim", "verdict", "the paper", "here"], [_brief(each) for each in contents.findings])
    if contents.missing:
        yield f"<p>Not run in this directory: {escape(', '.join(contents.missing))}.</p>"
    if contents.waiting:
        claims = ", ".join(claim for claim, _ in contents.waiting)
        yield f"<p>Rows of an earlier design, to be made again before they are judged: {escape(claims)}.</p>"
    for chapter in contents.chapters:
        yield from _chapter(chapter)
    yield "</body>\n</html>"


def _summary(contents: Contents) -> Iterator[str]:
    """Yield what a reader can take in two minutes: verdicts by paper, what the rows are, what to do in practice."""
    links = "".join(f'<a href="#{chapter.paper}">{chapter.paper}</a>' for chapter in contents.chapters)
    yield f'<nav><a href="#claims">all claims</a>{links}</nav>'
    yield "<h2>In two minutes</h2>"
    heads = [f'<span class="verdict {_class(verdict)}">{verdict}</span>' for verdict in ClaimVerdict]
    yield from _table(["paper", *heads], [_in_a_line(chapter) for chapter in contents.chapters])
    yield f"<p>Rows: {escape(contents.origin)}.</p>"
    if contents.comparison is not None:
        yield f"<p>Another run ({escape(contents.comparison.other)}): {escape(contents.other_run)}.</p>"
    sentences = [
        f"<li><strong>{chapter.paper}</strong>: {_with_code(sentence)}</li>"
        for chapter in contents.chapters
        for sentence in chapter.practice
    ]
    yield f"<ul>{''.join(sentences)}</ul>"


def _in_a_line(chapter: Chapter) -> list[str]:
    links = [" ".join(f'<a href="#{claim}">{claim}</a>' for claim in claims) for claims in chapter.claims.values()]
    return [f'<a href="#{chapter.paper}">{chapter.paper}</a>', *links]


def _class(verdict: ClaimVerdict) -> str:
    return str(verdict).replace(" ", "-")


def _kind(finding: Finding) -> str:
    return _class(finding.verdict)


def _verdict(finding: Finding) -> str:
    kind, scale = _kind(finding), how_large(finding)
    size = f' <span class="soft">{escape(scale)}</span>' if scale else ""
    return f'<span class="verdict {kind}">{escape(str(finding.verdict))}</span>{size}'


def _brief(finding: Finding) -> list[str]:
    link = f'<a href="#{finding.claim}">{finding.claim}</a>'
    smaller = ' <span class="soft">small</span>' if finding.smaller and how_large(finding) else ""
    verdict = f'<span class="verdict {_kind(finding)}">{escape(str(finding.verdict))}</span>{smaller}'
    return [link, verdict, escape(finding.paper_value), escape(finding.our_value)]


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f'<h2 id="{chapter.paper}">{chapter.paper}</h2>'
    yield f'<p class="soft">{escape(chapter.title)}.</p>'
    if chapter.practice:
        sentences = "".join(f"<li>{_with_code(sentence)}</li>" for sentence in chapter.practice)
        yield f'<div class="practice"><strong>In practice</strong><ul>{sentences}</ul></div>'
    for section in chapter.sections:
        yield from _section(section)
    if chapter.errata:
        yield "<h3>Errors in this paper</h3>"
        yield from _table(["", "the paper", "what is the case", "test"], [_erratum(each) for each in chapter.errata])


def _with_code(text: str) -> str:
    """Return a sentence with what stands between backquotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _section(section: Section) -> Iterator[str]:
    experiment = section.experiment
    yield f'<h3 id="{experiment.name}">{experiment.name}: {escape(experiment.figure)}</h3>'
    yield f"<p>{escape(experiment.set_up)}</p>"
    yield from (f'<p class="soft">Reading: {escape(reading)}</p>' for reading in experiment.readings)
    yield from (_finding(finding, experiment.claims[finding.claim]) for finding in section.findings)
    if section.outdated:
        yield from (_waiting(claim, judge) for claim, judge in experiment.claims.items())
    if section.lesson:
        yield f"<p>{escape(section.lesson)}</p>"
    for picture in section.pictures:
        yield f"<figure>{_inline(picture)}</figure>"
    yield f'<p class="made">{escape(made_from(section.manifest))}</p>'


def _waiting(claim: str, judge: Judge) -> str:
    return (
        f'<div class="finding" id="{claim}"><strong class="verdict">{claim}</strong> rows must be made again: '
        f"these are of an earlier design<dl>{_statement(judge)}</dl></div>"
    )


def _statement(judge: Judge) -> str:
    return "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in statement(judge))


def _finding(finding: Finding, judge: Judge) -> str:
    kind = _kind(finding)
    ours = f"<dt>here</dt><dd>{escape(finding.our_value)}</dd>" if finding.our_value else ""
    return (
        f'<div class="finding {kind}" id="{finding.claim}"><strong class="verdict">{finding.claim}</strong> '
        f"{_verdict(finding)}<p>{escape(finding.why)}</p>"
        f"<dl><dt>the paper</dt><dd>{escape(finding.paper_value)}</dd>{ours}"
        f"{_statement(judge)}</dl></div>"
    )


def _erratum(erratum: Erratum) -> list[str]:
    test = ", ".join(f"<code>{escape(test)}</code>" for test in erratum.tests)
    return [escape(erratum.item), escape(erratum.stated), escape(erratum.shown), test]


def _table(heads: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f'<div class="scroll"><table><thead><tr>{"".join(f"<th>{head}</th>" for head in heads)}</tr></thead><tbody>'
    yield from (f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    yield "</tbody></table></div>"


def _with_shared_styles(page: str) -> str:
    """Return a page in which the styles of pictures, most of which are used a hundred times, are classes.

    White is the ground of the page, and black a soft line, so that pictures suit both a light and a dark page.
    """
    styles = sorted(set(re.findall(r'style="([^"]*)"', page)))
    names = {style: f"s{number}" for number, style in enumerate(styles)}
    page = re.sub(r'style="([^"]*)"', lambda match: f'class="{names[match[1]]}"', page)
    rules = "\n".join(f".{name} {{ {_suited(style)} }}" for style, name in names.items())
    return page.replace("</style>\n</head>", f"{rules}\n</style>\n</head>", 1)


def _suited(style: str) -> str:
    return style.replace("fill: #ffffff", "fill: none").replace("stroke: #000000", "stroke: var(--soft)")


def _inline(picture: Path) -> str:
    """Return an SVG file as an element of the page: short, and names made its own, so that pictures share none."""
    text = picture.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r"\s+", " ", re.sub(r"(\d\.\d\d)\d+", r"\1", text))
    own = picture.stem
    text = re.sub(r'\bid="([^"]*)"', rf'id="{own}-\1"', text)
    return re.sub(r'(url\(|href=")#', rf"\1#{own}-", text)
