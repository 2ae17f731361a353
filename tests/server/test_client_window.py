"""A client that asks more at once than its window holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import tamis
from tests.server.processes import BrokerProcess, running


def test_more_subscriptions_at_once_than_the_window_holds(tmp_path: Path) -> None:
    """The window is 64 messages; what does not fit goes when acknowledgements make room."""

    async def ask(url: str) -> int:
        async with tamis.connect(url) as client:
            subscriptions = await asyncio.wait_for(
                asyncio.gather(*(client.subscribe(f"n = {i}", id=i) for i in range(150))), 60
            )
            return len(subscriptions)

    with running(BrokerProcess(tmp_path / "broker")) as (broker,):
        assert asyncio.run(ask(broker.url)) == 150
