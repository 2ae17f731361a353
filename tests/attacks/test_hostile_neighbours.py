"""Attack: a neighbouring broker sends what no broker sends.

It announces ranges of keys that lie beyond the content space or filters that are none, subscribes like a client, or
counts to 2**64. The frame is well formed, so it is read; the error used to come while it was applied, which stopped the
broker, or the broker stored it and did not start again. The link must be cut with a line in the log, nothing of the
message may be applied, and the broker must serve its clients and start again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tamis.index.mics.link import version_of
from tamis.index.mics.plan import RangeDelta, RangePlan
from tamis.model.schema import Schema
from tamis.routing import messages as m
from tamis.routing.policies.cell_tables import USUAL_CELLS
from tests.attacks.wire import dialled, frames_of, run
from tests.server.processes import BrokerProcess, ask, running

SCHEMA = '{"attributes": {"n": {"type": "number"}, "mag": {"type": "number"}}}'
SPACES = USUAL_CELLS.spaces_of(Schema.from_json(SCHEMA))
NOTHING, INSIDE = np.empty((0, 2), np.int64), np.array([[0, 0]])
BEYOND = np.array([[0, 2**62 - 1]])


def plan(added: np.ndarray, removed: np.ndarray, *, is_full: bool = True) -> bytes:
    parts = [RangeDelta(NOTHING, NOTHING) for _ in SPACES]
    parts[-1] = RangeDelta(added, removed)
    return RangePlan(version_of(SPACES), tuple(parts), is_full).to_bytes()


UPDATES = {
    "ranges that come": m.Update(1, replace=True, ranges=(m.Ranges("default", plan(BEYOND, NOTHING)),)),
    "ranges that go": m.Update(1, replace=True, ranges=(m.Ranges("default", plan(NOTHING, BEYOND, is_full=False)),)),
    "the second of two": m.Update(
        1, replace=True, ranges=(m.Ranges("a", plan(INSIDE, NOTHING)), m.Ranges("b", plan(BEYOND, NOTHING)))
    ),
    "no plan": m.Update(1, replace=True, ranges=(m.Ranges("default", b"MICS1\xff\xff\xff\xff"),)),
    "a subscription like a client's": m.Subscribe("s", b"true"),
    "the end of a subscription": m.Unsubscribe("s"),
    "a number beyond 64 bits": m.Update(2**63, replace=True),
    "a number below 0": m.Confirm(-1),
    "a gap of more events than there are numbers": m.LinkGap("default", m.EventId("a", 1, 1), 2**64 - 1),
    "a gap of no events": m.LinkGap("default", m.EventId("a", 1, 1), 0),
    "an event whose number is beyond 64 bits": m.Publish(m.Published(m.EventId("a", 1, 2**63), "default", b"\x80")),
    "an event with a long publisher": m.Publish(m.Published(m.EventId("a" * 100_000, 1, 1), "default", b"\x80")),
    "an event of a client of this broker": m.Publish(m.Published(m.EventId("c:a:b@broker", 1, 7), "default", b"\x80")),
    "an event in a long namespace": m.Publish(m.Published(m.EventId("a", 1, 1), "d" * 100_000, b"\x80")),
    "an event of more bytes than one has": m.Publish(
        m.Published(m.EventId("a", 1, 1), "default", b"\x80" + bytes(2**20))
    ),
    "an entry in a namespace that cannot be printed": m.Update(1, (m.Entry("k", "a\0b", b"true"),)),
    "an entry without a key": m.Update(1, (m.Entry("", "default", b"true"),)),
    "an entry with a long key": m.Update(1, (m.Entry("k" * 100_000, "default", b"true"),)),
    "a key twice": m.Update(1, (m.Entry("k", "default", b"true"),) * 2),
    "a filter that is not UTF-8": m.Update(1, (m.Entry("k", "default", b'"\xff"'),)),
    "a filter that is deep": m.Update(1, (m.Entry("k", "default", b"[" * 100_000),)),
    "a filter of half a character": m.Update(1, (m.Entry("k", "default", rb'{"op":"\ud800","args":[1]}'),)),
    "a filter that is a number": m.Update(1, (m.Entry("k", "default", b"7"),)),
    "an event that is not UTF-8": m.Publish(m.Published(m.EventId("a", 1, 1), "default", b"\x81\xa1n\xa1\xff")),
    "an event that is deep": m.Publish(m.Published(m.EventId("a", 1, 1), "default", b"\x81\xa1n" + b"\x91" * 100_000)),
    "an event with a map as a key": m.Publish(m.Published(m.EventId("a", 1, 1), "default", b"\x81\xa1n\x81\x80\x01")),
}


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("linked")
    (directory / "schema.json").write_text(SCHEMA)
    config = f'data = "{directory / "data"}"\nschema = "{directory / "schema.json"}"\n[[links]]\nname = "evil"\n'
    with running(BrokerProcess(directory, config)) as (broker,):
        yield broker


@pytest.mark.parametrize("name", UPDATES)
def test_the_link_is_cut_and_the_broker_goes_on(linked: BrokerProcess, name: str) -> None:
    async def story() -> None:
        for _ in range(2):  # a neighbour sends again what was not acknowledged
            async with dialled(linked, "broker=evil") as wire:
                await wire.say(m.encode(UPDATES[name]))
                assert await asyncio.wait_for(wire.closing(), 60)

    n_lines = linked.log().count("link 'evil': ")
    run(story())
    assert linked.log().count("link 'evil': ") == n_lines + 2
    assert ask(f"{linked.url}/healthz").status == 200
    assert linked.process is not None
    assert linked.process.poll() is None
    assert "Traceback" not in linked.log()


def test_nothing_of_a_refused_update_is_applied(linked: BrokerProcess) -> None:
    async def story() -> int:
        async with dialled(linked, "broker=evil") as wire:
            before = wire.sent
            await wire.say(m.encode(UPDATES["the second of two"]))
            await wire.closing()
        async with dialled(linked, "broker=evil") as wire:
            return wire.sent - before

    assert run(story()) == 0


def test_the_broker_starts_again(linked: BrokerProcess) -> None:
    linked.stop()
    linked.start().wait_until_ready()
    assert ask(f"{linked.url}/healthz").status == 200


def test_a_good_update_is_taken(linked: BrokerProcess) -> None:
    async def story() -> int:
        async with dialled(linked, "broker=evil") as wire:
            before = wire.sent
            await wire.say(m.encode(m.Update(1, replace=True, ranges=(m.Ranges("default", plan(INSIDE, NOTHING)),))))
            while not any(frame.ack > before for frame in frames_of(await wire.socket.recv())):
                pass
        async with dialled(linked, "broker=evil") as wire:
            return wire.sent - before

    assert run(story()) == 1
