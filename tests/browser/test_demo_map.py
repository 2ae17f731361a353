"""The map that `tamis demo` writes, in a real browser: as many matches as the JSON answer, nothing from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.plots.event_map import AskedRows, Dot, event_map
from tests.browser.conftest import SHOTS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    path = tmp_path_factory.mktemp("map") / "quakes.html"
    done = CliRunner().invoke(app, ["demo", "--json", "--map", str(path)])
    assert done.exit_code == 0, done.output
    return path, json.loads(done.stdout)


def test_the_map_shows_what_the_answer_counts(page: Any, demo: tuple[Path, Any]) -> None:
    path, summary = demo
    assert summary["map"] == str(path)
    page.goto(path.as_uri())
    assert page.get_attribute("#numbers", "data-matches") == str(summary["matches"])
    assert page.locator(".dot").count() == summary["events"]
    assert page.locator("#subscriptions button").count() == summary["subscriptions"]
    for row in summary["top"]:
        page.click(f"[data-id='{row['id']}']")
        assert page.locator(".dot:not(.rest)").count() == row["matches"]
        assert page.inner_text("#filter") == row["filter"]
    assert page.complaints == []


def test_a_region_is_drawn_and_an_event_names_who_asked(page: Any, demo: tuple[Path, Any]) -> None:
    path, _ = demo
    page.goto(path.as_uri())
    page.click("[data-id=california]")
    assert page.locator(".asked").count() == 1
    page.locator(".dot:not(.rest)").first.dispatch_event("click")
    names = page.locator("#event button").all_inner_texts()
    assert "california" in names
    assert page.get_attribute("#asked", "data-count") == str(len(names))
    page.fill("#search", "no such thing")
    assert page.locator("#subscriptions button:visible").count() == 0
    assert page.complaints == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_fits(chromium: Any, demo: tuple[Path, Any], width: int, scheme: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(demo[0].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=str(SHOTS / f"map-{width}-{scheme}.png"), full_page=True)
    context.close()


def test_text_stays_text(page: Any, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>{{data}}"
    made = event_map(
        [Dot(0, 0, 20, {evil: evil})],
        [AskedRows(evil, evil, [], [0])],
        [[[0, 0], [1, 0], [1, 1]]],
        title=evil,
        note=evil,
    )
    path = tmp_path / "evil.html"
    path.write_text(made)
    page.goto(path.as_uri())
    page.locator(".dot").dispatch_event("click")
    assert page.inner_text("h1") == evil
    assert evil in page.inner_text("#event")
    assert page.locator("img").count() == 0
    assert page.complaints == []
