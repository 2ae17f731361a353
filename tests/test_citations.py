"""What the code cites is in the repository: promises, errata, documents and paths.

Each check is a function from a text to its faults. ``test_*_can_fail`` shows each of them a small bad text, because a
check that cannot fail checks nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tamis_lab.errata import ERRATA
from tests.test_tree_hygiene import text_of, tracked

ROOT = Path(__file__).resolve().parents[1]
PROMISES = ROOT / "docs" / "promises.md"

#: A promise as it is cited: S14, not 'S14' (data of a test) and not S14x.
PROMISE = re.compile(r"(?<![\w'\"%.{-])[GROPS]\d{1,2}(?![\w'\"%}])")
ERRATUM = re.compile(r"\b(?:[ZMSRD]\.3\.\d+|R-[A-Z])\b")
#: What planning documents are called: their names in capitals, or a part of one of them.
OUTSIDE = re.compile(
    r"\b(?:RELIABILITY|MISSION|[A-Z]+-AUDIT)\b|\b(?:STYLE|DESIGN|PERFORMANCE|DATA)\.md\b"
    r"|\bPAPERS (?:[A-Z]\.\d|R-[A-Z])|\b(?:STYLE|DESIGN|PERFORMANCE|DATA) (?:section )?\d"
)
#: Decisions are records of their time and are not rewritten; these three cite documents by the names they had then.
RECORDS = ("0013-the-broker-network.md", "0014-peers-that-check-themselves.md", "0015-a-broker-on-disk-and-wire.md")
#: There is nothing to test: what does not exist, and what is not promised.
NOT_BUILT = {"S3", "S9"}


@dataclass(frozen=True)
class Promise:
    """A row of docs/promises.md."""

    number: str
    text: str
    code: str
    tests: str

    @property
    def is_goal(self) -> bool:
        """Whether nothing keeps it today, and it says so."""
        return not self.code and "**Not yet:**" in self.text


def promises_in(text: str) -> list[Promise]:
    rows = [line for line in text.splitlines() if re.match(r"\| [GROPS]\d+ \|", line)]
    return [Promise(*(cell.strip() for cell in row.strip("|").split("|"))) for row in rows]


@functools.cache
def promises() -> tuple[Promise, ...]:
    return tuple(promises_in(PROMISES.read_text(encoding="utf-8")))


def unkept(promise: Promise) -> Iterator[str]:
    """Yield what is wrong with a row: code or tests that do not exist, and silence about there being none."""
    for path in re.findall(r"`([\w/]+\.py)`", promise.code):
        if not (ROOT / "src" / "tamis" / path).is_file():
            yield f"{promise.number}: there is no src/tamis/{path}"
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", promise.tests)
    yield from (f"{promise.number}: there is no {path}::{name}" for path, name in named if not has_test(path, name))
    if not named and not (promise.tests == "no test" and (promise.is_goal or promise.number in NOT_BUILT)):
        yield f"{promise.number} has no test, and does not say that it is a goal"
    if named and not promise.code:
        yield f"{promise.number} names tests but no code"


def has_test(path: str, name: str) -> bool:
    file = ROOT / "tests" / path
    return file.is_file() and bool(
        re.search(rf"^ *(?:async )?def {name}\(", file.read_text(encoding="utf-8"), re.MULTILINE)
    )


def unknown_citations(text: str) -> Iterator[str]:
    """Yield the promises and errata that a text cites and no document of the repository has."""
    numbers = {promise.number for promise in promises()}
    items = {erratum.item.split()[0] for erratum in ERRATA}
    yield from (f"promise {number}" for number in PROMISE.findall(text) if number not in numbers)
    yield from (f"erratum {item}" for item in ERRATUM.findall(text) if item not in items)


def outside_documents(text: str) -> list[str]:
    return OUTSIDE.findall(text)


@functools.cache
def known_paths() -> frozenset[str]:
    """Every file and directory of the repository, also without ``.py``, from any of its directories downwards."""
    cited: set[str] = set()
    for file in tracked():
        parts = file.relative_to(ROOT).parts
        for end in range(1, len(parts) + 1):
            for start in range(end):
                path = "/".join(parts[start:end])
                cited |= {path, path.removesuffix(".py")}
    return frozenset(cited)


def missing_paths(text: str) -> list[str]:
    """Return the paths in backquotes that do not exist; ``package/module`` may stand for ``package/module.py``."""
    quoted = re.findall(r"`(\.?[\w-]+(?:/[\w.-]*)+|[\w.-]+\.(?:py|md|toml|yml|yaml|cfg))(?:::\w+)?`", text)
    return [path for path in quoted if path.rstrip("/") not in known_paths()]


def citing() -> list[Path]:
    """Return the texts that people write: not the laboratory's results, and not this file, which shows bad ones."""
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".lark", ".js", ".css", ".html"}
    skipped = {ROOT / "docs" / "lab", ROOT / "src" / "tamis" / "data"}
    return [
        path
        for path in tracked()
        if path.suffix in kinds and path != Path(__file__).resolve() and not skipped & set(path.parents)
    ]


def test_every_promise_and_erratum_that_is_cited_exists() -> None:
    faults = [f"{path.relative_to(ROOT)}: {what}" for path in citing() for what in unknown_citations(text_of(path))]
    assert not faults, "\n" + "\n".join(faults)


def test_many_are_cited() -> None:
    cited = [(PROMISE.findall(text), ERRATUM.findall(text)) for path in citing() if (text := text_of(path))]
    assert sum(len(numbers) for numbers, _ in cited) > 200
    assert sum(len(items) for _, items in cited) > 150


def test_nothing_cites_a_document_outside_the_repository() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {what}"
        for path in citing()
        if path.name not in RECORDS
        for what in outside_documents(text_of(path))
    ]
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: promise.number)
def test_every_promise_has_code_and_tests_that_exist(promise: Promise) -> None:
    assert list(unkept(promise)) == []


def test_every_test_that_a_finding_names_exists() -> None:
    text = (ROOT / "docs" / "security-findings.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(named) > 60
    assert [f"{path}::{name}" for path, name in named if not has_test(path, name)] == []


def test_numbers_of_promises_have_no_holes() -> None:
    numbers = [promise.number for promise in promises()]
    last = {"G": 26, "R": 16, "O": 7, "P": 7, "S": 29}
    assert numbers == [f"{letter}{number}" for letter, most in last.items() for number in range(1, most + 1)]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_that_a_document_names_exist(name: str) -> None:
    assert missing_paths((ROOT / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("#: Bytes of an event (promise S99).", "promise S99"),
        ("(promises G1, G77)", "promise G77"),
        ("is cut off within seconds (O8)", "promise O8"),
        ("the search goes on (erratum Z.3.99)", "erratum Z.3.99"),
        ("covering is per link (R-Q)", "erratum R-Q"),
    ],
)
def test_the_search_for_unknown_citations_can_fail(text: str, fault: str) -> None:
    assert list(unknown_citations(text)) == [fault]


@pytest.mark.parametrize(
    "text", ["symbol IN ('S0', 'S99')", "f\"symbol = 'S{x}'\"", "an R-tree", "(promise S14)", "Z.3.10"]
)
def test_the_search_for_unknown_citations_lets_others_pass(text: str) -> None:
    assert list(unknown_citations(text)) == []


@pytest.mark.parametrize(
    "text", ["(RELIABILITY G1)", "see DESIGN.md", "STYLE 7", "(PAPERS D.2)", "SECURITY-AUDIT H4", "PAPERS R-A"]
)
def test_the_search_for_outside_documents_can_fail(text: str) -> None:
    assert outside_documents(text)


@pytest.mark.parametrize("text", ["from tamis_lab.registry import PAPERS", "SECURITY.md", "#: The data: DATA = 7"])
def test_the_search_for_outside_documents_lets_others_pass(text: str) -> None:
    assert outside_documents(text) == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| G1 | It is. | `node/no.py` | `test_citations.py::has_test` |", "G1: there is no src/tamis/node/no.py"),
        (
            "| G1 | It is. | `node/node.py` | `test_citations.py::test_no` |",
            "G1: there is no test_citations.py::test_no",
        ),
        ("| G1 | It is. | `node/node.py` | `no.py::test_no` |", "G1: there is no no.py::test_no"),
        ("| G1 | It is. | `node/node.py` | no test |", "G1 has no test, and does not say that it is a goal"),
        ("| G1 | It is. |  | no test |", "G1 has no test, and does not say that it is a goal"),
        ("| G1 | It is. **Not yet:** no. |  |  |", "G1 has no test, and does not say that it is a goal"),
        ("| G1 | It is. |  | `test_citations.py::has_test` |", "G1 names tests but no code"),
    ],
)
def test_the_check_of_promises_can_fail(row: str, fault: str) -> None:
    [promise] = promises_in(row)
    assert fault in list(unkept(promise))


@pytest.mark.parametrize("text", ["`model/no_such_type`", "`src/tamis/no.py`", "`no-such.toml`", "`policies/no/`"])
def test_the_search_for_missing_paths_can_fail(text: str) -> None:
    assert missing_paths(text)


@pytest.mark.parametrize(
    "text",
    [
        "`model/language/parse`",
        "`policies/`",
        "`.github/workflows/ci.yml`",
        "`/v1/events`",
        "`runtime/broker/driver.py::Driver`",
    ],
)
def test_the_search_for_missing_paths_lets_others_pass(text: str) -> None:
    assert missing_paths(text) == []
