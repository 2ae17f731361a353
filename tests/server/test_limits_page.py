"""The table of limits in docs/server.md is the one of the code."""

from __future__ import annotations

import re
from pathlib import Path

from tamis.routing.edge.limits import DOORS, Door

PAGE = Path(__file__).parents[2] / "docs" / "server.md"


def rows_of_page(text: str) -> tuple[Door, ...]:
    section = text.partition("## Limits\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    return tuple(Door(*row) for row in rows if row[0] != "limit")


def test_the_page_has_every_limit_and_no_other() -> None:
    assert rows_of_page(PAGE.read_text(encoding="utf-8")) == DOORS
