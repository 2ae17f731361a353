"""Write the concordance of each paper (where its sections, algorithms and lemmas are in the code) and the errata.

    python scripts/concordance.py

Reads the ``Implements:`` and ``Deviation:`` lines of the docstrings below src and the experiments of the laboratory,
and writes them between two marks in docs/papers/*.md; what people wrote around the marks stays. The whole of
docs/papers/errata.md is written from the laboratory's list of errata. Tests demand that all pages are current.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tamis_lab import registry
from tamis_lab.errata import ERRATA, Erratum
from tamis_lab.registry import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGES, TESTS = ROOT / "src", ROOT / "docs" / "papers", ROOT / "tests" / "papers"
PAPERS = ("zcurve", "mics", "crtree", "projection", "drtree")
BEGIN = "<!-- written by scripts/concordance.py from the docstrings: do not edit by hand -->"
END = "<!-- end of what scripts/concordance.py writes -->"

_TAG = re.compile(r"\[(zcurve|mics|crtree|projection|drtree)\]")
_LINE = re.compile(r"(Implements|Deviation): (.*?)(?=\s(?:Implements|Deviation): |\n\s*\n|\Z)", re.DOTALL)
_NAMED = re.compile(
    r"(Lemma|Lemmas|Theorem|Proposition|Algorithm|Fact|Observation)s? (\d+(?:\.\d+)?)(?: and (\d+\.\d+))?"
)
_ITEM = re.compile(r"\b([ZMSRD])\.(\d+)\.(\d+)\b")
_ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6}


@dataclass(frozen=True)
class Entry:
    """What one docstring says about one paper."""

    paper: str
    code: str
    places: tuple[str, ...]
    deviations: tuple[str, ...]


def entries() -> list[Entry]:
    """Return what all docstrings say, in the order of modules and lines."""
    return [
        entry
        for path in sorted(SOURCE.rglob("*.py"))
        for name, text in _docstrings(ast.parse(path.read_text(encoding="utf-8")))
        for entry in _read(f"{shown_path(path)}{name}", text)
    ]


def shown_path(path: Path) -> str:
    """Return a module's path as documents write it: below src/tamis for the product, else below src."""
    return path.relative_to(SOURCE).as_posix().removeprefix("tamis/")


def render(paper: str, entries: list[Entry]) -> str:
    """Return the generated part of a paper's page."""
    mine = sorted(
        (entry for entry in entries if entry.paper == paper), key=lambda entry: (_order(entry.places), entry.code)
    )
    lines = ["## In the code", "", "| in the paper | code | tests |", "|---|---|---|"]
    lines += [
        f"| {'; '.join(entry.places)} | `{entry.code}` | {_tests(paper, entry)} |" for entry in mine if entry.places
    ]
    for experiment in EXPERIMENTS.values():
        if experiment.paper == paper:
            module = experiment.run.__module__.removeprefix("tamis.").replace(".", "/")
            report = f"[report](../lab/{paper}.md)"
            lines.append(f"| {experiment.figure} | `{module}.py`, experiment `{experiment.name}` | {report} |")
    lines += ["", "## Where the code says that it differs", "", "The errata are listed in [errata.md](errata.md).", ""]
    lines += [f"- `{entry.code}`: {deviation}" for entry in mine for deviation in entry.deviations]
    return "\n".join(line.replace("``", "`") for line in lines)


def page(paper: str, entries: list[Entry]) -> str:
    """Return a paper's whole page as it should be."""
    written = (PAGES / f"{paper}.md").read_text(encoding="utf-8")
    before, rest = written.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{render(paper, entries)}\n\n{END}{after}"


def errata_page() -> str:
    """Return the page of all errata: a table per paper."""
    lines = [
        "# The errors of the five papers",
        "",
        "<!-- written by scripts/concordance.py from the laboratory's errata.toml: do not edit by hand -->",
        "",
        f"{len(ERRATA)} places where a paper is wrong, contradicts itself or leaves out what an implementation must",
        "decide. Code and tests cite them by number. The tests are below `tests`; each shows its case.",
    ]
    for paper in PAPERS:
        lines += ["", f"## {paper}", "", f"{registry.PAPERS[paper]}. In the code: [{paper}.md]({paper}.md).", ""]
        lines += ["| | the paper | what is true | test |", "|---|---|---|---|"]
        lines += [_row(erratum) for erratum in ERRATA if erratum.paper == paper]
    return "\n".join(lines) + "\n"


def _row(erratum: Erratum) -> str:
    test = ", ".join(f"`{test}`" for test in erratum.tests)
    return f"| {erratum.item} | {_cell(erratum.stated)} | {_cell(erratum.shown)} | {test} |"


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield ("" or "::name", docstring) of a module and all that is in it."""

    def walk(
        node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str
    ) -> Iterator[tuple[str, str]]:
        if text := ast.get_docstring(node):
            yield name, text
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from walk(child, f"{name}.{child.name}" if name else f"::{child.name}")

    return walk(tree, "")


def _read(code: str, text: str) -> Iterator[Entry]:
    statements = [(kind, " ".join(rest.split())) for kind, rest in _LINE.findall(text)]
    places = [clause for kind, rest in statements if kind == "Implements" for clause in _clauses(rest)]
    deviations = [rest for kind, rest in statements if kind == "Deviation"]
    papers = dict.fromkeys(paper for paper, _ in places)
    if deviations and not papers:
        papers = dict.fromkeys(_owners(deviations))
    for number, paper in enumerate(papers):
        yield Entry(
            paper,
            code,
            tuple(clause for owner, clause in places if owner == paper),
            # Said once: with the paper it names, or with the first one.
            tuple(
                deviation
                for deviation in deviations
                if paper in _owners([deviation]) or (not _owners([deviation]) and number == 0)
            ),
        )


def _clauses(text: str) -> Iterator[tuple[str, str]]:
    """Yield (paper, clause): clauses are parted by semicolons, and one without a tag belongs to the paper before it."""
    papers: list[str] = []
    for clause in re.split(r";\s+", text.removesuffix(".")):
        papers = _TAG.findall(clause) or papers[-1:]
        for paper in papers:
            yield paper, _cell(re.sub(r"^\[\w+\] ", "", clause))


def _owners(deviations: list[str]) -> list[str]:
    letters = dict(zip("ZMSRD", PAPERS, strict=True))
    tagged = [paper for text in deviations for paper in _TAG.findall(text)]
    return tagged or [letters[item[0]] for text in deviations for item in _ITEM.findall(text)]


def _tests(paper: str, entry: Entry) -> str:
    """Return the tests of a paper's page whose names have a lemma or an item that the entry names."""
    file = TESTS / f"test_{paper}.py"
    if not file.exists():
        return ""
    names = re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    slugs = [
        f"{letter.lower()}_{a}_{b}_" for deviation in entry.deviations for letter, a, b in _ITEM.findall(deviation)
    ]
    for place in entry.places:
        for kind, first, second in _NAMED.findall(place):
            slugs += [
                f"{kind.lower().removesuffix('s')}_{number.replace('.', '_')}_" for number in (first, second) if number
            ]
    matching = [name for name in names if any(slug in f"{name}_" for slug in slugs)]
    return ", ".join(f"`{name}`" for name in matching)


def _order(places: tuple[str, ...]) -> tuple[float, ...]:
    """Return where in the paper an entry stands: its section, or the number of its lemma."""
    text = " ".join(places)
    if number := re.search(r"sections? (\d+(?:\.\d+)*|[IV]+)", text) or re.search(r"(\d+\.\d+)", text):
        return tuple(float(_ROMAN.get(part, part)) for part in number[1].split("."))
    return (99.0,)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the pages."""
    listed = entries()
    for paper in PAPERS:
        (PAGES / f"{paper}.md").write_text(page(paper, listed), encoding="utf-8")
    (PAGES / "errata.md").write_text(errata_page(), encoding="utf-8")
    print(f"wrote what {len(listed)} docstrings say, and {len(ERRATA)} errata, to {PAGES}")


if __name__ == "__main__":
    main()
