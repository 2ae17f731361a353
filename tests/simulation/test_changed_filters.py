"""Filters that change while events are published, brokers crash and wires break: no gap, no event that never matched.

The worlds are those of `test_seeds`, with clients that also change what they ask for (`ClientSession.change`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any
from unittest import mock

import msgspec
import pytest

from tamis.errors import InvariantError
from tamis.node.effects import Effect
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.confirmations import Confirmations
from tamis.routing.core.interest import Interest
from tamis.routing.table_parts import ReceivedTables
from tamis.runtime.client.session import Reader
from tamis.runtime.simulation.hosts import BrokerHost, ClientHost
from tests.simulation.world import MASKS, NAMESPACES, POOL, RESTORED, WIDTH, Subscribed, World

CHANGES = 10


@dataclass
class Former:
    """A filter that was replaced: what it matched, and since when it was active."""

    mask: int
    active_since: float | None


class ChangingWorld(World):
    """A world whose clients change their filters.

    An event must come if it matches the filter that was active when it was published, and all later ones.
    """

    def _run(self) -> None:
        #: ``{(client, id): filters}`` that a subscription had before, the oldest first.
        self.formers: dict[tuple[str, int], list[Former]] = {}
        self.n_changes = 0
        chance = random.Random(self.seed)
        for _ in range(CHANGES):
            self.sim.call_later(chance.uniform(0, self.plan.seconds), self._change, chance)
        super()._run()

    def _change(self, chance: random.Random, chosen: Collection[tuple[str, int]] = ()) -> None:
        live = [place for place, subscription in self.subscribed.items() if subscription.ended is None]
        candidates = [place for place in live if place in chosen] if chosen else live
        if not candidates:
            return
        place = chance.choice(candidates)
        changed, host = self.subscribed[place], self.sim.clients[place[0]]
        reader = host.session.readers[changed.namespace, changed.message.id]
        data, shift = chance.choice(POOL), WIDTH * NAMESPACES.index(changed.namespace)
        self.formers.setdefault(place, []).append(Former(changed.mask, changed.active_since))
        changed.mask, changed.active_since = MASKS[data] << shift, None
        changed.message = msgspec.structs.replace(changed.message, filter=data)
        self._count_active()
        host.session.change(reader, changed.message)
        self.sim.pump(host)
        self.n_changes += 1
        for _ in range(4):  # a change takes some hundredths of a second to be known: that is when a gap would be
            self.sim.call_later(chance.uniform(0, 0.15), self._publish)

    def _watch_reader(self, host: ClientHost, reader: Reader, *, knows_broker: bool) -> None:
        change = reader.change
        if change is None or change.is_taken or self.subscribed[host.name, int(reader.id)].ended is not None:
            super()._watch_reader(host, reader, knows_broker=knows_broker)

    def _versions(self, subscription: Subscribed) -> list[Former]:
        former = self.formers.get((subscription.client, int(subscription.message.id)), [])
        return [*former, Former(subscription.mask, subscription.active_since)]

    def _due_mask(self, subscription: Subscribed, time: float) -> int:
        """Return what a subscription must get of what is published at a moment, as bits."""
        versions = self._versions(subscription)
        active = [
            n for n, version in enumerate(versions) if version.active_since is not None and version.active_since <= time
        ]
        return reduce(and_, (version.mask for version in versions[active[-1] :])) if active else 0

    def _count_active(self) -> None:
        self.active = dict.fromkeys(self.topology.brokers, 0)
        for subscription in self.subscribed.values():
            if subscription.ended is None:
                self.active[subscription.broker] |= self._due_mask(subscription, self.sim.now)

    def _mourn(self, host: BrokerHost, lose_disk: bool) -> None:
        if lose_disk:
            for (client, _), formers in self.formers.items():
                for former in formers if self.clients[client] == host.name else ():
                    former.active_since = None
        super()._mourn(host, lose_disk)

    def _find_lost(self, client: str, id: int, subscription: Subscribed, got: list[m.Published]) -> set[m.EventId]:
        masks = [version.mask for version in self._versions(subscription)]
        ever, always = replace(subscription, mask=reduce(or_, masks)), replace(subscription, mask=reduce(and_, masks))
        have = {event.id for event in got}
        for event in got:
            if event.payload != self.sent[event.id].payload or not self._matches(ever, self.sent[event.id]):
                raise InvariantError(f"{client} got {event.id} for {id}, which never matched (G2, G3)")
        if not subscription.interrupted and not self.gaps.get(client):
            self._check_no_holes(client, id, always, have)
        return {
            event_id
            for event_id, sent in self.sent.items()
            if subscription.ended is None
            and not (sent.excused or sent.refused)
            and self._matches(replace(subscription, mask=self._due_mask(subscription, sent.time)), sent)
            and event_id not in have
        }


def run_seeds(seeds: range, **options: Any) -> None:
    n_changes = 0
    for seed in seeds:
        world = ChangingWorld(seed, **options)
        world.run()
        n_changes += world.n_changes
    assert n_changes > 4 * len(seeds)


def test_seeds_with_changed_filters() -> None:
    run_seeds(range(16))


def test_seeds_with_changed_filters_and_restored_disks() -> None:
    run_seeds(range(4), weather=RESTORED, policy="covering")


def test_the_oracle_notices_a_gap() -> None:
    """A broker that keeps back everything until a change is confirmed, as for a new subscription, loses events."""

    def early_for(self: Confirmations, source: str, what: Any, link: str) -> list[None]:
        waiting = self._waiting.get(source, {}).get(what, ())
        return [
            None for confirmation in waiting if confirmation.is_new and self.confirmed[link] < confirmation.needed[link]
        ]

    with mock.patch.object(Confirmations, "early_for", early_for), pytest.raises(InvariantError, match=r"lost|hole"):
        run_seeds(range(16), policy="identity")


class CrossingWorld(ChangingWorld):
    """A world whose clients change filters that hide others, while the table that will announce them crosses a link."""

    def _run(self) -> None:
        self.n_crossing = 0
        super()._run()

    def _watch(self, host: BrokerHost) -> None:
        super()._watch(host)
        core = host.edge.broker
        for link in host.neighbours:
            hiding = self._hiding(core, link) if core.outgoing.is_under_way(link) else set()
            if hiding and self.n_crossing < 12:
                self.n_crossing += 1
                self.sim.call_later(0, self._change, random.Random(self.n_crossing), hiding)

    def _hiding(self, core: BrokerCore, link: str) -> set[tuple[str, int]]:
        """Return the subscriptions that hide others from a neighbour and that its table has still to announce."""
        queued = {name for _, names in core.outgoing._under_way[link]._keys for name in names}
        summaries = core.table.summaries[link].values()
        hiding = {key for summary in summaries for _, homes in summary.suppressed() for key in homes} & queued
        origins = (msgspec.json.decode(key, type=tuple[str, str, int]) for key in hiding if key.endswith("]"))
        return {(client.split(":")[1], id) for client, _, id in origins}


@pytest.fixture
def kept() -> Iterator[list[str]]:
    """Collect the keys under which filters of former tables are kept, because their own key got another filter."""
    keys: list[str] = []
    real = ReceivedTables._keep_former

    def keep_former(self: ReceivedTables, *arguments: Any) -> dict[str, Interest]:
        former = real(self, *arguments)
        keys.extend(former)
        return former

    with mock.patch.object(ReceivedTables, "_keep_former", keep_former):
        yield keys


#: Seeds whose tables cross in parts of one or two entries (`world.PARTS`).
IN_PARTS = (106, 50, 58, 82)


def run_crossing(seeds: Iterable[int]) -> int:
    """Run seeds; return how many filters changed while the table that would announce them crossed a link."""
    worlds = [CrossingWorld(seed, policy="covering") for seed in seeds]
    for world in worlds:
        world.run()
    return sum(world.n_crossing for world in worlds)


def test_filters_that_change_while_tables_cross(kept: list[str]) -> None:
    assert run_crossing(IN_PARTS) > 10
    assert len(kept) > 5


def drop_the_former_table(self: ReceivedTables, message: m.TablePart, sender: str) -> list[Effect]:
    former = set(self._table.interests(sender)) if message.index == 0 else set()
    effects = take_part(self, message, sender)
    return [*effects, *(self._drop(sender, key) for key in former if self._of(sender).stale.pop(key, 0) is None)]


def forget_the_former_filter(
    self: ReceivedTables, interests: list[Any], suffix: str, sender: str
) -> dict[str, Interest]:
    for _, key, _ in interests:
        self._of(sender).stale.pop(key, None)
    return {}


#: The method that a test replaces.
take_part = ReceivedTables.take_part


@pytest.mark.parametrize(
    ("method", "broken"), [("take_part", drop_the_former_table), ("_keep_former", forget_the_former_filter)]
)
def test_the_oracle_notices_that_a_former_table_is_incomplete(method: str, broken: Callable[..., Any]) -> None:
    with mock.patch.object(ReceivedTables, method, broken), pytest.raises(InvariantError, match="active behind"):
        run_crossing(IN_PARTS)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(20_000, 22_000, 500))
def test_soak_simulator_changed_while_tables_cross(start: int) -> None:
    for seed in range(start, start + 500):
        CrossingWorld(seed).run()


@pytest.mark.soak
@pytest.mark.parametrize("start", range(1_000, 9_000, 500))
def test_soak_simulator_changed_filters(start: int) -> None:
    run_seeds(range(start, start + 500))
