"""A large table between processes: in parts, or in one message to a broker of an earlier release."""

from __future__ import annotations

import asyncio
from pathlib import Path

from websockets.typing import Subprotocol

import tamis
from tamis.routing import messages as m
from tamis.routing.table_parts import PART_ENTRIES
from tamis.runtime.packets import SUBPROTOCOL, TABLE_PARTS
from tests.attacks.wire import dialled, frames_of
from tests.server.processes import HANGS, BrokerProcess, a_line, ask, running

MANY = 1_100


async def table_of(broker: BrokerProcess, neighbour: str, *versions: str, life: int) -> list[m.TablePart | m.Update]:
    """Connect as a neighbour without state; return the messages of the table that the broker sends."""
    offered = [Subprotocol(version) for version in versions]
    table: list[m.TablePart | m.Update] = []
    async with dialled(broker, f"broker={neighbour}", life, subprotocols=offered) as wire:
        frames = wire.frames
        while True:
            for frame in frames:
                message = m.decode(frame.body, "broker") if frame.seq else None
                if isinstance(message, m.TablePart) and not message.is_last:
                    await wire.say(m.encode(m.PartTaken(message.number, message.index)))
                if isinstance(message, m.TablePart | m.Update):
                    table.append(message)
                    if isinstance(message, m.Update) or message.is_last:
                        return table
            frames = frames_of(await wire.socket.recv())


def test_a_large_table_crosses_between_processes(tmp_path: Path) -> None:
    holder, far = a_line(tmp_path, "ab")

    async def story() -> None:
        async with tamis.connect(holder.url) as reader:
            ids = [str(number) for number in range(MANY)]
            for start in range(0, MANY, 500):
                many = [{"id": id, "filter": f"n = {id}"} for id in ids[start : start + 500]]
                assert ask(f"{holder.url}/v1/subscriptions", "POST", many).status == 201
            whole = await table_of(holder, "b", SUBPROTOCOL, life=1)
            assert [(type(message), len(message.announce)) for message in whole] == [(m.Update, MANY)]
            parts = await table_of(holder, "b", TABLE_PARTS, SUBPROTOCOL, life=2)
            assert {type(part) for part in parts} == {m.TablePart}
            assert max(len(part.announce) for part in parts) == PART_ENTRIES
            keys = {entry.key for part in parts for entry in part.announce}
            assert keys == {entry.key for entry in whole[0].announce}
            last = await reader.subscribe(f"n = {MANY}", id="last", wait=m.State.ACCEPTED)
            far.start().wait_until_ready()
            await last.reached(m.State.ACTIVE)
            assert ask(f"{far.url}/v1/statistics").json["links"][0]["table_entries"] == MANY + 1
            async with tamis.connect(far.url) as publisher:
                await publisher.publish({"n": MANY})
                assert (await anext(last)).event == {"n": MANY}

    with running(holder):
        try:
            asyncio.run(asyncio.wait_for(story(), HANGS))
        finally:
            if far.process is not None:
                far.kill()
