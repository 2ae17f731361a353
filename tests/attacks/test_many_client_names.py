"""Attack: one principal connects under a new name each time: the broker keeps the stream of each for a day."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tamis.errors import LimitError
from tamis.node import records
from tamis.routing.edge.limits import MAX_CLIENTS_OF_PRINCIPAL
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.machine import Connection
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.attacks.wire import HANGS, dialled, open_socket, run
from tests.server.processes import BrokerProcess, running


def test_a_new_name_beyond_the_limit_is_refused_and_an_old_one_is_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = SqliteStore(data)
    store.load()
    position = records.LinkPosition(1, 0, 0)
    names = [f"c:local:{number}" for number in range(MAX_CLIENTS_OF_PRINCIPAL)]
    store.commit(
        [records.EPOCH.put(value=1), *(records.LINK.put(name, value=position) for name in names)], now=time.time()
    )
    store.close()

    async def story(broker: BrokerProcess) -> str:
        async with dialled(broker, "client=0"):
            pass
        url = f"{broker.url.replace('http', 'ws', 1)}/v1/connect?client=new"
        async with open_socket(url, proxy=None, compression=None) as socket:
            await asyncio.wait_for(socket.wait_closed(), HANGS)
            return str(socket.close_reason)

    with running(BrokerProcess(tmp_path, f'data = "{data}"\n')) as (broker,):
        assert run(story(broker)) == "clients of 'local': 10,001 is more than the 10,000 accepted"


def test_names_are_counted_by_principal_until_they_are_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        driver = open_broker(BrokerConfig(data=str(tmp_path)))
        await driver.start()
        machine = driver.machine
        machine.node.core.registry.clients._most = 2
        for name in ("a", "b", "b"):
            machine.demand_name(f"c:eve:{name}")
            machine.connect(Connection(f"c:eve:{name}", Rights("eve")))
        machine.demand_name("c:bob:a")
        with pytest.raises(LimitError, match="clients of 'eve': 3"):
            machine.demand_name("c:eve:c")
        await driver.forget("c:eve:a")
        machine.demand_name("c:eve:c")
        await driver.stop()

    asyncio.run(asyncio.wait_for(story(), HANGS))
