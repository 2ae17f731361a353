"""Links that are removed and added while brokers run: nothing comes twice, tables end as a rebuild would have them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import pytest

from tamis.node.stream import Quota, StreamEnd
from tamis.routing.core import broker
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.link_gaps import AddLink, RemoveLink
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.rights import Rights
from tamis.routing.policies import Policy, find_policy
from tamis.runtime.broker.config import LinkConfig
from tamis.runtime.broker.machine import BrokerMachine
from tamis.runtime.client.session import Reader
from tamis.runtime.links.changing import add_link, remove_link
from tamis.runtime.links.overrides import LinkOverride
from tamis.runtime.simulation.hosts import BrokerHost, ClientHost
from tamis.runtime.simulation.simulator import Faults
from tamis.runtime.simulation.topology import Topology
from tests.simulation.world import CONTENT, Subscribed, World, _waiting_on, agree

#: No disk is lost, so that nothing may come twice.
STORMS = (Faults(), Faults(drop=0.1, duplicate=0.1, late=0.2), Faults(drop=0.1, late=0.2, crash=0.04, skew=5.0))

OPERATOR = Rights("operator", is_admin=True)


class ChangingWorld(World):
    """An operator removes links, and adds them again or joins the two halves elsewhere; refused, it tries again."""

    def _build(self) -> None:
        self.edges = {frozenset(edge) for edge in self.topology.edges}
        self.is_settled = True
        self.changes = 0
        self.removing: set[partial[None]] = set()
        self.unsure: set[tuple[str, int]] = set()
        self.usual = self.main
        super()._build()
        if not agree(self.cells, self.main):  # brokers with other cells forward everything
            self.usual = find_policy("covering")

    def _edge(self, broker: str, neighbours: dict[str, Policy], ends: dict[str, StreamEnd], audited: int) -> EdgeCore:
        now = {name: neighbours.get(name, self.usual) for name in self.sim.brokers[broker].neighbours}
        drops = tuple(now) if self.drops else ()
        core = self.broker_class(broker, now, CONTENT, None, self.cells, drops=drops)
        return EdgeCore(core, CONTENT, ends, max_backlog=self.backlog, audited=audited)

    def _run(self) -> None:
        with mock.patch.object(broker, "CHANGED_AT_ONCE", 2):
            self._run_changing()

    def _run_changing(self) -> None:
        for _ in range(3):
            self.sim.call_later(self.rng.uniform(0.1, 0.8) * self.plan.seconds, self._change)
        super()._run()

    # The operator

    def _change(self) -> None:
        if not self.is_settled:
            return
        self.is_settled, self.changes = False, self.changes + 1
        self._excuse_all()
        self.unsure.update(
            place for place, subscription in self.subscribed.items() if subscription.active_since is None
        )
        a, b = sorted(self.rng.choice(sorted(map(sorted, self.edges))))
        near, far = self.rng.choice(sorted(self.sides[a, b])), self.rng.choice(sorted(self.sides[b, a]))
        new = (a, b) if self.rng.random() < 0.5 else (near, far)
        self.edges = {*self.edges - {frozenset((a, b))}, frozenset(new)}
        self.topology = Topology.of_edges(sorted(tuple(sorted(edge)) for edge in self.edges))
        pairs = list(self.topology.edges)
        self.sides = {(x, y): self.topology.side(x, y) for edge in pairs for x, y in (edge, edge[::-1])}
        self.around = {broker: self.topology.neighbours(broker) for broker in self.topology.brokers}
        self.exact = self.exact and self.usual.exact
        # Now and then one end only: then the other end keeps its stream, and sends again what was not acknowledged.
        ends = (a, b) if new != (a, b) or self.rng.random() < 0.5 else (self.rng.choice((a, b)),)
        self.removing = {partial(self._remove, other=end) for end in ends}
        for action in sorted(self.removing, key=lambda action: str(action.keywords["other"])):
            self._command(b if action.keywords["other"] == a else a, action, 0.3)
        for caller, other in (new, new[::-1]) if len(ends) == 2 else ((b, a) if ends == (a,) else (a, b),):
            self._command(caller, partial(self._add, other=other), 1.0)
        self.sim.call_later(2.0, self._look)

    def _command(self, broker: str, action: partial[None], after: float) -> None:
        """Give a command some time later; again if the broker was down, refused it, or died before it answered."""
        answers: list[Any] = []

        def attempt() -> None:
            host = self.sim.brokers[broker]
            if host.machine is not None:
                action(host, answers.append)
            self.sim.call_later(1.0, check)

        def check() -> None:
            if any(isinstance(answer, int) for answer in answers):
                self.removing.discard(action)
            else:
                attempt()

        self.sim.call_later(after * self.rng.uniform(1.0, 6.0), attempt)

    def _remove(self, host: BrokerHost, done: Callable[[Any], None], other: str) -> None:
        machine = host.machine
        assert machine is not None
        if other not in host.neighbours:  # done already, and the broker died before it said so
            done(0)
            return
        file = LinkConfig(other) if other in host.configured else None
        remove_link(machine, RemoveLink(other, LinkOverride(None, file).record(other)), OPERATOR, done)
        host.neighbours = tuple(name for name in host.neighbours if name != other)
        self.sim.cut(host.name, other)
        self.sim.mend(host.name, other)

    def _add(self, host: BrokerHost, done: Callable[[Any], None], other: str) -> None:
        machine: BrokerMachine | None = host.machine
        assert machine is not None
        if self.removing:  # the operator removes both ends first
            return
        if other in host.neighbours:  # done already, and the broker died before it said so
            done(0)
            return
        file = LinkConfig(other) if other in host.configured else None
        record = LinkOverride(LinkConfig(other), file).record(other)

        def note(answer: Any) -> None:
            """Take back a link that is refused while its broker does not know yet that the former link is gone."""
            if not isinstance(answer, int):
                host.neighbours = tuple(name for name in host.neighbours if name != other)
            done(answer)

        host.neighbours = (*host.neighbours, other)
        add_link(machine, AddLink(other, self.usual, record, drops=self.drops), OPERATOR, note)
        self.sim.mend(host.name, other)

    # What is judged

    def _excuse_all(self) -> None:
        """Judge no event that is under way: it may be in what is dropped, or on the wrong side."""
        waiting = {id for host in self.sim.brokers.values() for id in _waiting_on(host.disk)}
        for id, sent in self.sent.items():
            if id in waiting or not sent.confirmed or sent.time > self.sim.now - 5.0:
                sent.excused = True

    def _look(self) -> None:
        hosts = self.sim.brokers
        if all(host.machine is not None and self._is_quiet(host) for host in hosts.values()):
            self.is_settled = True
            self.full.clear()  # what was full before may be another stream now
            self._excuse_all()
            self._count_active()
        else:
            self.sim.call_later(0.3, self._look)

    def _is_quiet(self, host: BrokerHost) -> bool:
        core, confirmations = host.edge.broker, host.edge.broker._confirmations
        due = set(self.around[host.name])
        if (
            {*host.neighbours} != due
            or {*core._neighbours} != due
            or core.table.leaving
            or core.table.unspoken
            or core.table.filling
        ):
            return False
        return core.outgoing.sent == due and confirmations.confirmed == confirmations.sent

    def _publish(self) -> None:
        super()._publish()
        if not self.is_settled:
            self._excuse_all()

    def _post(self) -> None:
        super()._post()
        if not self.is_settled:
            self._excuse_all()

    def _watch_broker(self, name: str, core: BrokerCore) -> None:
        if self.is_settled:
            super()._watch_broker(name, core)

    def _watch_windows(self, host: BrokerHost) -> None:
        if self.is_settled:
            super()._watch_windows(host)

    def _watch_quota(self, host: BrokerHost) -> None:
        if self.is_settled:
            super()._watch_quota(host)

    def _say(self, subscription: Subscribed) -> None:
        if not self.is_settled:
            self.unsure.update(place for place, item in self.subscribed.items() if item is subscription)
        super()._say(subscription)

    def _watch_reader(self, host: ClientHost, reader: Reader, *, knows_broker: bool) -> None:
        if (host.name, int(reader.id)) not in self.unsure:
            super()._watch_reader(host, reader, knows_broker=knows_broker)


def change(seed: int, *, drops: bool = False) -> int:
    """Run a world whose links change; return how often they did. With ``drops`` they hold three messages."""
    quota = Quota(3) if drops else None
    world = ChangingWorld(seed, weather=STORMS[seed % len(STORMS)], backlog=100_000, quota=quota, drops=drops)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    assert world.is_settled
    return world.changes


def test_links_change_and_nothing_comes_twice() -> None:
    assert sum(map(change, range(6))) > 6


def test_links_that_drop_change_and_nothing_comes_twice() -> None:
    assert change(1, drops=True) + change(5, drops=True)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 400, 50))
def test_links_that_drop_change_and_nothing_comes_twice_in_many_worlds(start: int) -> None:
    assert sum(change(seed, drops=True) for seed in range(start, start + 50)) > 50


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 600, 50))
def test_links_change_and_nothing_comes_twice_in_many_worlds(start: int) -> None:
    assert sum(map(change, range(start, start + 50))) > 50
