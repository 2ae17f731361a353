"""Rings of brokers: the newest link of a ring is refused at both ends, and nothing is lost on the tree that remains."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from tamis.node.core import LinkUp, Word
from tamis.node.effects import Persist, Tell
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.link_gaps import AddLink, RemoveLink
from tamis.routing.edge.requests import ChangeLink
from tamis.routing.edge.rights import Rights
from tamis.routing.policies import find_policy
from tamis.routing.rings import MAX_BROKERS, RingDetector, find_problem
from tamis.routing.rings import _rings as rings_of
from tamis.runtime.broker.config import LinkConfig
from tamis.runtime.links.changing import add_link, remove_link
from tamis.runtime.links.overrides import LinkOverride
from tamis.runtime.simulation.hosts import BrokerHost
from tamis.runtime.simulation.topology import Topology
from tests.effort import effort
from tests.simulation.world import CONTENT, WEATHERS, World

OPERATOR = Rights("operator", is_admin=True)


class RingWorld(World):
    """A tree with one link too many: all links are opened at once, or that one while the network works.

    Only one disk is lost in a world: if both ends of a link lose theirs, that link is new, and another tree remains.
    """

    def __post_init__(self) -> None:
        loses_disk = self.seed % 4 == 3
        self.weather = WEATHERS[1] if loses_disk else None
        super().__post_init__()
        if loses_disk:
            self.sim.call_later(self.rng.uniform(0.3, 0.9) * self.plan.seconds, self._lose_disk)

    def _lose_disk(self) -> None:
        host = self.sim.brokers[self.rng.choice(self.topology.brokers)]
        self.sim.crash(host, lose_disk=True, restart_after=1.0)

    def _build(self) -> None:
        tree = self.topology
        apart = [(a, b) for a in tree.brokers for b in tree.brokers if a < b and b not in tree.neighbours(a)]
        self.extra = self.rng.choice(apart)
        self.is_late = self.seed % 2 == 1
        if self.is_late:
            super()._build()
            self.sim.call_later(self.rng.uniform(0.1, 0.6) * self.plan.seconds, self._close_ring)
            return
        self.topology, edges = self._with_ring(tree), {frozenset(edge) for edge in (*tree.edges, self.extra)}
        self.sides |= {self.extra: set(), self.extra[::-1]: set()}  # it has policies, too
        super()._build()
        watch, self.sim.watch = self.sim.watch, lambda host: None  # which links remain is not known yet
        self.sim.run()
        self.sim.watch = watch
        [refused] = self.refused()
        self.topology = Topology.of_edges(sorted(tuple(sorted(edge)) for edge in edges - {refused}))
        pairs = list(self.topology.edges)
        self.sides = {(x, y): self.topology.side(x, y) for edge in pairs for x, y in (edge, edge[::-1])}
        self.around = {broker: self.topology.neighbours(broker) for broker in self.topology.brokers}
        self.active = dict.fromkeys(self.topology.brokers, 0)

    def _with_ring(self, tree: Topology) -> Any:
        a, b = self.extra
        more = {a: (b,), b: (a,)}
        return SimpleNamespace(
            brokers=tree.brokers,
            neighbours=lambda broker: tuple(sorted((*tree.neighbours(broker), *more.get(broker, ())))),
        )

    def _close_ring(self) -> None:
        """Have the link too many at both ends, as configuration files do that were edited."""
        a, b = self.extra
        for name, other in ((a, b), (b, a)):
            host = self.sim.brokers[name]
            if host.machine is None or other in host.neighbours:
                continue
            file = LinkOverride(LinkConfig(other), None).record(other)
            change = ChangeLink(AddLink(other, find_policy("covering"), file), OPERATOR)
            host.machine.step(
                lambda node, now, change=change, other=other: node.join(other, now).join(
                    node.submit(change, sender="", now=now)
                )
            )
            host.neighbours = (*host.neighbours, other)
            host.configured = (*host.configured, other)  # a broker that loses its disk has it again
        if any(self.extra[1 - side] not in self.sim.brokers[self.extra[side]].neighbours for side in (0, 1)):
            self.sim.call_later(0.5, self._close_ring)  # a broker was down
            return
        self.sim.mend(a, b)

    def _edge(self, broker: str, neighbours: Any, ends: Any, audited: int) -> Any:
        now = {name: neighbours.get(name, find_policy("covering")) for name in self.sim.brokers[broker].neighbours}
        return super()._edge(broker, now, ends, audited)

    def _watch_windows(self, host: BrokerHost) -> None:
        if host.machine is not None and all(link in host.ends for link in host.machine.connections):
            super()._watch_windows(host)  # the connection of a link that was refused in this step is closed after it

    def refused(self) -> set[frozenset[str]]:
        """Return the links that are refused; it must be at both ends."""
        ends = {(host.name, other) for host in self.sim.brokers.values() for other in _rings(host).refused}
        assert ends == {(b, a) for a, b in ends}
        return {frozenset(pair) for pair in ends}


def _rings(host: BrokerHost) -> RingDetector:
    return host.edge.broker.flow.rings


def live(seed: int) -> RingWorld:
    """Run a world with a ring."""
    world = RingWorld(seed)
    try:
        world.run()
        [refused] = world.refused()
        assert not world.is_late or refused == frozenset(world.extra)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    return world


def test_one_link_of_a_ring_is_refused_and_nothing_is_lost() -> None:
    worlds = [live(seed) for seed in range(16)]
    assert sum(len(world.got) for world in worlds) > 16


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 1000, 50))
def test_one_link_of_a_ring_is_refused_and_nothing_is_lost_in_many_worlds(start: int) -> None:
    for seed in range(start, start + 50):
        live(seed)


def test_a_refused_link_is_used_again_when_the_ring_is_gone() -> None:
    world = live(0)
    a, b = next(iter(world.refused()))
    assert _rings(world.sim.brokers[a]).find_refusable() is None, "a refused link is part of no ring"
    world.sim.watch = lambda host: None  # the tree is another one from here on
    near = next(other for other in world.around[a] if b in _behind(world.sim.brokers[a], other))
    for name, other in ((a, near), (near, a)):
        host, answers = world.sim.brokers[name], list[Any]()
        file = LinkConfig(other)
        remove_link(host.machine, RemoveLink(other, LinkOverride(None, file).record(other)), OPERATOR, answers.append)
        host.neighbours = tuple(neighbour for neighbour in host.neighbours if neighbour != other)
        world.sim.cut(a, near)
        world.sim.run()
        assert answers == [0]
    assert world.refused() == set()
    assert b in world.sim.brokers[a].machine.connections
    assert all(host.edge.broker.table.unspoken == set() for host in world.sim.brokers.values())


def _behind(host: BrokerHost, link: str) -> set[str]:
    return {link, *_rings(host)._sides[link].tree}


def test_a_link_to_a_broker_that_is_reached_already_is_refused_by_name() -> None:
    world = live(1)
    a, b = world.extra
    host, answers = world.sim.brokers[a], list[Any]()
    remove_link(host.machine, RemoveLink(b, LinkOverride(None, None).record(b)), OPERATOR, answers.append)
    change = AddLink(b, find_policy("covering"), LinkOverride(LinkConfig(b), None).record(b))
    add_link(host.machine, change, OPERATOR, answers.append)
    world.sim.run()
    assert answers[0] == 0
    assert f"the link to {b!r} closes a ring of brokers ({a} - " in str(answers[1])
    assert answers[1].code == 409
    assert not _rings(host).refused


# What a neighbour says


def rings(*links: str) -> RingDetector:
    """Return the rings of broker "me", which has met its neighbours."""
    made = RingDetector("me", {link: find_policy("covering") for link in links})
    made.restore({}, now=1.0)
    for link in links:
        made.greet(link)
        made.take(link, m.Reach(5, False))
    return made


def test_ages_are_agreed_on_whichever_message_arrives_first() -> None:
    mine, other = (RingDetector(name, {link: find_policy("covering")}) for name, link in (("a", "b"), ("b", "a")))
    mine.restore({}, now=1.0)
    other.restore({}, now=2.0)
    [first], [second] = mine.greet("b"), other.greet("a")
    assert isinstance(first, Tell)
    assert isinstance(second, Tell)
    mine.take("b", second.message)
    other.take("a", first.message)
    assert mine._sides["b"].agreed == other._sides["a"].agreed == 2_000_000
    other = RingDetector("b", {"a": find_policy("covering")})  # its disk is lost
    other.restore({}, now=9.0)
    [again], [lost] = mine.greet("b"), other.greet("a")
    mine.take("b", lost.message)
    other.take("a", again.message)
    assert mine._sides["b"].agreed == other._sides["a"].agreed == 2_000_000


def test_a_broker_without_its_disk_learns_the_ages_of_silent_links_from_others() -> None:
    """``south`` was linked to this broker, whose disk is lost, and is away; ``east`` knows how old that link is."""
    mine = RingDetector("me", {link: find_policy("covering") for link in ("east", "south")})
    mine.restore({}, now=9.0)
    tree = (m.Reached("south", "east", 3), m.Reached("me", "south", 2))
    mine.take("east", m.Reach(4, True, tree))
    assert (mine._sides["east"].agreed, mine._sides["south"].agreed) == (4, 2)
    mine.take("east", m.Reach(4, True, (tree[0], m.Reached("me", "south", 1))))
    assert mine._sides["south"].agreed == 2, "an age that is known is changed by the two ends only"


def test_a_neighbour_in_a_new_life_is_told_again_which_brokers_it_reaches() -> None:
    broker = BrokerCore("me", {link: find_policy("covering") for link in ("east", "west")}, CONTENT)
    broker.flow.rings.restore({}, now=1.0)
    broker.flow.rings.greet("east")
    broker.flow.rings.take("west", m.Reach(5, True))
    words = [effect for effect in broker.handle(LinkUp(), sender="east", now=2.0) if isinstance(effect, Tell)]
    assert [word.message.brokers for word in words] == [(m.Reached("west", "me", 5),)]


def test_a_broker_behind_two_links_shows_a_ring_whose_newest_link_is_refused() -> None:
    mine = rings("east", "west")
    far = m.Reached("far", "east", 3)
    mine.take("east", m.Reach(5, True, (far,)))
    assert mine.find_refusable() is None
    mine.take("west", m.Reach(7, True, (m.Reached("far", "west", 4),)))
    assert mine.find_refusable() is None, "far does not say itself that it has both links"
    mine.take("east", m.Reach(5, True, (far, m.Reached("west", "far", 4))))
    mine.take("west", m.Reach(7, True, (m.Reached("far", "west", 4), m.Reached("east", "far", 3))))
    ring = ("me", "west", "far", "east")
    assert mine.find_refusable() == ("west", ring)
    mine.refuse("west", ring)
    assert mine.find_refusable() is None
    assert mine.ring_of("west") == "me - west - far - east - me"
    assert mine.why_not("east") == ""


def test_the_newest_link_of_a_ring_may_be_that_of_others() -> None:
    mine = rings("east", "west")
    mine.take("east", m.Reach(5, True, (m.Reached("far", "east", 9), m.Reached("west", "far", 4))))
    mine.take("west", m.Reach(7, True, (m.Reached("far", "west", 4), m.Reached("east", "far", 9))))
    assert next(rings_of("me", mine._sides)).newest == {"east", "far"}
    assert mine.find_refusable() is None


def test_a_refusal_is_believed_when_the_refused_link_has_no_connection() -> None:
    mine = rings("east", "west")
    mine.take("east", m.Reach(5, True))
    mine.greet("east")
    mine.take("west", m.Reach(7, True, (m.Reached("east", "west", 9),), (("east", "me"),)))
    assert mine.find_refusable() is None, "the link works: its other end does not refuse it"
    mine.part("east")
    assert mine.find_refusable() == ("east", ("me", "west", "east"))


def test_an_age_that_no_later_one_can_exceed_does_not_end_new_links() -> None:
    mine = rings("east")
    mine.take("east", m.Reach((1 << 62) - 1, True))
    mine.add("west", find_policy("covering"), 1.0)
    message = next(effect.message for effect in mine.greet("west") if isinstance(effect, Tell))
    assert find_problem("west", "me", message) == ""


def test_a_link_that_was_replaced_counts_again_when_the_other_one_left_the_file() -> None:
    mine = rings("east", "west")
    stored = {effect.key: effect.value for effect in mine.put_in_place("east", "west") if isinstance(effect, Persist)}
    assert "replaced by 'west'" in mine.why_not("east")
    again = rings("east")
    again.restore(stored, 1.0)
    assert again.why_not("east") == ""


def test_many_neighbours_are_told_once_in_a_tick() -> None:
    links = [f"n{number}" for number in range(20)]
    mine = rings(*links)
    for link in links:
        mine.greet(link)
    for link in links:
        assert not any(isinstance(effect, Tell) for effect in mine.take(link, m.Reach(5, True)))
    assert len(mine.tell_due()) == 20
    assert mine.tell_due() == []


def test_two_neighbours_with_the_same_long_chain_take_no_long_step() -> None:
    chain = [m.Reached("b0", "east", 1)] + [m.Reached(f"b{n}", f"b{n - 1}", 1) for n in range(1, MAX_BROKERS)]
    mine = rings("east", "west")
    mine.take("east", m.Reach(5, True, tuple(chain)))
    mine.take("west", m.Reach(7, True, (m.Reached("b0", "west", 1), *chain[1:])))
    steps = effort(mine.find_refusable, rounds=1)
    assert steps < 100, steps


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (m.Reach(0, False), "age of a link is a positive number"),
        (m.Reach(1 << 62, False), "below 2\\^62"),
        (m.Reach(5, True, tuple(m.Reached(f"b{n}", "east", 1) for n in range(MAX_BROKERS + 1))), "at most 4,096"),
        (m.Reach(5, True, (m.Reached("", "east", 1),)), "1 to 128 printable characters, not 0"),
        (m.Reach(5, True, (m.Reached("a\nWARNING: b", "east", 1),)), "printable characters"),
        (m.Reach(5, True, refused=(("a", "\x1b[2J"),)), "printable characters"),
        (m.Reach(5, True, (m.Reached("x" * 129, "east", 1),)), "1 to 128 printable characters, not 129"),
        (m.Reach(5, True, (m.Reached("east", "east", 1),)), "duplicate broker 'east'"),
        (m.Reach(5, True, (m.Reached("a", "east", 1), m.Reached("a", "east", 2))), "duplicate broker 'a'"),
        (m.Reach(5, True, (m.Reached("a", "b", 1), m.Reached("b", "east", 1))), "unknown"),
        (m.Reach(5, True, (m.Reached("a", "east", -1),)), "age of a link"),
        (m.Reach(5, True, (m.Reached("a", "east", 1 << 63),)), "age of a link"),
        (m.Reach(5, True, (), (("a", "x" * 129),)), "not 129"),
        (m.Reach(5, True, (), (("a", "b"),) * (MAX_BROKERS + 1)), "at most 4,096"),
    ],
)
def test_what_is_not_a_tree_is_refused(message: m.Reach, words: str) -> None:
    assert re.search(words, find_problem("me", "east", message))
    mine = rings("east")
    before = dict(mine._sides)
    assert mine.take("east", message) == []
    assert mine._sides == before


def test_what_is_behind_this_broker_is_not_behind_its_neighbour() -> None:
    mine = rings("east", "west")
    reached = (m.Reached("me", "east", 1), m.Reached("west", "me", 1), m.Reached("far", "west", 1))
    mine.take("east", m.Reach(5, True, reached))
    assert not mine._sides["east"].tree
    assert mine.find_refusable() is None


def test_a_resume_outside_a_stream_has_no_effect() -> None:
    world = live(0)
    host = next(iter(world.sim.brokers.values()))
    core = host.edge.broker
    assert core.handle(Word(m.Resume()), sender=next(iter(core._neighbours)), now=0.0) == []


def test_a_link_is_not_added_while_the_entries_of_the_former_one_are_withdrawn() -> None:
    core = SimpleNamespace(is_neighbour=lambda link: False, table=SimpleNamespace(leaving={"east"}))
    node, answers = SimpleNamespace(core=SimpleNamespace(broker=core)), list[Any]()
    machine: Any = SimpleNamespace(step=lambda call, done: done(call(node, 1.0).answer))
    change = AddLink("east", find_policy("covering"), LinkOverride(LinkConfig("east"), None).record("east"))
    add_link(machine, change, OPERATOR, answers.append)
    assert answers[0].code == 503
    assert "are still being withdrawn; try again" in str(answers[0])
