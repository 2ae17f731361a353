"""Messages of a hostile neighbour: well-formed, with numbers, names, filters, events and ranges that are wrong.

A broker with a hostile neighbour, another neighbour and a client takes some frames of the hostile one. A frame is
taken, or it cuts the link with a reason. Whatever it was, every invariant holds, nothing is sent to the other neighbour
that would cut its link, what the broker stores fits any store, and the broker starts again from its disk.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import msgspec
import numpy as np

from tamis.errors import RemoteProtocolError
from tamis.index.mics.link import version_of
from tamis.index.mics.plan import RangeDelta, RangePlan
from tamis.model.schema import Schema
from tamis.node import records
from tamis.node.content import Content
from tamis.node.node import Codec, Node
from tamis.node.stream import CLIENT_EPOCH, Ends, Quota
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.link_gaps import SkipLink
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.link_names import http_link
from tamis.routing.edge.requests import ChangeLink, Post, Posts, SubscribeFor
from tamis.routing.edge.rights import Rights
from tamis.routing.neighbour_checks import check_message
from tamis.routing.policies import find_policy
from tamis.routing.policies.cell_tables import USUAL_CELLS
from tamis.runtime.broker.machine import BrokerMachine, Connection
from tamis.runtime.packets import join_frames
from tamis.runtime.simulation.disk import SimulatedDisk
from tests.fuzz.harness import Area, main

SCHEMA = Schema.from_json('{"attributes": {"n": {"type": "number"}, "t": {"type": "string"}, "g": {"type": "region"}}}')
SPACES = USUAL_CELLS.spaces_of(SCHEMA)
LINK_POLICIES = ("covering", "identity", "merging", "subsumption", "mics", "two-stage")

NUMBERS = [0, 1, 2, 3, 7, 255, 2**31, 2**53, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**63)]
NAMES = ["default", "default", "default", "other", "*", "", "a" * 128, "a" * 129, "a\0b", "\n", "\u202e", "x" * 70_000]
KEYS = ["k", "k", "j", '["alice","default","s"]', "", "\0", "k" * 3_000, "k" * 5_000, "é" * 64]
FILTERS = [
    b'{"op":">","args":[{"property":"n"},1]}',
    b'{"op":"<=","args":[{"property":"n"},5]}',
    b'{"op":"=","args":[{"property":"t"},"x"]}',
    b'{"op":"and","args":[{"op":">","args":[{"property":"n"},1]},{"op":"<","args":[{"property":"n"},3]}]}',
    b'{"op":"s_intersects","args":[{"property":"g"},{"type":"Point","coordinates":[1,2]}]}',
    b'{"op":"=","args":[{"property":"unknown"},7]}',
    b'{"op":"=","args":[{"property":"n"},"text"]}',
    b'{"op":">","args":[{"property":"n"},1e308]}',
    b'{"op":">","args":[{"property":"n"},1e999]}',
    b'{"op":">","args":[{"property":"n"},NaN]}',
    b'{"op":"not","args":[' * 400,
    b"true",
    b"false",
    b"",
    b"\xff",
    b"[" * 3_000,
]
VALUES: list[Any] = [
    0,
    1,
    2.5,
    float("nan"),
    float("inf"),
    -0.0,
    2**63,
    "x",
    "",
    None,
    True,
    b"\x01",
    [1],
    {"n": 1},
    "\0",
]
WORDS = ["east", "west", "good", "evil", "here", "", "b\nb", "x" * 129]


def number(rng: random.Random, usual: int) -> int:
    return usual if rng.random() < 0.8 else rng.choice(NUMBERS)


def text(rng: random.Random, usual: str, odd: list[str]) -> str:
    return usual if rng.random() < 0.7 else rng.choice(odd)


def event(rng: random.Random) -> list[Any]:
    id = [text(rng, "alice@east", KEYS), number(rng, 1), number(rng, rng.randrange(9))]
    values = {rng.choice(["n", "n", "t", "g", "", "z" * 300]): rng.choice(VALUES) for _ in range(rng.randrange(3))}
    payload = msgspec.msgpack.encode(values) if rng.random() < 0.9 else rng.choice(FILTERS)
    return [id, text(rng, "default", NAMES), payload]


def plan(rng: random.Random) -> bytes:
    def runs() -> Any:
        first = rng.choice([0, 5, 2**40, 2**61])
        return np.array([[first, first + rng.choice([0, 9, 2**30])]][: rng.randrange(2)], np.int64).reshape(-1, 2)

    parts = tuple(RangeDelta(runs(), runs()) for _ in range(rng.choice([len(SPACES)] * 5 + [0, 1, 9])))
    data = RangePlan(version_of(SPACES), parts, rng.random() < 0.5).to_bytes()
    return data if rng.random() < 0.8 else data[: rng.randrange(len(data))] + rng.choice(FILTERS)


def update(rng: random.Random) -> list[Any]:
    entries = [
        [
            text(rng, f"k{rng.randrange(4)}", KEYS),
            text(rng, "default", NAMES),
            rng.choice(FILTERS[: rng.choice([5, 16])]),
        ]
        for _ in range(rng.choice([0, 1, 2, 40]))
    ]
    retract = [rng.choice([f"k{rng.randrange(4)}", *KEYS]) for _ in range(rng.randrange(3))]
    ranges = [[text(rng, "default", NAMES), plan(rng)] for _ in range(rng.choice([0, 0, 1, 2]))]
    return [8, number(rng, rng.randrange(1, 5)), entries, retract, rng.random() < 0.4, ranges]


def part(rng: random.Random) -> list[Any]:
    """Return the fields of a part of a table, or of an answer to one."""
    table, index = number(rng, rng.randrange(1, 3)), number(rng, rng.randrange(3))
    if rng.random() < 0.2:
        return [28, table, index]
    _, _, entries, retract, is_last, ranges = update(rng)
    return [27, table, index, entries, retract, is_last, ranges if is_last or rng.random() < 0.2 else []]


def reach(rng: random.Random) -> list[Any]:
    brokers = [[rng.choice(WORDS), rng.choice(["evil", *WORDS]), number(rng, 5)] for _ in range(rng.randrange(4))]
    return [
        25,
        number(rng, 3),
        rng.random() < 0.5,
        brokers,
        [[rng.choice(WORDS), rng.choice(WORDS)]][: rng.randrange(2)],
    ]


def message(rng: random.Random) -> list[Any]:
    """Return the fields of one message, with its tag."""
    choice = rng.random()
    if choice < 0.35:
        return update(rng) if rng.random() < 0.6 else part(rng)
    if choice < 0.55:
        return [3, event(rng)] if rng.random() < 0.5 else [4, [event(rng) for _ in range(rng.randrange(5))]]
    if choice < 0.7:
        id = [text(rng, "bob@west", KEYS), number(rng, 1), number(rng, 1)]
        return [24, text(rng, "default", NAMES), id, number(rng, 3)]
    if choice < 0.85:
        return [rng.choice([9, 9, 9, 10, 11]), number(rng, 1)] if rng.random() < 0.7 else [rng.choice([10, 11])]
    subscribe = [1, rng.choice(KEYS), rng.choice(FILTERS), text(rng, "default", NAMES), None, b""]
    others = [
        subscribe,
        [22, [subscribe]],
        [2, rng.choice(KEYS), "default"],
        [5, "s", "default", "active"],
        [6, event(rng), ["s"]],
        [7, "s", "no"],
        [20, ["p", 1, 1], number(rng, 3)],
        [21, b"{}"],
        [23, "s", "default", []],
        [26, number(rng, 1), []],
        reach(rng),
    ]
    return rng.choice(others)


def frames(rng: random.Random) -> tuple[Any, ...]:
    """Return the policies of the links, whether an operator skips the good one, and what the neighbour sends."""
    sent = []
    for _ in range(rng.randrange(1, 6)):
        if rng.random() < 0.1:
            sent.append(([number(rng, 3), number(rng, 9), 0, number(rng, 0)], reach(rng)))
        epoch = rng.choice([3, 3, 3, 3, 4, 5, number(rng, 6)])
        head = [epoch, 9, number(rng, 1) if rng.random() < 0.1 else 1, number(rng, 1) if rng.random() < 0.3 else 0]
        sent.append((head, message(rng)))
    return rng.choice(LINK_POLICIES), rng.choice(LINK_POLICIES), rng.random() < 0.3, sent


class World:
    """A broker with two neighbours and a client, and its disk; it can be started again from that."""

    def __init__(self, policies: tuple[str, str]) -> None:
        self.policies = policies
        self.disk = SimulatedDisk()
        self.now = 100.0

    def start(self) -> None:
        content = Content(SCHEMA)
        links = dict(zip(("evil", "good"), map(find_policy, self.policies), strict=True))
        ends = Ends()
        edge = EdgeCore(BrokerCore("here", links, content), content, ends, audited=len(self.disk.audit))
        node = Node(
            edge,
            list(links),
            Codec(m.encode, m.decode),
            9,
            records.Stored(self.disk.load()),
            Quota(20, 1 << 20),
            ends,
            backlogs=self.disk.backlogs(),
            read=self.disk.read_outbox,
        )
        self.machine = BrokerMachine(
            node, clock=lambda: self.now, commit=self._commit, read=self.disk.read_outbox, cpu_clock=lambda: 0.0
        )
        self.machine.step(lambda node, now: node.start(now))

    def _commit(self, changes: Any, then: Any) -> None:
        for change in changes:
            records.find_kind(change.key)
            if change.key[0] == "out":
                assert int(change.key[2]) < 2**63, "no store has such numbers"
                if change.key[1] == "good" and change.value is not None:
                    sent = m.decode(change.value, "good")
                    check_message(sent, "good", "good")
        self.disk.commit(changes)
        then()

    def connect(self, link: str) -> Connection:
        connection = Connection(link)
        self.machine.connect(connection)
        return connection

    def take(self, connection: Connection, head: list[int], body: bytes) -> None:
        data = b"\x01" + msgspec.msgpack.encode([*head, body])
        self.machine.receive(connection, join_frames([data]))

    def check(self) -> None:
        """Check the invariants of the broker, and that its disk has what its memory has."""
        self.machine.node.core.check_invariants()
        waiting: dict[str, list[int]] = {}
        for (link, number), _ in records.OUT.items(self.disk.state):
            waiting.setdefault(link, []).append(int(number))
        for link, end in self.machine.node.ends.items():
            assert sorted(waiting.get(link, [])) == list(range(end.acknowledged + 1, end.sent + 1)), link
            position = records.LINK.find(self.disk.state, link)
            assert position is None or position.peer_epoch == end.peer_epoch, link

    def settle(self) -> None:
        """Do the work that steps have left."""
        for _ in range(8):
            self.now += 1
            self.machine.tick()
        self.check()


def begin(policies: tuple[str, str]) -> tuple[World, Connection]:
    world = World(policies)
    world.start()
    good, evil = world.connect("good"), world.connect("evil")
    world.take(good, [3, 9, 1, 0], m.encode(m.Update(1, (m.Entry("g", "default", FILTERS[0]),), replace=True)))
    link, request = http_link("default", "s"), m.Subscribe("s", FILTERS[1])
    world.machine.submit(SubscribeFor(((link, request),), Rights("alice")))
    world.machine.attach([link], CLIENT_EPOCH)
    world.take(evil, [3, 9, 1, 0], m.encode(m.Update(1, (m.Entry("e", "default", b"true"),), replace=True)))
    event = Post(({"n": 2},), "default", Rights("alice"), "p", 1)
    world.machine.submit(Posts((event, event)))  # they wait for the neighbours
    return world, evil


def treat(source: tuple[Any, ...]) -> str:
    """Let a hostile neighbour send its frames; return what became of the last one."""
    first, second, is_skipped, sent = source
    world, evil = begin((first, second))
    if is_skipped:
        world.machine.submit(ChangeLink(SkipLink("good", True), Rights("admin")))
    outcome = ""
    for (epoch, to, seq, ack), fields in sent:
        end = world.machine.node.ends.get("evil")
        if end is None:
            outcome = "refused as a ring"
            break
        number = end.received + 1 if seq == 1 else seq
        try:
            body = b"\x01" + msgspec.msgpack.encode(fields)
            world.take(evil, [epoch, to, number, ack], body)
            outcome = f"{fields[0]} taken"
        except RemoteProtocolError:
            outcome = f"{fields[0]} cut"
            evil.close()
            world.machine.disconnect(evil)
            evil = world.connect("evil")
        world.check()
    world.settle()
    world.start()
    world.settle()
    return outcome


AREA = Area("neighbours", frames, treat)

if __name__ == "__main__":
    sys.exit(main(AREA))
