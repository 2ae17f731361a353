"""Every view of the console through axe-core, in both colour schemes: no violation of any rule."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.test_console import LIVELY, VIEWS
from tests.server.processes import BrokerProcess

pytestmark = pytest.mark.browser


def violations(page: Any) -> list[str]:
    """The rules that a page breaks, each with the first element that does."""
    broken = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {rule['help']} at {rule['nodes'][0]['target']}" for rule in broken]


def test_a_page_without_a_title_and_labels_breaks_rules(page: Any) -> None:
    page.set_content("<input><img src='data:,'>")
    assert {rule.split(":")[0] for rule in violations(page)} >= {"document-title", "image-alt", "label"}


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_breaks_a_rule(page: Any, broker: BrokerProcess, view: str) -> None:
    page.goto(f"{broker.url}/#{view}")
    page.wait_for_selector("main .panel")
    LIVELY[view](page, broker)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], f"{view}, {scheme}"
