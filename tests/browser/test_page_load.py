"""Every view opens quickly on a broker with 100,000 subscriptions."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.test_console import VIEWS
from tests.server.processes import BrokerProcess, ask, running

pytestmark = [pytest.mark.browser, pytest.mark.soak]

N_FEW, N_MANY, N_BATCH = 100, 100_000, 1_000
#: Seconds until a view is drawn: the median of the loads, each in a new context without a cache. On a busy machine the
#: limit is this multiple of what the view takes with a few subscriptions.
LIMIT, SHARE, N_LOADS = 0.2, 1.3, 9
#: What a view shows when its data are there, where that is later than its first panel.
DRAWN = {"subscriptions": "main button:has-text('Next page')"}


def fill(broker: BrokerProcess, n_subscriptions: int) -> None:
    random_numbers = random.Random(11)
    for first in range(0, n_subscriptions, N_BATCH):
        lows = [random_numbers.uniform(-1, 8) for _ in range(min(N_BATCH, n_subscriptions - first))]
        filters = [{"filter": f"mag BETWEEN {low:.4f} AND {low + 0.002:.4f}"} for low in lows]
        assert ask(f"{broker.url}/v1/subscriptions", "POST", filters).status == 201
    assert ask(f"{broker.url}/v1/statistics").json["now"]["subscriptions"] == n_subscriptions
    events = [{"mag": number / 100} for number in range(200)]
    assert ask(f"{broker.url}/v1/events", "POST", events).status == 200


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """A broker with few subscriptions and one with many."""
    directory = tmp_path_factory.mktemp("page-load")
    processes = [
        BrokerProcess(directory / name, f'name = "{name}"\ndata = "{directory / name / "data"}"\n')
        for name in ("few", "many")
    ]
    with running(*processes) as (few, many):
        fill(few, N_FEW)
        fill(many, N_MANY)
        yield [few, many]


def seconds_to_draw(chromium: Any, broker: BrokerProcess, view: str) -> float:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    start = time.perf_counter()
    page.goto(f"{broker.url}/#{view}")
    page.wait_for_selector(DRAWN.get(view, "main .panel"))
    seconds = time.perf_counter() - start
    context.close()
    return seconds


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_opens_within_the_limit(chromium: Any, brokers: list[BrokerProcess], view: str) -> None:
    loads = [[seconds_to_draw(chromium, broker, view) for broker in brokers] for _ in range(N_LOADS)]
    few, many = (statistics.median(seconds) for seconds in zip(*loads, strict=True))
    assert many <= max(LIMIT, SHARE * few), f"{view}: {many:.3f} s; with {N_FEW} subscriptions {few:.3f} s"
