"""The documentation site: its navigation lists every page, and docstrings become pages."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
#: Pages that are made when the site is built.
MADE = {"index.md", "reference/python.md", "reference/spark.md", "reference/http.md"}
#: Pages that are reached through the list of decisions.
LISTED = "decisions/"


def navigation(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from navigation(target)


def test_the_navigation_lists_every_page_once() -> None:
    listed = list(navigation(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]))
    assert len(listed) == len(set(listed))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages = {page for page in pages if not page.startswith(LISTED)} | {f"{LISTED}README.md"}
    assert set(listed) - MADE == pages | {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}


def test_docstrings_are_shown_as_pages() -> None:
    pytest.importorskip("griffe", reason="not run: `make docs` installs the site generator")
    spec = importlib.util.spec_from_file_location("docstring_pages", ROOT / "scripts" / "docstring_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "Do.\n\nParameters\n----------\na\n    First.\n\nb\n    Second.\n\nIt is done.\n\n>>> 1\n1"
    assert module.shown(text).endswith("Second.\n\nNotes\n-----\nIt is done.\n\n```pycon\n>>> 1\n1\n```")
