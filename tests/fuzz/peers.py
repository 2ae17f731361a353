"""Messages of a hostile peer: every kind of message, with seats, levels, numbers, boxes and events that are wrong.

Three peers form a tree. A fourth sends one of them messages; whatever raises there closes the connection, as in
`tamis.runtime.peer.process`. All messages cross as bytes. Afterwards no round of any peer may raise, every table is
consistent, and what the peers keep is bounded.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from tamis.errors import RemoteProtocolError, TamisError
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis.node.content import Content
from tamis.node.effects import Effect, Send
from tamis.overlay import messages as m
from tamis.overlay.peer import PeerCore
from tamis.overlay.seat import Shape
from tamis.overlay.space import Space
from tamis_lab.peers.express import Express
from tests.fuzz.harness import Area, main

SCHEMA = Schema({"a": Number(0, 10), "b": Number(0, 10)})
CONTENT, SPACE, SHAPE = Content(SCHEMA), Space(SCHEMA), Shape(2, 4)
SIDE = len(SPACE)

SEATS = [f"p{peer}/{seat}" for peer in range(3) for seat in range(3)]
NAMES = [*SEATS, *SEATS, "evil/0", "evil/1", "p0/9", "p0/", "", "/", "p0", "x" * 512, "x" * 600, "\0/0"]
NUMBERS = [0, 1, 2, 3, 5, 63, 64, 2**31, 2**62 - 1, 2**62, 2**62 + 1, 2**64 - 1, -1]


def box(low: float, high: float) -> bytes:
    return np.array([[low] * SIDE, [high] * SIDE]).tobytes()


BOXES = [
    box(0, 1),
    box(0.2, 0.4),
    box(0.5, 0.5),
    box(-1, 1),
    box(0.4, 0.2),
    box(float("nan"), float("nan")),
    box(-float("inf"), float("inf")),
    box(1e308, 1e308),
    box(0, 1) * 9,
    b"",
    b"\x00",
]
PAYLOADS = [
    msgspec.msgpack.encode({"a": 1, "b": 2}),
    msgspec.msgpack.encode({"a": float("nan")}),
    b"\x80",
    b"\xff",
    b"\x81\xa1a" + b"\x91" * 2_000,
]


def number(rng: random.Random) -> int:
    return rng.choice(NUMBERS[:4] if rng.random() < 0.8 else NUMBERS)


def few(rng: random.Random, choices: Sequence[Any]) -> list[Any]:
    return [rng.choice(choices) for _ in range(rng.choice([0, 1, 2, 3, 300]) if rng.random() < 0.1 else 2)]


def node(rng: random.Random) -> list[Any]:
    names = few(rng, NAMES)
    boxes = b"".join(rng.choice(BOXES[:3]) for _ in names) if rng.random() < 0.8 else rng.choice(BOXES)
    numbers = [number(rng) for _ in names] if rng.random() < 0.8 else []
    return [names, boxes, numbers, numbers, few(rng, NAMES) if rng.random() < 0.3 else []]


def value(rng: random.Random, name: str) -> Any:
    """Return a value for a field of a message, by what it means."""
    if name in ("to", "sender", "seat", "child", "heir", "old", "parent", "root", "came", "origin", "newborn"):
        return None if name in ("parent", "newborn") and rng.random() < 0.3 else rng.choice(NAMES)
    if name in ("box", "noted_box"):
        return rng.choice(BOXES[:3] if rng.random() < 0.7 else BOXES)
    if name == "event":
        id = [rng.choice(["p0", "p1", "evil"]), number(rng), number(rng)]
        return [id, rng.choice(["default", "other", "\0"]), rng.choice(PAYLOADS), number(rng)]
    if name in ("moved", "placed", "fresh", "mine", "down", "again", "complete"):
        return rng.random() < 0.5
    if name == "nodes":
        return [node(rng) for _ in range(rng.choice([0, 1, 1, 2, 17]))]
    if name == "instead":
        return [[number(rng), rng.choice(NAMES), rng.choice(BOXES)] for _ in range(rng.choice([0, 0, 1]))]
    if name == "above":
        return few(rng, NAMES)
    if name == "id":
        return [rng.choice(["p0", "evil"]), number(rng), number(rng)]
    if name == "token":
        return rng.choice(["", "p0/0 1", "p1/0 0", "x" * 700])
    return number(rng)


KINDS = (
    *(m.Insert, m.Adopt, m.Adopted, m.TakeOver, m.Owner, m.Replace, m.MbrReport, m.Grown, m.Detach),
    *(m.Ping, m.Pong, m.Seek, m.Invite, m.Forward, m.Receipt),
)


def messages(rng: random.Random) -> list[list[Any]]:
    """Return the fields of some messages to seats of the first peer, each with its tag."""
    sent = []
    for _ in range(rng.randrange(1, 8)):
        kind = rng.choice(KINDS)
        fields = [value(rng, name) for name in kind.__struct_fields__]
        fields[0] = rng.choice(["p0/0", "p0/1", "p0/2", "p0/0", rng.choice(NAMES)])
        sent.append([kind.__struct_config__.tag, *fields])
    return sent


class Careful(Express):
    """Mail as bytes; what a peer cannot apply is dropped, as its process does."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped = 0

    def run(self, at_most: int | None = None) -> None:
        for _ in range(2_000 if at_most is None else at_most):
            if not self._mail:
                return
            name, sender, message = self._mail.popleft()
            core = self.peers.get(name)
            if core is None:
                continue
            if not isinstance(message, m.SeatMessage):  # of its own process: nothing may raise
                self.carry_out(name, core.handle(message, sender=sender, now=self.now))
                continue
            try:
                effects = core.handle(message, sender=sender, now=self.now)
            except Exception:
                self.dropped += 1
                continue
            self.carry_out(name, effects)

    def carry_out(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                data = m.encode(effect.message)
                try:
                    effect = Send(effect.link, m.decode(data, name))
                except RemoteProtocolError:  # a hostile number that was passed on, with one added
                    self.dropped += 1
                    continue
            super().carry_out(name, [effect])


def tree() -> Careful:
    """Return three peers with two seats each, in a tree."""
    express = Careful()
    for peer in range(3):
        express.add(PeerCore(f"p{peer}", CONTENT, SPACE, SHAPE, "p0/0" if peer else None))
        for seat in range(2):
            filter = CONTENT.write_filter(CONTENT.compile(f"a BETWEEN {peer} AND {peer + 4} AND b > {seat}"))
            express.submit(f"p{peer}", m.SubscribeRequest(seat, filter))
            express.run()
    for _ in range(3):
        express.round(["p0/0"])
    return express


_TREE = tree()


def treat(source: list[list[Any]]) -> str:
    """Let a hostile peer send its messages; return what became of the last one."""
    express = copy.deepcopy(_TREE)
    target, outcome = express.peers["p0"], ""
    for fields in source:
        data = b"\x01" + msgspec.msgpack.encode(fields)
        kind = KINDS[fields[0] - 1].__name__
        try:
            effects = target.handle(m.decode(data, "evil"), sender="evil", now=express.now)
        except TamisError:
            outcome = f"{kind} refused"
            continue
        except Exception:
            outcome = f"{kind} dropped"
            continue
        outcome = f"{kind} taken"
        express.carry_out("p0", effects)
        express.run()
    for _ in range(4):
        express.round(["p1/0"])
    for core in express.peers.values():
        core.check_invariants()
    return outcome


AREA = Area("peers", messages, treat)

if __name__ == "__main__":
    sys.exit(main(AREA))
