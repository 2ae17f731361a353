"""Thousands of subscriptions in the page: paging, search and covering stay right and usable."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import expect

import tamis
from tamis.runtime.client.connecting import connect
from tests.browser.conftest import quakes
from tests.server.processes import BrokerProcess, ask, running

pytestmark = pytest.mark.browser

MANY = 3_000
SCHEMA = tamis.Schema({"mag": tamis.Number(), "depth": tamis.Number(), "lon": tamis.Number(), "place": tamis.String()})


def rules() -> list[dict[str, Any]]:
    rng = random.Random(7)
    listed = []
    for number in range(MANY):
        mag, lon = rng.uniform(-1, 8), rng.uniform(-180, 170)
        text = f"mag BETWEEN {mag:.3f} AND {mag + 2:.3f} AND lon BETWEEN {lon:.2f} AND {lon + 9:.2f}"
        listed.append({"id": f"rule-{number:04}", "filter": text, "least": round(mag, 3)})
    return listed


async def subscribe_to_all(url: str) -> None:
    async with connect(url, client="crowd") as client:
        await asyncio.gather(*(client.subscribe(rule["filter"], id=rule["id"], durable=True) for rule in rules()))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with many subscriptions of one client, which asks for them in one go."""
    directory = tmp_path_factory.mktemp("crowded")
    schema = directory / "schema.json"
    schema.write_text(SCHEMA.to_json())
    config = f'name = "crowded"\ndata = "{directory / "data"}"\nschema = "{schema}"\n'
    with running(BrokerProcess(directory / "broker", config)) as (started,):
        # In a thread: the browser's driver has a loop of its own in this one.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(subscribe_to_all(started.url))).result()
        assert ask(f"{started.url}/v1/events", "POST", quakes(100)).status == 200
        yield started


def test_pages_and_search(page: Any, crowded: BrokerProcess) -> None:
    page.goto(f"{crowded.url}/#subscriptions")
    rows = page.locator("[aria-label^='Delete ']")
    expect(rows).to_have_count(50)
    expect(page.locator("main")).to_contain_text("1 to 50")
    page.click("main button:has-text('Next page')")
    expect(page.locator("main")).to_contain_text("51 to 100")
    subscriptions = ask(f"{crowded.url}/v1/subscriptions?limit=50&after=50").json["subscriptions"]
    shown = [row.get_attribute("aria-label").removeprefix("Delete ") for row in rows.all()]
    assert shown == [subscription["id"] for subscription in subscriptions]
    page.fill("[aria-label=Search]", "RULE-2777")
    expect(rows).to_have_count(1)
    expect(page.locator("[aria-label='Delete rule-2777']")).to_be_visible()
    page.fill("[aria-label=Search]", "no rule has this")
    expect(page.locator("main")).to_contain_text("No subscription matches this search.")
    last = ask(f"{crowded.url}/v1/subscriptions?limit=50&after={MANY - 50}").json
    assert (len(last["subscriptions"]), last["next"]) == (50, None)
    assert page.complaints == []


def test_covering_is_counted_among_all(page: Any, crowded: BrokerProcess) -> None:
    wanted = sum(rule["least"] >= 7 for rule in rules())
    page.goto(f"{crowded.url}/#subscriptions")
    page.fill("textarea", "mag >= 7")
    expect(page.locator("#covers")).to_contain_text(f"It covers {wanted:,} subscriptions")
    assert ask(f"{crowded.url}/v1/statistics").json["now"]["subscriptions"] == MANY
    made = ask(f"{crowded.url}/v1/subscriptions", "POST", {"id": "wide", "filter": "mag > 6"})
    assert made.status == 201
    page.fill("textarea", "mag >= 7 AND depth < 10")
    expect(page.locator("#covered-by")).to_contain_text("Covered by wide")
    assert ask(f"{crowded.url}/v1/subscriptions/wide", "DELETE").status == 204
    page.fill("textarea", "mag >= 7 AND depth < 11")
    expect(page.locator("#covered-by")).to_contain_text("No subscription covers it.")
    quick = ask(f"{crowded.url}/v1/trial", "POST", {"filter": "mag >= 7", "covering": False}).json
    assert (quick["covers_count"], quick["examined"]) == (None, 100)


def test_who_gets_an_event_is_what_the_filters_say(crowded: BrokerProcess) -> None:
    event = {"mag": 5.5, "lon": 10.0}
    reply = ask(f"{crowded.url}/v1/matches", "POST", {"event": event}).json
    engine = tamis.Engine(SCHEMA, matcher="linear")
    for rule in rules():
        engine.subscribe(rule["filter"], id=rule["id"])
    assert [subscription["id"] for subscription in reply["subscriptions"]] == engine.match(event)
    assert reply["count"] == len(reply["subscriptions"])
