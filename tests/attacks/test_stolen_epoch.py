"""Attack: a client claims a later epoch than the real client of its name.

Without tokens every process on this machine is the same principal, so any of them may connect under any client name.
The epoch of a client is always 1. A broker that believed a frame of epoch 2**63 would persist it, drop what waits for
the client, and ignore the real client for ever.
"""

from __future__ import annotations

import pytest

import tamis
from tamis.node.frames import Frame, encode_frame
from tests.attacks.wire import dialled, packed, run
from tests.server.processes import BrokerProcess


@pytest.mark.parametrize("epoch", [2**63, 2, 0, -1])
def test_another_epoch_is_refused_and_the_client_keeps_its_queue(broker: BrokerProcess, epoch: int) -> None:
    name = f"pager{epoch}"

    async def story() -> None:
        async with tamis.connect(broker.url, client=name) as pager:
            await pager.subscribe("page >= 0", id="s")
        async with tamis.connect(broker.url) as other:
            await other.publish({"page": 7})
        async with dialled(broker, f"client={name}") as wire:
            await wire.socket.send(packed(encode_frame(Frame(epoch, wire.epoch, 0, 0))))
            assert "epoch" in await wire.closing()
        async with tamis.connect(broker.url, client=name) as pager:
            matches = await pager.subscribe("page >= 0", id="s")
            assert (await anext(matches)).event == {"page": 7}

    run(story())
