"""A small world for one seed: brokers, clients, churn, faults; and the oracle that judges all of it.

Attributes take few values, so every filter *is* the set of probe events it matches, a bit mask (`mask_of`). Who must
receive what is then arithmetic on integers, exact, and cheap enough to be asked after every single step:

* after each step (`_watch`): whatever a subscription that is ACTIVE asks for is in the table of every broker, for the
  neighbour towards it (promises R1, R2, G4);
* when quiet (`check_quiet`): every table is what its neighbour means it to be and covers exactly the live
  subscriptions behind it (R5), everything is ACTIVE, and the cores' own invariants hold;
* at the end (`check_deliveries`): the naive network, in which every event meets every subscription, delivered the same.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import and_
from typing import Any
from unittest import mock

import msgspec

from tamis import Number, Schema
from tamis.algebra.evaluate import matches
from tamis.errors import InvariantError, ModelError, TamisError
from tamis.model.subscription import Filter
from tamis.node import stream
from tamis.node.content import Content
from tamis.node.overflow import share
from tamis.node.stream import Quota, StreamEnd, Window
from tamis.routing import early_entries, table_parts
from tamis.routing import messages as m
from tamis.routing.core import summary
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.routing_table import ALL_NAMESPACES
from tamis.routing.edge.audit import Deed
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.requests import Accepted, Post, Posts
from tamis.routing.edge.rights import Rights
from tamis.routing.policies import POLICIES, CellOptions, Policy, find_policy
from tamis.routing.policies.cell_tables import USUAL_CELLS, common_cells
from tamis.runtime.client.client_values import encode_event
from tamis.runtime.client.session import ClientSession, Reader
from tamis.runtime.simulation.brokers import BrokerSimulator
from tamis.runtime.simulation.disk import SimulatedDisk
from tamis.runtime.simulation.hosts import BrokerHost, ClientHost
from tamis.runtime.simulation.inbox import take_waiting
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults
from tamis.runtime.simulation.topology import Topology

SIDE = 6
NAMESPACES = ("default", "other")
SCHEMA = Schema({"a": Number(0, SIDE - 1), "b": Number(0, SIDE - 1)})
#: Reading filters and events is pure, so all worlds share what was read.
CONTENT = Content(SCHEMA)

_VALUES = (None, *range(SIDE))
PROBES = [{k: v for k, v in (("a", a), ("b", b)) if v is not None} for a in _VALUES for b in _VALUES]
PAYLOADS = [CONTENT.write_event(probe) for probe in PROBES]
BITS = {payload: 1 << place for place, payload in enumerate(PAYLOADS)}
WIDTH = len(PROBES)
ALL = (1 << WIDTH * len(NAMESPACES)) - 1

#: What can go wrong, mildest first; a seed takes one.
WEATHERS = (
    NO_FAULTS,
    Faults(drop=0.1, duplicate=0.1, late=0.2),
    Faults(drop=0.05, duplicate=0.05, late=0.1, crash=0.01, skew=5.0),
    Faults(drop=0.05, late=0.1, crash=0.008, lose_disk=0.5),
)

#: Brokers whose disks are lost and restored from backups; beside the others, so that these keep their seeds.
RESTORED = Faults(drop=0.05, late=0.1, crash=0.02, lose_disk=0.6, restore=0.8)

#: How much may wait in an outbox; a seed takes one. Three messages are a burst, eight a cut link.
TIGHT = (Quota(), Quota(3), Quota(8), Quota(bytes=600))

#: How many messages may wait for a client, and how much may be under way on a wire; a seed takes one of each.
BACKLOGS = (100_000, 100_000, 3)
WINDOWS = (Window(), Window(3, 400))

#: Sizes at which messages leave memory and packets are split; a world is too small to reach the usual ones.
SMALL_STREAMS = {"KEPT": 2, "PACKET_MESSAGES": 3, "PACKET_BYTES": 300}

#: Sizes at which tables cross links in parts and stale entries are dropped in slices; a seed takes one.
PARTS = (
    {},
    {"PART_ENTRIES": 1, "PARTS_UNDER_WAY": 1, "DROPPED_AT_ONCE": 1},
    {"PART_ENTRIES": 2, "PARTS_UNDER_WAY": 2, "DROPPED_AT_ONCE": 2},
    {"PART_BYTES": 150, "DROPPED_AT_ONCE": 1},
)

#: Sizes from which on tables and batches are read and matched as columns, by the packed index: lower in some worlds,
#: because a world is too small to reach the usual ones.
LARGE = {
    "tamis.routing.core.routing_table.SMALL_TABLE": 2,
    "tamis.routing.core.event_batch.SMALL_BATCH": 2,
    "tamis.routing.core.interest.MANY": 2,
    "tamis.routing.core.broker.CHANGED_AT_ONCE": 2,
    "tamis.routing.core.broker.SETTLED_AT_ONCE": 1,
    "tamis.index.packed.matcher.PackedMatcher.__init__.__defaults__": (2,),
}

_range_masks: dict[tuple[str, bytes], int] = {}
_probe_keys: dict[str, list[int]] = {}
_masks: dict[int, tuple[tuple[Filter, ...], int]] = {}


def mask_of(filters: tuple[Filter, ...]) -> int:
    """Return the probes that match, as bits; remembered by identity, for filters that were read are shared."""
    entry = _masks.get(id(filters))
    if entry is None:
        mask = sum(1 << i for i, probe in enumerate(PROBES) if any(matches(probe, filter) for filter in filters))
        entry = _masks[id(filters)] = (filters, mask)
    return entry[1]


def mask_of_ranges(space: Any, ranges: Any) -> int:
    """Return the probes whose keys lie in ranges of cells, as bits."""
    place = (space.version, ranges.tobytes())
    if place not in _range_masks:
        if space.version not in _probe_keys:
            _probe_keys[space.version] = [space.key_of(probe) for probe in PROBES]
        keys = _probe_keys[space.version]
        inside = [any(low <= key <= high for low, high in ranges.tolist()) for key in keys]
        _range_masks[place] = sum(1 << i for i, is_inside in enumerate(inside) if is_inside)
    return _range_masks[place]


def random_text(rng: random.Random) -> str:
    """Return a filter: ranges, sets, single values, absence, now and then a disjunction."""
    parts = []
    for name in rng.choice((("a",), ("b",), ("a", "b"), ("a", "b"))):
        low, high = sorted((rng.randrange(SIDE), rng.randrange(SIDE)))
        forms = (
            f"{name} BETWEEN {low} AND {high}",
            f"{name} BETWEEN {low} AND {high}",
            f"{name} >= {low}",
            f"{name} = {low}",
            f"{name} IN ({low}, {high})",
            f"{name} <> {low}",
            f"{name} IS NULL",
        )
        parts.append(rng.choice(forms))
    joint = " OR " if rng.random() < 0.15 else " AND "
    return joint.join(parts)


_rng = random.Random(7)
#: A few hundred filters; few enough that covers, equals and merges are common.
POOL = [CONTENT.write_filter(CONTENT.compile(random_text(_rng))) for _ in range(400)]
MASKS = {data: mask_of(CONTENT.read_filter(data)) for data in POOL}


@dataclass
class Subscribed:
    """A subscription as its client sees it."""

    client: str
    broker: str
    namespace: str
    mask: int
    message: m.Subscribe
    active_since: float | None = None
    ended: float | None = None
    cancelled: bool = False
    #: Its broker lost its disk, or crashed before it was active.
    interrupted: bool = False


@dataclass
class Sent:
    """An event as its publisher sees it."""

    time: float
    namespace: str
    payload: bytes
    #: A broker lost its disk while the event was in its sole custody, or its publisher crashed before it knew.
    excused: bool = False
    #: It may come behind later events: its publisher knew nothing of its fate when its broker lost its disk, so a new
    #: life may accept what the former refused; or it waited on a disk that was restored from a backup.
    may_be_late: bool = False
    #: Its publisher was told that it was accepted, or that it was not.
    refused: bool = False
    confirmed: bool = False


@dataclass
class Plan:
    """How much happens in a world."""

    brokers: int = 6
    clients: int = 5
    subscriptions: int = 14
    unsubscriptions: int = 8
    events: int = 24
    cuts: int = 2
    restarts: int = 2
    revocations: int = 1
    batches: int = 4
    seconds: float = 20.0


class WatchedReader(Reader):
    """A reader that tells the world which events it missed."""

    gaps: dict[m.EventId, int]

    def miss(self, gap: m.Gap) -> None:
        super().miss(gap)
        self.gaps[gap.first] = gap.count


@dataclass
class World:
    """One seed's world. The classes can be replaced, which is how bugs are planted."""

    seed: int
    plan: Plan = field(default_factory=Plan)
    broker_class: type[BrokerCore] = BrokerCore
    policy: str | None = None
    weather: Faults | None = None
    quota: Quota | None = None
    backlog: int | None = None
    window: Window | None = None
    #: Whether full links drop their oldest events with a gap instead of having further ones refused.
    drops: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.quota = self.quota or TIGHT[self.seed // 40 % len(TIGHT)]
        self.weather = self.weather or WEATHERS[self.seed % len(WEATHERS)]
        self.backlog = self.backlog or BACKLOGS[self.seed // 4 % len(BACKLOGS)]
        self.window = self.window or WINDOWS[self.seed // 8 % len(WINDOWS)]
        self.main = self._main_policy()
        shape = self.rng.choice(("line", "star", "balanced", "random"))
        self.topology = Topology.of(shape, self.plan.brokers, seed=self.seed)
        self.sides = {(a, b): self.topology.side(a, b) for edge in self.topology.edges for a, b in (edge, edge[::-1])}
        self.around = {broker: self.topology.neighbours(broker) for broker in self.topology.brokers}
        self.subscribed: dict[tuple[str, int], Subscribed] = {}
        self.sent: dict[m.EventId, Sent] = {}
        self.active = dict.fromkeys(self.topology.brokers, 0)
        self.got: dict[str, list[tuple[float, m.Delivery]]] = {}
        #: The events that the reader of each subscription was given. A delivery also names subscriptions that their
        #: client has left since, which are given nothing.
        self.read: dict[tuple[str, int], set[m.EventId]] = {}
        #: ``{client: {first event: how many}}``: the gaps that a client was told of.
        self.gaps: dict[str, dict[m.EventId, int]] = {}
        #: ``{client: moment}``: clients that lost the right to publish.
        self.muted: dict[str, float] = {}
        #: Clients that crashed and came back.
        self.restarted: set[str] = set()
        #: ``{broker: batches}`` of its producer that are not accepted yet, the one under way first.
        self.posting: dict[str, list[Post]] = {}
        self.numbers = itertools.count(1)
        #: Outboxes at their quota after the last step of their broker: in which lives, and up to which message.
        self.full: dict[tuple[str, str], tuple[Any, int]] = {}
        self.sim = BrokerSimulator(seed=self.seed, faults=NO_FAULTS)
        self.sim.max_steps = 30_000
        self._build()

    def _main_policy(self) -> Policy:
        """Choose by the seed; ranges of cells cost several times what filters do, so they come in every fifth round."""
        round_number, fifth_round = divmod(self.seed // len(WEATHERS), 5)
        slow = [policy for policy in POLICIES.values() if policy.cells or policy.stages]
        quick = [policy for policy in POLICIES.values() if policy not in slow]
        turn, usual = (round_number, slow) if fifth_round == 4 else (4 * round_number + fifth_round, quick)
        main = find_policy(self.policy) if self.policy else usual[turn % len(usual)]
        self.choices = quick + [policy for policy in slow if main in slow and agree(main.cells or USUAL_CELLS, policy)]
        return main

    # Building

    def _build(self) -> None:
        policies = self._link_policies()
        #: A broker of an earlier release, in every fifth round.
        earlier = self.topology.brokers[self.seed % len(self.topology.brokers)] if self.seed // 3 % 5 == 0 else ""
        for broker in self.topology.brokers:
            around = self.topology.neighbours(broker)
            mine = {other: policies[broker, other] for other in around}
            host = self.sim.add_broker(
                broker,
                partial(self._edge, broker, mine),
                tuple(around),
                quota=self.quota,
                window=self.window,
                takes_parts=broker != earlier,
            )
            host.skew = self.rng.uniform(-self.weather.skew, self.weather.skew)
        self.clients = {f"c{i}": self.rng.choice(self.topology.brokers) for i in range(self.plan.clients)}
        for client, broker in self.clients.items():
            host = self.sim.add_client(client, broker, Rights(client))
            host.on_news = self._news
            self._equip(host)
        self.publishers = {host.publisher: client for client, host in self.sim.clients.items()}
        #: How long a client takes to read; most read at once.
        self.slowness = {client: self.rng.choice((0.0, 0.0, 3.0)) for client in self.clients}
        self.sim.watch, self.sim.mourn = self._watch, self._mourn

    def _edge(self, broker: str, neighbours: dict[str, Policy], ends: dict[str, StreamEnd], audited: int) -> EdgeCore:
        drops = tuple(neighbours) if self.drops else ()
        core = self.broker_class(broker, neighbours, CONTENT, None, self.cells, drops=drops)
        return EdgeCore(core, CONTENT, ends, max_backlog=self.backlog, audited=audited)

    def _equip(self, host: ClientHost) -> None:
        host.session.on_refusal = partial(self._refused, host)

    def _link_policies(self) -> dict[tuple[str, str], Policy]:
        """Give each direction of each link its policy: mostly the main one, for links may differ."""
        mixed = self.rng.random() < 0.3
        chosen = {}
        for link in self.sides:
            chosen[link] = self.rng.choice(self.choices) if mixed else self.main
        self.exact = all(policy.exact for policy in chosen.values())
        self.cells = common_cells(policy.cells for policy in chosen.values())
        return chosen

    # Living

    def run(self) -> None:
        """Live the whole life of the world and judge it."""
        with contextlib.ExitStack() as stack:
            for name, value in SMALL_STREAMS.items():
                stack.enter_context(mock.patch.object(stream, name, value))
            for name, value in PARTS[self.seed // 2 % len(PARTS)].items():
                stack.enter_context(mock.patch.object(table_parts, name, value))
            for place, value in LARGE.items() if self.seed // 5 % 3 == 0 else ():
                stack.enter_context(mock.patch(place, value))
            # In most worlds a slice of members is so small that it ends.
            stack.enter_context(mock.patch.object(summary, "SLICE", (1, 3, summary.SLICE)[self.seed % 3]))
            # In half of the worlds most messages of neighbours enter in slices.
            most = (1, early_entries.SLICE_SUBSCRIPTIONS)[self.seed // 3 % 2]
            stack.enter_context(mock.patch.object(early_entries, "SLICE_SUBSCRIPTIONS", most))
            self._run()

    def _run(self) -> None:
        plan, rng, sim = self.plan, self.rng, self.sim
        sim.faults = self.weather or NO_FAULTS
        actions = [self._subscribe] * plan.subscriptions + [self._unsubscribe] * plan.unsubscriptions
        actions += [self._publish] * plan.events + [self._post] * plan.batches
        if sim.faults is not NO_FAULTS:
            actions += [self._cut] * plan.cuts + [self._restart] * plan.restarts + [self._mute] * plan.revocations
        for action in actions:
            sim.call_later(rng.uniform(0, plan.seconds), action)
        sim.run(until=plan.seconds)
        sim.faults = NO_FAULTS
        self._heal()
        sim.run()
        self.check_quiet()
        refused = sum(event.refused for event in self.sent.values())
        for _ in range(4):
            self._publish()
            sim.run()
        if refused != sum(event.refused for event in self.sent.values()):
            raise InvariantError("events are still refused after everything has healed (G16)")
        self.check_deliveries()
        for client, id in list(self.subscribed):
            self._end(client, id)
        sim.run()
        self.check_empty()
        self.check_audit()

    def _heal(self) -> None:
        for a, b in self.topology.edges:
            self.sim.mend(a, b)
        self.slowness = dict.fromkeys(self.clients, 0.0)
        if self.sim.counts.get("disks restored"):  # what ended after the backup is back: users withdraw it again
            for subscription in self.subscribed.values():
                if subscription.ended is not None:
                    self._say(subscription)

    def _subscribe(self) -> None:
        client, id = self.rng.choice(list(self.clients)), len(self.subscribed)
        data, namespace = self.rng.choice(POOL), self.rng.choice((NAMESPACES[0], *NAMESPACES))
        shift, message = WIDTH * NAMESPACES.index(namespace), m.Subscribe(id, data, namespace)
        subscription = self.subscribed[client, id] = Subscribed(
            client, self.clients[client], namespace, MASKS[data] << shift, message
        )
        self._say(subscription)

    def _say(self, subscription: Subscribed) -> None:
        """Let a client ask for events, or ask no longer, as `tamis.connect` does."""
        host = self.sim.clients[subscription.client]
        reader = host.session.readers.get((subscription.namespace, subscription.message.id))
        if reader is None:
            reader = WatchedReader(subscription.message)
            reader.gaps = self.gaps.setdefault(subscription.client, {})
            host.session.follow(reader)
        if subscription.ended is not None:
            reader.message = m.Unsubscribe(subscription.message.id, subscription.namespace)
        host.session.say(reader.message)
        self.sim.pump(host)

    def _unsubscribe(self) -> None:
        live = [key for key, subscription in self.subscribed.items() if subscription.ended is None]
        if live:
            self._end(*self.rng.choice(live))

    def _end(self, client: str, id: int) -> None:
        subscription = self.subscribed[client, id]
        if subscription.ended is None:
            subscription.ended = self.sim.now
            self._count_active()
            self._say(subscription)

    def _publish(self) -> None:
        client = self.rng.choice(list(self.clients))
        if client in self.muted and self.sim.faults is NO_FAULTS:
            return
        host, namespace = self.sim.clients[client], self.rng.choice((NAMESPACES[0], *NAMESPACES))
        probes = [self.rng.randrange(len(PROBES)) for _ in range(self.rng.choice((1, 1, 1, 3)))]
        raws = [encode_event(PROBES[probe]) for probe in probes]
        mine: list[Sent] = []
        ids = host.session.publish(namespace, raws, partial(self._confirmed, client, mine))
        for id, probe in zip(ids, probes, strict=True):
            mine.append(Sent(self.sim.now, namespace, PAYLOADS[probe]))
            self.sent[m.EventId(host.publisher, id.epoch, id.seq)] = mine[-1]
        self.sim.pump(host)

    def _confirmed(self, client: str, mine: list[Sent], error: TamisError | None) -> None:
        for sent in mine:
            sent.confirmed = not sent.refused
            if sent.confirmed and client in self.muted and sent.time > self.muted[client]:
                raise InvariantError(f"{client} published although it no longer has the right to (S4)")

    def _refused(self, host: ClientHost, refusal: m.Refusal) -> None:
        may_be = refusal.is_temporary or (host.name in self.muted and refusal.status == 403)
        if refusal.event is None or not refusal.reason or not may_be:
            raise InvariantError(f"{host.name} was refused {refusal}, which says neither what nor why")
        self.sent[m.EventId(host.publisher, refusal.event.epoch, refusal.event.seq)].refused = True

    def _post(self) -> None:
        """Let a producer publish a numbered batch at a broker, again and again until it is accepted."""
        broker, number = self.rng.choice(self.topology.brokers), next(self.numbers)
        namespace, probes = self.rng.choice(NAMESPACES), [self.rng.randrange(len(PROBES)) for _ in range(2)]
        producer = f"producer-{broker}"
        publisher = f"once:local:{producer}@{broker}"
        post = Post(
            tuple(PROBES[probe] for probe in probes), namespace, Rights("local"), publisher, number, producer=producer
        )
        for place, probe in enumerate(probes, 1):
            self.sent[m.EventId(publisher, number, place)] = Sent(self.sim.now, namespace, PAYLOADS[probe])
        if self.posting.get(broker):  # a producer has one batch under way
            self.posting[broker].append(post)
        else:
            self.posting[broker] = [post]
            self._attempt(broker)

    def _attempt(self, broker: str) -> None:
        post, machine = self.posting[broker][0], self.sim.brokers[broker].machine
        answers: list[Any] = []
        if machine is not None:
            machine.submit(Posts((post,)), done=answers.extend)
        self.sim.call_later(self.rng.uniform(0.05, 1.0), self._answered, broker, post, answers)

    def _answered(self, broker: str, post: Post, answers: list[Any]) -> None:
        """Go on with the next batch; one without an answer, or half of the others, is sent again."""
        if answers and isinstance(answers[0], Accepted) and self.rng.random() < 0.7:
            self.posting[broker].pop(0)
            for id in answers[0].ids:
                self.sent[id].confirmed = True
        if self.posting[broker]:
            self._attempt(broker)

    def _cut(self) -> None:
        a, b = self.rng.choice(self.topology.edges)
        self.sim.cut(a, b)
        self.sim.call_later(self.rng.uniform(0.5, 5.0), self.sim.mend, a, b)

    def _restart(self) -> None:
        """Let a client crash: what it published and knows nothing of may or may not have been accepted."""
        host = self.sim.clients[self.rng.choice(list(self.clients))]
        for id, sent in self.sent.items():
            if id.publisher == host.publisher and not sent.confirmed:
                sent.excused = True
        self.restarted.add(host.name)
        self.sim.restart_client(host)
        self._equip(host)
        for subscription in self.subscribed.values():
            if (
                subscription.client == host.name and subscription.cancelled
            ):  # its program says so, or what is left of it would wait
                host.session.leave((subscription.namespace, subscription.message.id))
            elif subscription.client == host.name:
                self._say(subscription)

    def _mute(self) -> None:
        """Revoke the token of a client, and give it one that may not publish."""
        host = self.sim.clients[self.rng.choice(list(self.clients))]
        self.muted[host.name] = self.sim.now
        self.sim.close(host, "the token was revoked")
        host.rights = Rights(host.name, may_publish=False)
        self.sim.call_later(1.0, self._readmit, host)

    def _readmit(self, host: ClientHost) -> None:
        host.refused = ""
        self.sim.dial((host.name, host.broker))

    # Watching

    def _watch(self, host: BrokerHost) -> None:
        self._watch_broker(host.name, host.edge.broker)
        if self.quota != TIGHT[0]:
            (self._watch_overflows if self.drops else self._watch_quota)(host)
        if self.window != WINDOWS[0]:
            self._watch_windows(host)

    def _watch_windows(self, host: BrokerHost) -> None:
        """No wire has more under way than its window, unless it is a single message."""
        for link, connection in host.machine.connections.items():
            end, last = host.ends[link], connection.wire.written
            if connection.wire.lives == (end.epoch, end.peer_epoch) and last > end.acknowledged:
                messages = host.disk.read_outbox(link, end.acknowledged, last - end.acknowledged)
                size = sum(len(body) for _, body in messages)
                if len(messages) > self.window.messages or (len(messages) > 1 and size > self.window.bytes):
                    raise InvariantError(f"{host.name} has {len(messages)} messages, {size} bytes under way to {link}")

    def _news(self, host: ClientHost) -> None:
        seconds = self.slowness[host.name]
        if seconds:
            self.sim.call_later(self.rng.uniform(0, seconds), self._read, host, host.session)
        else:
            self._read(host, host.session)

    def _read(self, host: ClientHost, session: ClientSession) -> None:
        """Let a client read and acknowledge what waits, and keep its cursor."""
        if host.session is not session:  # it crashed before it read this
            return
        mine = self.got.setdefault(host.name, [])
        for cursor, delivery, readers in take_waiting(session):
            mine.append((self.sim.now, delivery))
            for reader in readers:
                self.read.setdefault((host.name, int(reader.id)), set()).add(delivery.event.id)
                session.acknowledge(reader, cursor)
        host.kept = session.link.cursor if session.link.cursor.number else host.kept
        broker = self.sim.brokers[host.broker]
        knows_broker = session.link.broker == broker.epoch and bool(broker.disk.state)
        for reader in list(session.readers.values()):
            self._watch_reader(host, reader, knows_broker=knows_broker)
        host.wake()

    def _watch_reader(self, host: ClientHost, reader: Reader, *, knows_broker: bool) -> None:
        subscription = self.subscribed[host.name, int(reader.id)]
        # What a broker said before it lost its disk may come late; it counts for nothing.
        if reader.state is m.State.ACTIVE and subscription.active_since is None and knows_broker:
            subscription.active_since = self.sim.now
            self._count_active()
        if reader.state is m.State.CANCELLED and subscription.ended is not None:
            subscription.cancelled = True
            host.session.leave(reader.place)

    def _count_active(self) -> None:
        self.active = dict.fromkeys(self.topology.brokers, 0)
        for subscription in self.subscribed.values():
            if subscription.active_since is not None and subscription.ended is None:
                self.active[subscription.broker] |= subscription.mask

    def _watch_broker(self, name: str, core: BrokerCore) -> None:
        for neighbour in self.around[name]:
            if neighbour in core.table.unspoken:
                continue
            needed = self._needed(neighbour, name, self.active)
            if needed & ~table_mask(core, neighbour):
                raise InvariantError(f"{name} does not know all that is active behind {neighbour}", core.story.lines())

    def _watch_quota(self, host: BrokerHost) -> None:
        """No broker takes an event of its own client for an outbox that was full before (G16)."""
        for neighbour in self.around[host.name]:
            end, place = host.ends[neighbour], (host.name, neighbour)
            life = (id(host.machine), end.peer_epoch)
            former_life, last = self.full.pop(place, (None, 0))
            waiting = _waiting(host, neighbour)
            new = [body for number, body in waiting.items() if number > last] if former_life == life else []
            for event_id in (event_ for body in new for event_ in _events_of(m.decode(body, neighbour))):
                if event_id.publisher.endswith(f"@{host.name}"):
                    raise InvariantError(f"{host.name} took {event_id} though {neighbour}'s outbox was full (G16)")
            is_full = len(waiting) >= self.quota.messages or sum(map(len, waiting.values())) >= self.quota.bytes
            if is_full and not host.edge.publications.has_waiting:  # the rest of a batch was accepted with it
                self.full[place] = (life, end.sent)

    def _watch_overflows(self, host: BrokerHost) -> None:
        """No overflow is larger than its share of the quota, unless it is a single message."""
        _, most = share(self.quota)
        for neighbour in self.around[host.name]:
            overflow = host.overflow(neighbour)
            if len(overflow) > 1 and (len(overflow) > most.messages or overflow.bytes > most.bytes):
                raise InvariantError(f"{host.name} has {len(overflow)} messages in the overflow for {neighbour} (G23)")

    def _needed(self, broker: str, neighbour: str, by_broker: dict[str, int]) -> int:
        """Return what is asked for on a broker's side of the edge to a neighbour."""
        needed = 0
        for side in self.sides[broker, neighbour]:
            needed |= by_broker[side]
        return needed

    def _mourn(self, host: BrokerHost, lose_disk: bool) -> None:
        """Note what a crash excuses; the loss of a disk: events in sole custody, and the host's own subscriptions."""
        for subscription in self.subscribed.values():
            if subscription.broker == host.name and subscription.active_since is None:
                subscription.interrupted = True
        if not lose_disk:
            return
        for event_id in _waiting_on(host.disk):
            self._excuse(event_id)
        for event_id in _waiting_on(host.backup) if host.backup is not None else ():
            if event_id in self.sent:
                self.sent[event_id].may_be_late = True
        for event_id, sent in self.sent.items():
            sent.may_be_late |= event_id.publisher.endswith(f"@{host.name}") and not sent.confirmed
        for subscription in self.subscribed.values():
            if subscription.broker == host.name:
                subscription.active_since, subscription.interrupted = None, True
        self._count_active()

    def _excuse(self, id: m.EventId) -> None:
        if id in self.sent:
            self.sent[id].excused = True

    # Judging

    def core(self, broker: str) -> BrokerCore:
        return self.sim.brokers[broker].edge.broker

    def check_quiet(self) -> None:
        """Everything is settled: tables mirror each other, cover what is live, and nothing waits."""
        live = dict.fromkeys(self.topology.brokers, 0)
        for subscription in self.subscribed.values():
            if subscription.ended is None:
                live[subscription.broker] |= subscription.mask
        for broker, host in self.sim.brokers.items():
            host.edge.check_invariants()
            if not self.core(broker).flow.is_open:
                raise InvariantError(f"{broker} still refuses events though nothing waits (G16)")
            waiting = [link for link, end in host.ends.items() if end.outbox]
            waiting += [link for link in self.around[broker] if host.overflow(link)]
            if waiting or host.edge.backlogs.gaps:
                raise InvariantError(f"{broker}: messages wait for {waiting}, suspended {[*host.edge.backlogs.gaps]}")
            if open_gaps := sorted(self.core(broker).flow.gaps.links):
                raise InvariantError(f"{broker} has not told {open_gaps} of their gaps (G23)")
            for neighbour in self.topology.neighbours(broker):
                self._check_link(broker, neighbour, live)
        for client, host in self.sim.clients.items():
            if len(host.session.publishing) or host.session.link.waiting or host.session.link.unread:
                raise InvariantError(f"{client} waits for answers that do not come")
        for (client, id), subscription in self.subscribed.items():
            reader = self.sim.clients[client].session.readers.get((subscription.namespace, id))
            state = m.State.CANCELLED if reader is None else reader.state
            if state is not (m.State.ACTIVE if subscription.ended is None else m.State.CANCELLED):
                raise InvariantError(f"{client}'s {id} is stuck: {state}")

    def _check_link(self, broker: str, neighbour: str, live: dict[str, int]) -> None:
        held = {key: interest.filters for key, interest in self.core(neighbour).table.interests(broker).items()}
        meant = {str(content.id): content.filters for content in self.core(broker).table.contents(neighbour)}
        ours, theirs = (
            self.core(broker).table.cells.sent_ranges(neighbour),
            self.core(neighbour).table.cells.ranges(broker),
        )
        if plain(ours) != plain(theirs):
            raise InvariantError(f"{neighbour} does not hold the ranges that {broker} means it to")
        if held != meant:
            differ = sorted(held.keys() ^ meant.keys()) or [key for key in held if held[key] != meant[key]]
            raise InvariantError(f"{neighbour} does not hold what {broker} means it to: {differ}")
        mask, needed = table_mask(self.core(neighbour), broker), self._needed(broker, neighbour, live)
        if needed & ~mask or (self.exact and needed != mask):
            raise InvariantError(f"{broker} to {neighbour}: the table is not what a rebuild would give (R5)")

    def check_deliveries(self) -> None:
        """The naive network delivered the same."""
        for client, host in self.sim.clients.items():
            lost: set[m.EventId] = set()
            for (owner, id), subscription in self.subscribed.items():
                if owner == client:
                    got = [d.event for _, d in self.got.get(client, ()) if id in d.subscriptions]
                    lost |= self._find_lost(client, id, subscription, got)
            missed = sum(self.gaps.get(client, {}).values())
            if len(lost) > missed:
                raise InvariantError(
                    f"{client} lost {min(lost)} (G4): {len(lost)} lost, {missed} reported as missed (G17)"
                )
            if host.session.repeated and not self.sim.counts.get("disks lost"):
                raise InvariantError(f"{client} was sent an event again though no disk was lost (G12)")
            self._check_order(client)

    def _check_order(self, client: str) -> None:
        ids = [delivery.event.id for _, delivery in self.got.get(client, ())]
        may_repeat = client in self.restarted and self.sim.counts.get("disks lost")
        if len(set(ids)) != len(ids) and not may_repeat:
            raise InvariantError(f"{client} got an event twice (G5, G8)")
        last: dict[str, tuple[int, int]] = {}
        for id in ids:
            place = (id.epoch, id.seq)
            if place < last.get(id.publisher, place) and not (may_repeat or self.sent[id].may_be_late):
                raise InvariantError(f"{client} got {id} behind later events of its publisher (G7)")
            last[id.publisher] = max(place, last.get(id.publisher, place))

    def _find_lost(self, client: str, id: int, subscription: Subscribed, got: list[m.Published]) -> set[m.EventId]:
        """Return the events that a subscription must have got and did not; raise about those that it must not."""
        have = self.read.get((client, id), set())
        for event in got:
            if self.sent[event.id].refused and not self.sim.counts.get("disks lost"):
                raise InvariantError(f"{client} got {event.id}, which its publisher was refused (G16)")
            if event.payload != self.sent[event.id].payload or not self._matches(subscription, self.sent[event.id]):
                raise InvariantError(f"{client} got {event.id} for {id}, which never matched (G2, G3)")
        if not subscription.interrupted and not self.gaps.get(client):
            self._check_no_holes(client, id, subscription, have)
        return {
            event_id
            for event_id, sent in self.sent.items()
            if subscription.active_since is not None
            and subscription.active_since <= sent.time
            and subscription.ended is None
            and not (sent.excused or sent.refused)
            and self._matches(subscription, sent)
            and event_id not in have
        }

    def _check_no_holes(self, client: str, id: int, subscription: Subscribed, have: set[m.EventId]) -> None:
        """Once an event of a publisher came, all later ones come (R12).

        An event that a restored disk sent late says nothing about those between it and what came before.
        """
        in_time = self._came_in_time(client) & have
        for publisher in {event.publisher for event in in_time}:
            places = [(event.epoch, event.seq) for event in in_time if event.publisher == publisher]
            for event_id, sent in self.sent.items():
                place = (event_id.epoch, event_id.seq)
                inside = event_id.publisher == publisher and min(places) < place < max(places)
                if (
                    inside
                    and event_id not in have
                    and self._matches(subscription, sent)
                    and not (sent.excused or sent.refused)
                ):
                    raise InvariantError(f"{client} has a hole at {event_id} for {id} (R12)")

    def _came_in_time(self, client: str) -> set[m.EventId]:
        """Return the events that a client got, but for those that may come, and came, behind later ones."""
        in_time: set[m.EventId] = set()
        last: dict[str, tuple[int, int]] = {}
        for _, delivery in self.got.get(client, ()):
            id = delivery.event.id
            place = (id.epoch, id.seq)
            if place >= last.get(id.publisher, place) or not self.sent[id].may_be_late:
                in_time.add(id)
            last[id.publisher] = max(place, last.get(id.publisher, place))
        return in_time

    def check_audit(self) -> None:
        """Every subscription that was active and went is in the audit of its broker, unless a disk was lost."""
        for broker, host in self.sim.brokers.items():
            if sorted(host.disk.audit) != list(range(1, len(host.disk.audit) + 1)):
                raise InvariantError(f"the audit of {broker} has holes: {sorted(host.disk.audit)}")
            deeds = [msgspec.msgpack.decode(record, type=Deed) for record in host.disk.audit.values()]
            noted = {(deed.who, deed.what, deed.subject) for deed in deeds}
            for (client, id), subscription in self.subscribed.items():
                wanted = {(client, what, str(id)) for what in ("subscribe", "unsubscribe")}
                is_due = subscription.broker == broker and subscription.active_since is not None
                if is_due and not self.sim.counts.get("disks lost") and not wanted <= noted:
                    raise InvariantError(f"the audit of {broker} does not hold {sorted(wanted - noted)} (S24)")

    def _matches(self, subscription: Subscribed, sent: Sent) -> bool:
        return bool(subscription.mask >> WIDTH * NAMESPACES.index(sent.namespace) & BITS[sent.payload]) and (
            subscription.namespace == sent.namespace
        )

    def check_empty(self) -> None:
        """Without subscriptions nothing is left anywhere (R5)."""
        for broker in self.topology.brokers:
            core = self.core(broker)
            core.check_invariants()
            for neighbour in self.topology.neighbours(broker):
                ranges = plain(core.table.cells.ranges(neighbour)) | plain(core.table.cells.sent_ranges(neighbour))
                if ranges.keys() - {ALL_NAMESPACES}:
                    raise InvariantError(f"{broker} holds stale ranges of {neighbour}")
                left = [
                    key
                    for key, interest in core.table.interests(neighbour).items()
                    if interest.namespace != ALL_NAMESPACES
                ]
                if left or any(content.namespace != ALL_NAMESPACES for content in core.table.contents(neighbour)):
                    raise InvariantError(f"{broker} holds stale entries of {neighbour}: {left}")
            links = {host.link for host in self.sim.clients.values()}
            disk = self.sim.brokers[broker].disk.state
            stale = [key for key in disk if key[0] == "out" or (key[0] == "interest" and key[1] in links)]
            if stale:
                raise InvariantError(f"the disk of {broker} holds {stale}")


def agree(cells: CellOptions, policy: Policy) -> bool:
    """Whether a policy may be in a network with these cells: it has the same or none."""
    try:
        common_cells([cells, policy.cells])
    except ModelError:
        return False
    return True


def table_mask(core: BrokerCore, link: str) -> int:
    """Return what a broker's table holds for a neighbour, as bits."""
    mask = 0
    for namespace, ranges in core.table.cells.ranges(link):
        if namespace == ALL_NAMESPACES and all(map(len, ranges)):
            return ALL
        if namespace != ALL_NAMESPACES:
            inside = [mask_of_ranges(*pair) for pair in zip(core.table.cells.spaces, ranges, strict=True)]
            mask |= reduce(and_, inside) << WIDTH * NAMESPACES.index(namespace)
    for interest in core.table.interests(link).values():
        if interest.namespace == ALL_NAMESPACES:
            return ALL
        mask |= mask_of(interest.filters) << WIDTH * NAMESPACES.index(interest.namespace)
    return mask


def plain(ranges: Any) -> dict[str, list[list[list[int]]]]:
    """Return ranges by namespace and space as plain numbers, without empty ones."""
    return {namespace: [array.tolist() for array in arrays] for namespace, arrays in ranges if any(map(len, arrays))}


def _waiting_on(disk: SimulatedDisk) -> list[m.EventId]:
    """Return the events that wait on a disk."""
    bodies = [(body, key[1]) for key, body in disk.state.items() if key[0] in ("out", "overflow")]
    return [event_id for body, link in bodies for event_id in _events_of(m.decode(body, link))]


def _waiting(host: BrokerHost, link: str) -> dict[int, bytes]:
    """Return the messages that wait for a link, from memory or from disk."""
    end = host.ends[link]
    numbers = range(end.acknowledged + 1, end.sent + 1)
    bodies = ((number, end.outbox.find(number)) for number in numbers)
    return {n: host.disk.read_outbox(link, n - 1, 1)[0][1] if body is None else body for n, body in bodies}


def _events_of(message: Any) -> list[m.EventId]:
    """Return the events that a message carries, or tells the fate of."""
    if isinstance(message, m.Publish | m.Delivery):
        return [message.event.id]
    if isinstance(message, m.Refusal) and message.event is not None:
        return [message.event]
    return [event.id for event in message.events] if isinstance(message, m.PublishBatch) else []
