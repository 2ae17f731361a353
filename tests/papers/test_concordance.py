"""The concordance of each paper is what the docstrings say, and names things that exist."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
FILES = re.compile(r"`((?:unit|property|contract|papers)/[\w/]+\.py)`")
PAPERS = ("zcurve", "mics", "crtree", "projection", "drtree")


@pytest.fixture(scope="module")
def concordance() -> ModuleType:
    spec = importlib.util.spec_from_file_location("concordance", ROOT / "scripts" / "concordance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["concordance"] = module  # a dataclass looks its module up by name
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def entries(concordance: ModuleType) -> list[Any]:
    return concordance.entries()  # type: ignore[no-any-return]


def named_things() -> list[tuple[str, str]]:
    pages = (ROOT / "docs" / "papers" / f"{paper}.md" for paper in PAPERS)
    return sorted({path for page in pages for path in NAMED.findall(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("paper", PAPERS)
def test_the_committed_page_is_what_the_docstrings_say(concordance: ModuleType, entries: list[Any], paper: str) -> None:
    committed = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    assert committed == concordance.page(paper, entries), "run: python scripts/concordance.py"


def test_the_committed_errata_are_the_list_of_the_laboratory(concordance: ModuleType) -> None:
    committed = (ROOT / "docs" / "papers" / "errata.md").read_text(encoding="utf-8")
    assert committed == concordance.errata_page(), "run: python scripts/concordance.py"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_is_named_by_many_docstrings(entries: list[Any], paper: str) -> None:
    mine = [entry for entry in entries if entry.paper == paper]
    assert len([entry for entry in mine if entry.places]) >= 10
    assert len([entry for entry in mine if entry.deviations]) >= 5


def test_no_docstring_implements_a_paper_that_has_no_page() -> None:
    lines = [line for path in (ROOT / "src").rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]
    tags = {tag for line in lines if "Implements:" in line for tag in re.findall(r"\[([a-z]\w+)\]", line)}
    assert tags == set(PAPERS)


def test_clauses_go_to_the_paper_before_them(concordance: ModuleType) -> None:
    text = (
        "What it does.\n\nImplements: [mics] section 2, a; section 3.6, b; [zcurve] Lemma 3.1.\n"
        "Deviation: exact (erratum Z.3.9)."
    )
    mics, zcurve = concordance._read("x.py", text)
    assert (mics.places, mics.deviations) == (("section 2, a", "section 3.6, b"), ())
    assert (zcurve.places, zcurve.deviations) == (("Lemma 3.1",), ("exact (erratum Z.3.9).",))


@pytest.mark.parametrize(("path", "name"), named_things())
def test_what_the_concordance_names_exists(path: str, name: str) -> None:
    [file] = [
        candidate
        for candidate in (ROOT / "src" / "tamis" / path, ROOT / "src" / path, ROOT / "tests" / path)
        if candidate.is_file()
    ]
    assert re.search(rf"^(?:class|def|async def) {name}\b", file.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_concordance_names_many() -> None:
    assert len(named_things()) > 60


@pytest.mark.parametrize("paper", PAPERS)
def test_the_test_files_exist(paper: str) -> None:
    for path in FILES.findall((ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")):
        assert (ROOT / "tests" / path).is_file(), path
