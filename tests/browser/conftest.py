"""A real browser (headless Chromium) and a real broker with earthquakes in it; both end with a module of tests."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shapely

from tamis.demo.datasets import earthquakes, quake_subscriptions
from tamis.model.schema import Schema
from tests.server.processes import BrokerProcess, ask, running

#: Where the views are drawn for people to look at.
SHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; without one the tests are not run here, and fail in CI, where `make setup-ci` brings it."""
    program = next((path for path in map(shutil.which, NAMES) if path), None)
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is not installed: make setup-ci")
        pytest.skip("not run: Chromium is not installed (make setup-ci)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the bundled questions and the first 400 earthquakes."""
    directory = tmp_path_factory.mktemp("console")
    schema = directory / "schema.json"
    schema.write_text(Schema.from_arrow(earthquakes()).to_json())
    config = f'name = "demo"\ndata = "{directory / "data"}"\nschema = "{schema}"\n'
    with running(BrokerProcess(directory / "broker", config)) as (started,):
        for id, text in quake_subscriptions():
            assert ask(f"{started.url}/v1/subscriptions", "POST", {"id": id, "filter": text}).status == 201
        assert ask(f"{started.url}/v1/events", "POST", quakes(400)).status == 200
        yield started


def quakes(n: int) -> list[dict[str, Any]]:
    rows = earthquakes().slice(0, n).to_pylist()
    for row in rows:
        row["at"] = row["at"].isoformat()
        row["epicentre"] = shapely.to_wkt(shapely.from_wkb(row["epicentre"]), rounding_precision=6)
    plain = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return json.loads(json.dumps(plain))  # type: ignore[no-any-return]


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A page that notes what the browser complains about; a refused script or style fails the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(30_000)
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}") or dialog.dismiss())
    tab.complaints = complaints
    yield tab
    context.close()
