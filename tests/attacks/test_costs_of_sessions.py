"""What a broker does every few seconds for absent clients costs nothing for subscriptions that stay."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tamis.routing import messages as m
from tamis.routing.edge.link_names import http_link
from tamis.routing.edge.registry import Registry
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker import sessions
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.open_broker import open_broker

FILTER = b'{"op":">=","args":[{"property":"n"},0]}'


def test_descriptions_of_durable_subscriptions_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's 75 subscriptions with half a megabyte of metadata each held the event loop for 2 s every 5 s."""
    decoded: list[m.Subscribe] = []
    about = m.about

    async def story() -> None:
        driver = await open_driver(tmp_path)
        absent = [(http_link("default", id), m.Subscribe(id, FILTER, about=b"{}")) for id in range(50)]
        passing = [(http_link("default", "p"), m.Subscribe("p", FILTER, about=b'{"durable":false}'))]
        await driver.subscribe([*absent, *passing], Rights("local"))
        monkeypatch.setattr(m, "about", lambda message: decoded.append(message) or about(message))
        ending = asyncio.create_task(sessions.end_sessions(driver, retention=0.0, grace=0.0, look=0.001))
        while len(driver.view.subscriptions) > 50:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        ending.cancel()
        assert len(driver.view.subscriptions) == 50
        await driver.stop()

    asyncio.run(asyncio.wait_for(story(), 60))
    assert {message.id for message in decoded} <= {"p"}


def test_many_links_are_looked_at_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LINKS_AT_ONCE", 7)
    looks: list[int] = []

    async def story() -> None:
        driver = await open_driver(tmp_path)
        await driver.subscribe(
            [(http_link("default", id), m.Subscribe(id, FILTER, about=b"{}")) for id in range(30)], Rights("local")
        )
        search = Registry.without_subscriptions
        monkeypatch.setattr(
            Registry, "without_subscriptions", lambda self, links: looks.append(len(links)) or search(self, links)
        )
        ending = asyncio.create_task(sessions.end_sessions(driver, retention=0.0, grace=0.0, look=0.001))
        while len(looks) < 10:
            await asyncio.sleep(0.001)
        ending.cancel()
        assert len(driver.view.links) == 30
        await driver.stop()

    asyncio.run(asyncio.wait_for(story(), 60))
    assert looks[:6] == [7, 7, 7, 7, 2, 0]


async def open_driver(directory: Path) -> Driver:
    driver = open_broker(BrokerConfig(data=str(directory)))
    await driver.start()
    return driver
