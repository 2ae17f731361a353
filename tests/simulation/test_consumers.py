"""Consumers that share a queue die, are late and give back, while their broker crashes: every event is settled once.

One simulated broker with the production classes; the judge sees what each consumer was given and when.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from unittest import mock

import msgspec
import pytest

from tamis import Number, Schema
from tamis.errors import InvariantError
from tamis.node.content import Content
from tamis.node.stream import StreamEnd
from tamis.routing import messages as m
from tamis.routing.consumers import sharing
from tamis.routing.consumers.requests import Bury, Drop, Replay, Settle, Settled, Take, Taken
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.link_names import dead_letters_link, http_link
from tamis.routing.edge.requests import Accepted, Post, Posts, SubscribeFor
from tamis.routing.edge.rights import Rights
from tamis.runtime.simulation.brokers import BrokerSimulator
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults

CONTENT = Content(Schema({"n": Number(0, 10_000)}))
LINK = http_link("default", "shared")
DEAD = dead_letters_link(LINK)
RIGHTS = Rights("local")
MOST, SECONDS, HOLD = 3, 30.0, 2.0


class Shared:
    """One seed: a broker that crashes, a producer, and consumers that are not reliable."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sim = BrokerSimulator(seed=seed, faults=Faults(crash=0.02, downtime=1.0))
        self.host = self.sim.add_broker("b", self._edge, ())
        self.published: list[int] = []
        self.posting: Post | None = None
        #: ``{event: times it was given out}``, and those that a consumer knows to be settled.
        self.handed_out: Counter[int] = Counter()
        self.settled: Counter[int] = Counter()
        #: ``{number: (consumer, until)}`` of what consumers believe to hold.
        self.held: dict[int, tuple[str, float]] = {}
        self.buried = 0
        #: ``{id of a request: (moment, its messages)}`` of answers that were lost, and how many requests were repeated.
        self.lost: dict[str, tuple[float, Taken]] = {}
        self.repeated = 0

    def _edge(self, ends: dict[str, StreamEnd], audited: int) -> EdgeCore:
        return EdgeCore(BrokerCore("b", {}, CONTENT), CONTENT, ends, audited=audited)

    def run(self) -> None:
        about = msgspec.json.encode(m.About("local", "n >= 0", max_deliveries=MOST))
        message = m.Subscribe("shared", CONTENT.write_filter(CONTENT.compile("n >= 0")), about=about)
        self.sim.faults, faults = NO_FAULTS, self.sim.faults
        self.host.machine.submit(SubscribeFor(((LINK, message),), RIGHTS))
        self.host.machine.attach([DEAD], 1)
        self.sim.run()
        self.sim.faults = faults
        for _ in range(25):
            self.sim.call_later(self.rng.uniform(0, SECONDS), self._publish)
        for consumer in ("one", "two", "three"):
            for _ in range(30):
                self.sim.call_later(self.rng.uniform(0, SECONDS), self._take, consumer, self.rng.random() < 0.6)
        self.sim.run(until=SECONDS)
        self.sim.faults = NO_FAULTS
        self._drain()
        self._judge()

    def _publish(self) -> None:
        if self.host.machine is None:
            return
        n = len(self.published) + 1
        self.published.append(n)
        # Each event has a producer of its own: the next number of a producer would count as the end of the last one.
        post = Post(({"n": n},), "default", RIGHTS, f"p{n}@b", 1, producer=f"p{n}")
        self.host.machine.submit(Posts((post,)))
        self.sim.call_later(0.3, self._publish_again, post)

    def _publish_again(self, post: Post) -> None:
        """Send a numbered event again until it is taken: the first time may have died with the broker."""
        answers: list[Any] = []
        if self.host.machine is not None:
            self.host.machine.submit(Posts((post,)), done=answers.extend)
        self.sim.call_later(0.3, lambda: None if answers else self._publish_again(post))
        assert all(isinstance(answer, Accepted) for answer in answers)

    def _take(self, consumer: str, is_reliable: bool, id: str = "") -> None:
        if self.host.machine is not None:
            id = id or f"{consumer} {self.sim.now}"
            self.host.machine.consume(
                Take(LINK, consumer, self.rng.randint(1, 3), HOLD, MOST, id=id),
                lambda taken: self._took(consumer, is_reliable, taken, id),
            )
        elif id:
            self.sim.call_later(0.2, self._take, consumer, is_reliable, id)

    def _took(self, consumer: str, is_reliable: bool, taken: Taken, id: str) -> None:
        now = self.sim.now
        is_repeated = id in self.lost
        if is_repeated:
            moment, former = self.lost.pop(id)
            if now < moment + HOLD - 0.05:
                self.repeated += 1
                if taken.numbers != former.numbers:
                    raise InvariantError(f"a repeated request got {taken.numbers} instead of {former.numbers}")
        bodies = self._bodies(LINK, (*taken.numbers, *taken.worn))
        for number, count in taken.numbers.items():
            holder, until = self.held.get(number, ("", 0.0))
            if until > now + 0.01 and holder != consumer:
                raise InvariantError(f"message {number} went to {consumer} while {holder} held it")
            if count > MOST:
                raise InvariantError(f"message {number} was taken {count} times")
            self.held[number] = (consumer, now + HOLD - 0.05)
            self.handed_out[self._n(bodies[number])] += 1
        if taken.worn:
            letters = tuple((number, bodies[number]) for number in taken.worn)
            self.sim.call_later(self.rng.uniform(0, 1.0), self._bury, letters)  # two takes may ask for the same letters
        if taken.numbers and not is_repeated and self.rng.random() < 0.3:
            self.lost[id] = now, taken  # the broker may crash before the consumer sends it again
            self.sim.call_later(self.rng.uniform(0, 1.0), self._take, consumer, is_reliable, id)
        elif taken.numbers:
            pause = self.rng.uniform(0, 1.0 if is_reliable else 2 * HOLD)
            self.sim.call_later(pause, self._settle, consumer, taken, bodies, is_reliable)

    def _bury(self, letters: tuple[tuple[int, bytes], ...]) -> None:
        if self.host.machine is not None:
            self.host.machine.consume(Bury(LINK, DEAD, letters, MOST), self._count_buried)

    def _count_buried(self, answer: Settled) -> None:
        self.buried += answer.count

    def _settle(self, consumer: str, taken: Taken, bodies: dict[int, bytes], is_reliable: bool) -> None:
        numbers = list(taken.numbers)
        self.rng.shuffle(numbers)
        if self.host.machine is None or (not is_reliable and self.rng.random() < 0.5):  # it died
            return
        cut = len(numbers) if is_reliable else self.rng.randint(0, len(numbers))
        done, released = tuple(numbers[:cut]), tuple(numbers[cut:])
        for id in [id for id, (_, former) in self.lost.items() if former.numbers.keys() & {*numbers}]:
            del self.lost[id]  # the consumer had taken the same messages before, and settles them now

        def note(answer: Settled) -> None:
            for number in set(done) - set(answer.late):
                self.settled[self._n(bodies[number])] += 1
            give_back()  # also what it has taken again since

        def give_back() -> None:
            for number in released:
                if self.held.get(number, ("",))[0] == consumer:
                    self.held.pop(number)

        give_back()  # the answer may be lost
        self.host.machine.consume(Settle(LINK, consumer, done, released), note)

    def _bodies(self, link: str, numbers: Any) -> dict[int, bytes]:
        return {number: self.host.disk.read_outbox(link, number - 1, 1)[0][1] for number in numbers}

    def _n(self, body: bytes) -> int:
        message = m.decode(body, LINK)
        assert isinstance(message, m.Delivery)
        return int(CONTENT.read_event(message.event.payload)["n"])

    def _drain(self) -> None:
        """Let a reliable consumer take what is left, and look at the dead letters."""
        self.sim.start(self.host)
        self.sim.run(until=self.sim.now + 5.0)
        for _ in range(60):
            self._take("last", True)
            self.sim.run(until=self.sim.now + HOLD + 1)
        self.dead = [self._n(body) for body in self._bodies(DEAD, self._dead_numbers()).values()]

    def _dead_numbers(self) -> list[int]:
        end = self.host.ends[DEAD]
        return list(range(end.acknowledged + 1, end.sent + 1))

    def _judge(self) -> None:
        end = self.host.ends[LINK]
        if end.outbox or self.host.edge.backlogs.sharing._holds.get(LINK):
            raise InvariantError(f"{len(end.outbox)} messages are left")
        if twice := [n for n, count in self.settled.items() if count > 1]:
            raise InvariantError(f"settled twice: {twice}")
        if lost := {*self.published} - {*self.handed_out}:
            raise InvariantError(f"never given to a consumer: {sorted(lost)}")
        if both := {*self.dead} & {*self.settled}:
            raise InvariantError(f"settled and dead: {sorted(both)}")
        if len(self.dead) > len({*self.dead}):
            raise InvariantError(f"dead twice: {sorted(self.dead)}")
        if stale := [key for key in self.host.disk.state if key[0] == "held"]:
            raise InvariantError(f"the disk holds {stale}")
        if worn := [n for n in self.dead if self.handed_out[n] < 1]:
            raise InvariantError(f"dead and never given: {worn}")


def run_seeds(seeds: range) -> Counter[str]:
    totals: Counter[str] = Counter()
    for seed in seeds:
        world = Shared(seed)
        world.run()
        totals.update(
            crashes=world.sim.counts.get("crashes", 0),
            dead=len(world.dead),
            again=sum(count > 1 for count in world.handed_out.values()),
            settled=len(world.settled),
            repeated=world.repeated,
        )
    return totals


def test_every_event_is_settled_or_dead() -> None:
    totals = run_seeds(range(12))
    assert min(totals[name] for name in ("crashes", "dead", "again", "settled", "repeated")) > 5, totals


def test_dead_letters_are_replayed_and_dropped_once() -> None:
    worlds = (Shared(seed) for seed in range(40))
    world = next(world for world in worlds if world.run() is None and len(world.dead) >= 2)
    machine, numbers = world.host.machine, world._dead_numbers()
    answers: list[Settled] = []
    first = tuple(world._bodies(DEAD, numbers[1:2]).items())
    for request in (Replay(LINK, DEAD, first), Replay(LINK, DEAD, first), Drop(DEAD, tuple(numbers)), Drop(DEAD, (1,))):
        machine.consume(request, answers.append)
        world.sim.run()
    assert [answer.count for answer in answers] == [1, 0, len(numbers) - 1, 0]
    assert (len(world.host.ends[LINK].outbox), len(world.host.ends[DEAD].outbox)) == (1, 0)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("_is_worn", lambda hold, request, moment: True),
        (
            "Hold",
            lambda deliveries=0, consumer="", until=0, is_done=False, request="": sharing.records.Hold(
                deliveries, "", 0, is_done
            ),
        ),
        (
            "Hold",
            lambda deliveries=0, consumer="", until=0, is_done=False, request="": sharing.records.Hold(
                deliveries, consumer, until, is_done
            ),
        ),
    ],
)
def test_the_judge_notices(name: str, bug: Any) -> None:
    """Letters that are buried though a consumer settled them; holds that hold nothing or forget their request."""
    with mock.patch.object(sharing, name, bug), pytest.raises(InvariantError):
        run_seeds(range(30))


@pytest.mark.soak
@pytest.mark.parametrize("start", range(1_000, 5_000, 500))
def test_soak_simulator_consumers(start: int) -> None:
    run_seeds(range(start, start + 500))
