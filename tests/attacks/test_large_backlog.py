"""H7: a backlog larger than memory is opened and sent; bodies in memory are bounded in bytes (G17, G19)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.node.effects import Persist
from tamis.node.records import LINK, OUT, LinkPosition
from tamis.node.stream import CLIENT_EPOCH, KEPT_BYTES
from tamis.routing import messages as m
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker import machine
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.stores.sqlite_store import SqliteStore
from tests.server.processes import HANGS

LINK_NAME = "c:local:away"

#: Messages of 1 MB, and the bytes that the process may need for a broker with all of them.
MESSAGES, ALLOWANCE = 200, 96 << 20

#: Opens a broker within a limit of memory, reads everything that waits, and acknowledges it.
READER = f"""
import asyncio, resource, sys
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.machine import Connection
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.packets import join_frames, split_frames

async def story():
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + {ALLOWANCE}, resource.RLIM_INFINITY))
    driver = open_broker(BrokerConfig(data=sys.argv[1]))
    await driver.start()
    connection, received = Connection("{LINK_NAME}", Rights("local")), 0
    driver.machine.connect(connection)
    while received < {MESSAGES}:
        packet = await driver.next_packet(connection)
        for frame in (decode_frame(data, "x") for data in split_frames(packet, "x")):
            assert frame.seq in (0, received + 1)
            received = max(received, frame.seq)
        answer = Frame(1, driver.machine.node.epoch, 0, received)
        driver.machine.receive(connection, join_frames([encode_frame(answer)]))
    await driver.stop()
    print(received)

asyncio.run(story())
"""


def test_a_backlog_larger_than_memory_is_opened_and_sent(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    store.load()
    for first in range(1, MESSAGES, 20):
        numbers = range(first, first + 20)
        changes: list[Persist] = [OUT.put(LINK_NAME, str(number), value=bytes(10**6)) for number in numbers]
        store.commit([*changes, LINK.put(LINK_NAME, value=LinkPosition(CLIENT_EPOCH, 0, numbers[-1]))], now=0)
    store.close()
    run = subprocess.run([sys.executable, "-c", READER, tmp_path], capture_output=True, check=False, timeout=HANGS)
    assert run.stdout.split() == [str(MESSAGES).encode()], run.stderr.decode()[-2000:]


def test_a_client_is_suspended_when_too_many_bytes_wait_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        driver = open_broker(BrokerConfig(data=str(tmp_path), max_backlog_bytes=500_000))
        await driver.start()
        subscription = m.Subscribe("s", b'{"op":">=","args":[{"property":"n"},0]}')
        await driver.subscribe([("s:default:1", subscription)], Rights("local"))
        for n in range(10):
            await driver.publish([{"n": n, "text": "x" * 100_000}], "default", Rights("local"), "test")
        assert driver.view.waiting_for("s:default:1") == 5  # the fifth is the first that reaches the bound
        assert driver.view.suspended == {"s:default:1"}
        driver.acknowledge("s:default:1", 3)
        while driver.view.suspended:
            await asyncio.sleep(0.01)
        await driver.publish([{"n": 10, "text": "x"}], "default", Rights("local"), "test")
        [*_, (_, gap), (_, last)] = driver.view.stream("s:default:1").read(3, 10)
        assert m.decode(gap, "s") == m.Gap(m.EventId("test@broker", driver._numbers.epoch, 6), 5)
        assert isinstance(m.decode(last, "s"), m.Delivery)
        await driver.stop()

    asyncio.run(asyncio.wait_for(story(), HANGS))


def test_what_is_kept_for_clients_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty idle clients get large events: some MiB each would be kept if messages were counted alone."""
    monkeypatch.setattr(machine, "MEMORY_BYTES", 3 * KEPT_BYTES)

    async def story() -> None:
        driver = open_broker(BrokerConfig(data=str(tmp_path)))
        await driver.start()
        subscription = m.Subscribe("s", b'{"op":">=","args":[{"property":"n"},0]}')
        await driver.subscribe([(f"c:local:{i}", subscription) for i in range(20)], Rights("local"))
        for n in range(10):
            await driver.publish([{"n": n, "text": "x" * 240_000}], "default", Rights("local"), "test")
        kept = [driver.machine.node.ends[f"c:local:{i}"].outbox for i in range(20)]
        assert {(len(outbox), outbox.bytes > 10 * 240_000) for outbox in kept} == {(10, True)}
        assert max(outbox.bytes_in_memory for outbox in kept) <= KEPT_BYTES
        assert sum(outbox.bytes_in_memory for outbox in kept) <= 3 * KEPT_BYTES
        await driver.stop()

    asyncio.run(asyncio.wait_for(story(), HANGS))
