"""The names that clients give themselves are shown as text (promise S12)."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

import tamis
from tests.server.processes import BrokerProcess

pytestmark = pytest.mark.browser

expect.set_options(timeout=30_000)

NAMES = ("<img src=x onerror=alert(1)>", "<script>alert(2)</script>", '"><svg onload=alert(3)>')


def test_the_name_of_a_client_is_text(page: Any, broker: BrokerProcess) -> None:
    for name in NAMES:
        with tamis.connect(broker.url, client=name) as client:
            deliveries = client.subscribe("mag > 9.5", id=f"of {name}")
            client.publish({"mag": 9.9, "place": "nowhere"})
            next(iter(deliveries)).ack()
            for view in ("live", "subscriptions"):
                page.goto(f"{broker.url}/#{view}")
                page.reload()
                if view == "subscriptions":
                    page.fill("[aria-label=Search]", name)
                expect(page.locator("main")).to_contain_text(name)
                for tag in ("img[src=x]", "main script", "svg[onload]"):
                    assert page.locator(tag).count() == 0
    assert [complaint for complaint in page.complaints if "dialog" in complaint or "Refused" in complaint] == []
