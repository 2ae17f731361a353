"""Links that drop their oldest events while they are full: what is lost was reported as a gap (G23)."""

from __future__ import annotations

import pytest

from tamis.node.stream import Quota
from tamis.routing import messages as m
from tamis.routing.core.link_gaps import SkipLink
from tamis.routing.edge.requests import ChangeLink
from tamis.routing.edge.rights import Rights
from tamis.runtime.client.session import Reader
from tamis.runtime.simulation.hosts import ClientHost
from tamis.runtime.simulation.simulator import Faults
from tests.simulation.world import Subscribed, World

#: No disk is lost: it would take what it counted with it.
STORMS = (Faults(drop=0.1, duplicate=0.1, late=0.2), Faults(drop=0.1, late=0.2, crash=0.05, skew=5.0))

#: Seeds of `make test`: two that find gaps which are not passed on, one that finds a confirmation that overtakes
#: events, and one other; and those of a soak.
SEEDS, SOAK_SEEDS = (0, 1, 14, 89), range(400)


def drop(seed: int) -> tuple[int, int]:
    """Run a world whose outboxes hold three messages; return the dropped events, and those reported as missed."""
    weather = STORMS[seed % len(STORMS)]
    world = World(seed, weather=weather, quota=Quota(3), backlog=100_000, drops=True)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    refused = [id for id, sent in world.sent.items() if sent.refused]
    assert not [id for id in refused if world.publishers[id.publisher] not in world.muted]
    dropped = sum(
        counts.dropped for broker in world.topology.brokers for counts in world.core(broker).counters.values()
    )
    return dropped, sum(count for gaps in world.gaps.values() for count in gaps.values())


def test_what_full_links_drop_is_reported_as_a_gap() -> None:
    outcomes = [drop(seed) for seed in SEEDS]
    assert sum(dropped for dropped, _ in outcomes) > 10, "the outboxes were never full"
    assert sum(missed for _, missed in outcomes) > 10


@pytest.mark.soak
@pytest.mark.parametrize("start", range(SOAK_SEEDS.start, SOAK_SEEDS.stop, 36))
def test_what_full_links_drop_is_reported_as_a_gap_in_many_worlds(start: int) -> None:
    assert sum(drop(seed)[0] for seed in range(start, min(start + 36, SOAK_SEEDS.stop))) > 10


class SkippingWorld(World):
    """An operator skips links while events are published, and takes them back."""

    def _run(self) -> None:
        self.skips: set[tuple[str, str]] = set()
        self.unsure: set[tuple[str, int]] = set()
        for _ in range(6):
            self.sim.call_later(self.rng.uniform(0, 0.7 * self.plan.seconds), self._skip)
        super()._run()

    def _skip(self) -> None:
        place = self.rng.choice(sorted(self.sides))
        self.skips.add(place)
        self.unsure.update(
            place for place, subscription in self.subscribed.items() if subscription.active_since is None
        )
        self._change(place, is_skipped=True)
        self.sim.call_later(self.rng.uniform(0, 0.3 * self.plan.seconds), self._change, place, False)

    def _change(self, place: tuple[str, str], is_skipped: bool) -> None:
        broker, link = place
        machine = self.sim.brokers[broker].machine
        if machine is None:  # it is down: the operator tries again
            self.sim.call_later(1.0, self._change, place, is_skipped)
            return
        change = ChangeLink(SkipLink(link, is_skipped), Rights("operator", is_admin=True))
        machine.submit(change, done=lambda answer: None if is_skipped else self._catch_up(place))

    def _catch_up(self, place: tuple[str, str]) -> None:
        """End a skip when the neighbour has confirmed all that it was not waited for meanwhile."""
        broker, link = place
        if self.sim.brokers[broker].machine is not None:
            core, confirmations = self.core(broker), self.core(broker)._confirmations
            if link in core.flow.skipped:  # skipped once more
                return
            if link in core.outgoing.sent and confirmations.confirmed[link] >= confirmations.sent[link]:
                self.skips.discard(place)
        if place in self.skips:
            self.sim.call_later(0.2, self._catch_up, place)

    def _heal(self) -> None:
        super()._heal()
        for seconds in (1, 2):  # every broker is up by then, and has what it was asked for on disk
            for place in sorted(self.sides):
                self.sim.call_later(seconds * self.plan.seconds, self._change, place, False)

    def _say(self, subscription: Subscribed) -> None:
        """Judge no subscription that was made while a link was skipped: brokers behind it may not know it."""
        if self.skips:
            self.unsure.update(place for place, item in self.subscribed.items() if item is subscription)
        super()._say(subscription)

    def _watch_reader(self, host: ClientHost, reader: Reader, *, knows_broker: bool) -> None:
        if (host.name, int(reader.id)) not in self.unsure:
            super()._watch_reader(host, reader, knows_broker=knows_broker)

    def _check_no_holes(self, client: str, id: int, subscription: Subscribed, have: set[m.EventId]) -> None:
        """Brokers behind a skipped link send what others asked for, and nothing for a subscription that they lack."""
        if (client, id) not in self.unsure:
            super()._check_no_holes(client, id, subscription, have)


def skip(seed: int, *, drops: bool = False) -> int:
    """Run a world whose links are skipped now and then; return how many events were dropped.

    With ``drops`` the links hold three messages and drop the oldest of those that wait.
    """
    quota = Quota(3) if drops else None
    world = SkippingWorld(seed, weather=STORMS[seed % len(STORMS)], backlog=100_000, quota=quota, drops=drops)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return sum(counts.dropped for broker in world.topology.brokers for counts in world.core(broker).counters.values())


def test_what_skipped_links_are_not_sent_is_reported_as_a_gap() -> None:
    seeds = (20, 44, 56, 90)  # the last two find a gap that is not told
    assert sum(map(skip, seeds)) > 15, "no link was skipped that events had to cross"


def test_what_skipped_links_drop_is_reported_as_a_gap() -> None:
    assert skip(3, drops=True) + skip(4, drops=True) > 5


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 396, 36))
def test_what_skipped_links_drop_is_reported_as_a_gap_in_many_worlds(start: int) -> None:
    assert sum(skip(seed, drops=True) for seed in range(start, start + 36)) > 10


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 396, 36))
def test_what_skipped_links_are_not_sent_is_reported_as_a_gap_in_many_worlds(start: int) -> None:
    assert sum(map(skip, range(start, start + 36))) > 10
