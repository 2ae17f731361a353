"""A small world of peers, driven in the order of messages, and the oracle that judges it.

The oracle is the naive network: every event meets every subscription that was active when it was published. What it
delivers to a peer that is still there, and whose subscription still is, the peers must deliver too, exactly once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from tamis import Number, Schema
from tamis.algebra.evaluate import matches
from tamis.model.subscription import Filter
from tamis.node.content import Content
from tamis.node.effects import Effect, Send
from tamis.overlay import messages as m
from tamis.overlay.peer import PeerCore
from tamis.overlay.seat import Seat, Shape
from tamis.overlay.space import Space
from tamis_lab.peers.express import Express
from tests.overlay.legal import illegal

SIDE = 10
SCHEMA = Schema({"a": Number(0, SIDE), "b": Number(0, SIDE)})
CONTENT = Content(SCHEMA)
SPACE = Space(SCHEMA)
#: Rounds in which every state must have become legal and every event complete.
BOUND = 60


def random_text(rng: random.Random) -> str:
    """Return a filter: mostly a box, now and then one side, a union, or a missing value."""
    low, high = sorted((rng.randint(0, SIDE), rng.randint(0, SIDE)))
    left, right = sorted((rng.randint(0, SIDE), rng.randint(0, SIDE)))
    box = f"a BETWEEN {low} AND {high} AND b BETWEEN {left} AND {right}"
    return rng.choice(
        [box] * 5 + [f"a > {low}", f"a = {low} OR b = {left}", "b IS NULL", f"a <> {low} AND b < {right}"]
    )


class RoughExpress(Express):
    """Mail of which some is lost and some overtakes other, while ``is_rough``."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.is_rough = True
        self._rng = random.Random(seed)

    def carry_out(self, name: str, effects: list[Effect]) -> None:
        if self.is_rough:
            effects = [effect for effect in effects if not isinstance(effect, Send) or self._rng.random() > 0.02]
        before = len(self._mail)
        super().carry_out(name, effects)
        if self.is_rough and len(self._mail) > before and self._rng.random() < 0.1:
            self._mail.insert(self._rng.randrange(min(before, 30) + 1), self._mail.pop())


@dataclass
class Due:
    """An event, and the subscriptions that must get it."""

    id: m.EventId
    readers: set[tuple[str, int]]


@dataclass
class World:
    """Peers that join, leave, crash and publish."""

    shape: Shape
    express: Express = field(default_factory=Express)
    subscribed: dict[tuple[str, int], tuple[Filter, ...]] = field(default_factory=dict)
    published: dict[str, int] = field(default_factory=dict)
    due: list[Due] = field(default_factory=list)
    n_peers: int = 0

    @property
    def peers(self) -> dict[str, PeerCore]:
        return self.express.peers

    def contact(self) -> str | None:
        """Return a seat of the oldest peer that has one: every peer knows it."""
        return next((core.contact_seat for core in self.peers.values() if core.contact_seat), None)

    def join(self, rng: random.Random, subscriptions: int = 1) -> str:
        seats = [core.contact_seat for core in self.peers.values() if core.contact_seat is not None]
        first = f"{next(iter(self.peers))}/0" if self.peers else None
        name, contact = f"p{self.n_peers}", rng.choice(seats) if seats else first
        self.n_peers += 1
        self.express.add(PeerCore(name, CONTENT, SPACE, self.shape, contact))
        for number in range(subscriptions):
            filters = CONTENT.compile(random_text(rng))
            self.subscribed[name, number] = filters
            self.express.submit(name, m.SubscribeRequest(number, CONTENT.write_filter(filters)))
        return name

    def leave(self, place: tuple[str, int]) -> None:
        del self.subscribed[place]
        self.express.submit(place[0], m.UnsubscribeRequest(place[1]))

    def crash(self, name: str) -> None:
        self.express.remove(name)
        self.subscribed = {place: filters for place, filters in self.subscribed.items() if place[0] != name}

    def publish(self, name: str, event: dict[str, int]) -> None:
        payload = CONTENT.write_event(event)
        values = CONTENT.read_event(payload)
        active = {place for place in self.subscribed if self.peers[place[0]].is_active("default", place[1])}
        readers = {place for place in active if any(matches(values, filter) for filter in self.subscribed[place])}
        self.published[name] = self.published.get(name, 0) + 1
        self.due.append(Due(m.EventId(name, 1, self.published[name]), readers))
        self.express.submit(name, m.PublishRequest(payload))

    def seats(self) -> list[Seat]:
        return list(self.express.seats())

    def round(self) -> None:
        self.express.round([self.contact()])

    def heal(self) -> int:
        """Live through rounds until the state is legal and no peer waits; return how many it took.

        Without subscriptions there is no tree, and publishers hold their events until there is one.
        """
        self.express.run()
        for number in range(BOUND):
            waiting = bool(self.seats()) and any(core.is_waiting for core in self.peers.values())
            if not illegal(self.seats()) and not waiting:
                return number
            self.round()
        raise AssertionError(f"not legal after {BOUND} rounds: {illegal(self.seats())[:5]}")

    def check_deliveries(self) -> None:
        got: dict[tuple[str, m.EventId], tuple[int | str, ...]] = {}
        for name, delivery in self.express.deliveries:
            assert (name, delivery.event.id) not in got, "an event came twice"
            got[name, delivery.event.id] = delivery.subscriptions
        for publication in self.due:
            if publication.id.publisher in self.peers:
                for name, number in publication.readers & self.subscribed.keys():
                    assert number in got.get((name, publication.id), ()), (
                        f"{name} did not get {publication.id} for {number}"
                    )


def step(world: World, rng: random.Random, *, crashes: bool = True) -> None:
    """Let something happen."""
    dice, live = rng.random(), list(world.peers)
    if dice < 0.45 or len(live) < 3:
        world.join(rng, rng.choice((1, 1, 1, 2, 3)))
    elif dice < 0.65 and world.subscribed:
        world.leave(rng.choice(list(world.subscribed)))
    elif dice < 0.75 and crashes:
        roots = [m.peer_of(seat.name) for seat in world.seats() if seat.parent is None]
        victims = rng.sample(live, min(len(live) - 1, rng.choice((1, 1, 2, 4))))
        for name in dict.fromkeys(victims + roots[: rng.random() < 0.3]):
            if len(world.peers) > 1:
                world.crash(name)
    else:
        event = {"a": rng.randint(0, SIDE)} | ({"b": rng.randint(0, SIDE)} if rng.random() < 0.8 else {})
        world.publish(rng.choice(live), event)


def corrupt(world: World, rng: random.Random) -> None:
    """Change pointers, MBRs, levels and notes of many seats at random; what was asked for stays."""
    seats = world.seats()
    names = [seat.name for seat in seats]
    for seat in seats:
        if rng.random() < 0.4:
            seat.up.name = rng.choice([None, seat.name, "absent/0", *names[:8], rng.choice(names)])
        if rng.random() < 0.3 and seat.levels:
            del seat.levels[rng.randrange(len(seat.levels)) :]
        for level in seat.levels:
            if rng.random() < 0.4:
                level.boxes[rng.randrange(len(level))] = np.sort(
                    np.array([[rng.uniform(-1, 1) for _ in range(2)] for _ in range(2)]), axis=0
                )
            if rng.random() < 0.2:
                level.boxes[rng.randrange(len(level))] = rng.choice([np.nan, 7.0])
            if rng.random() < 0.3:
                level.put(rng.choice([*names, "ghost/0"]), seat.box)
            if rng.random() < 0.2 and len(level) > 1:
                level.remove(rng.choice(level.names))
            if rng.random() < 0.2:
                level.leaving.add(rng.choice(level.names))
            level.passed[rng.choice(level.names)] = rng.randrange(5)
        seat.up.received = rng.randrange(5)
        seat.dissolution.active, seat.membership.yielding = rng.random() < 0.1, rng.random() < 0.2
        seat.up.newborn = rng.choice([None, None, None, rng.choice(names)])
