"""Attack: go on talking to a broker that has just failed.

A step that raised may have left the memory of the broker half changed. Until the process ends, nothing may be built on
that memory: every step, commit and publish raises, and what is on disk stays as the last good step left it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import RefusedError
from tamis.node.effects import Persist
from tamis.node.node import Node, Transaction
from tamis.routing import messages as m
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.machine import Connection
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.attacks.wire import run

LINK, RIGHTS = "c:local:x", Rights("local")
SUBSCRIBE = m.Subscribe("s", b'{"op":">=","args":[{"property":"n"},0]}')


class Broken(Exception):
    """What the step raised."""


def broken(node: Node[Any], now: float) -> Transaction:
    raise Broken


async def failed_driver(directory: Path) -> Driver:
    driver = open_broker(BrokerConfig(data=str(directory)))
    await driver.start()
    await driver.publish([{"n": 1}], "default", RIGHTS, "test")
    with pytest.raises(Broken):
        driver._step(broken)
    assert driver.failed is not None
    with pytest.raises(Broken):
        await driver.failed
    return driver


def test_every_way_to_change_something_raises(tmp_path: Path) -> None:
    async def story() -> None:
        driver = await failed_driver(tmp_path)
        written: list[list[Persist]] = []
        driver.committer.put = lambda changes, then: written.append(changes)  # type: ignore[method-assign]
        ways = [
            lambda: driver.publish([{"n": 2}], "default", RIGHTS, "test"),
            lambda: driver.publish_once([{"n": 2}], "default", RIGHTS, "producer", 1),
            lambda: driver.unsubscribe(m.Unsubscribe("s"), LINK, RIGHTS),
            lambda: driver.subscribe([(LINK, SUBSCRIBE)], RIGHTS),
            lambda: driver.forget(LINK),
        ]
        for way in ways:
            with pytest.raises(RefusedError, match="failed"):
                await way()
        with pytest.raises(RefusedError, match="failed"):
            driver.machine.connect(Connection(LINK, RIGHTS))
        with pytest.raises(RefusedError, match="failed"):
            driver.acknowledge("test", 1)
        assert not written
        await driver.stop()

    run(story())


def test_what_waits_to_be_published_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        driver = open_broker(BrokerConfig(data=str(tmp_path)))
        await driver.start()
        waiting = asyncio.create_task(driver.publish([{"n": 2}], "default", RIGHTS, "test"))
        asyncio.get_running_loop().call_soon(fail, driver)  # after the publish, before it is given to the node
        with pytest.raises(RefusedError, match="failed"):
            await asyncio.wait_for(waiting, 60)
        await driver.stop()

    def fail(driver: Driver) -> None:
        driver._flush, flush = (lambda: None), driver._flush  # type: ignore[method-assign]
        with pytest.raises(Broken):
            driver._step(broken)
        assert driver.failed is not None
        driver.failed.exception()
        flush()

    run(story())


def test_the_disk_keeps_what_the_last_good_step_left(tmp_path: Path) -> None:
    async def story() -> None:
        driver = await failed_driver(tmp_path)
        with pytest.raises(tamis.TamisError):
            await driver.publish([{"n": 2}], "default", RIGHTS, "test")
        await asyncio.sleep(1.2)  # the ticker must not step either
        await driver.stop()

    run(story())
    store = SqliteStore(tmp_path)
    assert store.load()
    store.close()
