"""The table from the MICS paper to the code names things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def named_things() -> list[tuple[str, str]]:
    return sorted(set(NAMED.findall((ROOT / "docs" / "papers" / "mics.md").read_text(encoding="utf-8"))))


@pytest.mark.parametrize(("path", "name"), named_things())
def test_what_the_concordance_names_exists(path: str, name: str) -> None:
    [found] = [one for one in (ROOT / "src" / "tamis" / path, ROOT / "tests" / path) if one.is_file()]
    assert re.search(rf"^(?:class|def) {name}\b", found.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_concordance_names_many() -> None:
    assert len(named_things()) > 40
