"""A small world for one seed: brokers, clients, churn, faults; and the oracle that judges all of it.

Attributes take few values, so every filter *is* the set of probe events it matches, a bit mask (`mask_of`). Who must
hear of what is then arithmetic on integers, exact, and cheap enough to be asked after every single step:

* after each step (`_watch`): whatever a subscription that is ACTIVE asks for is in the table of every broker, for the
  neighbour towards it (promises R1, R2, G4);
* when quiet (`check_quiet`): every table is what its neighbour means it to be and covers exactly the live
  subscriptions behind it (R5), everything is ACTIVE, and the cores' own invariants hold;
* at the end (`check_deliveries`): the naive network, in which every event meets every subscription, delivered the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import and_
from typing import Any

from tamis import Number, Schema
from tamis.algebra.evaluate import matches
from tamis.errors import InvariantError, ModelError
from tamis.model.subscription import Filter
from tamis.node.content import Content
from tamis.node.node import Codec
from tamis.node.stream import Quota
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.core.client import USER, ClientCore
from tamis.routing.core.routing_table import ALL_NAMESPACES
from tamis.routing.policies import POLICIES, CellOptions, Policy
from tamis.routing.policies.cell_tables import USUAL_CELLS, common_cells
from tamis.runtime.simulation.simulator import NO_FAULTS, Faults, Host, Simulator
from tamis.runtime.simulation.topology import Topology

SIDE = 6
NAMESPACES = ("default", "other")
SCHEMA = Schema({"a": Number(0, SIDE - 1), "b": Number(0, SIDE - 1)})
CODEC = Codec(m.encode, m.decode)
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

#: How much may wait in an outbox; a seed takes one. Three messages are a burst, eight a cut link.
TIGHT = (Quota(), Quota(3), Quota(8), Quota(bytes=600))

_range_masks: dict[tuple[str, bytes], int] = {}
_probe_keys: dict[str, list[int]] = {}
_masks: dict[int, tuple[tuple[Filter, ...], int]] = {}


def mask_of(filters: tuple[Filter, ...]) -> int:
    """Return the probes that match, as bits; remembered by identity, for filters that were read are shared."""
    known = _masks.get(id(filters))
    if known is None:
        mask = sum(1 << i for i, probe in enumerate(PROBES) if any(matches(probe, one) for one in filters))
        known = _masks[id(filters)] = (filters, mask)
    return known[1]


def mask_of_ranges(space: Any, ranges: Any) -> int:
    """Return the probes whose keys lie in ranges of cells, as bits."""
    place = (space.version, ranges.tobytes())
    if place not in _range_masks:
        if space.version not in _probe_keys:
            _probe_keys[space.version] = [space.key_of(probe) for probe in PROBES]
        keys = _probe_keys[space.version]
        inside = [any(low <= key <= high for low, high in ranges.tolist()) for key in keys]
        _range_masks[place] = sum(1 << i for i, one in enumerate(inside) if one)
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
class Asked:
    """A subscription as its client sees it."""

    client: str
    broker: str
    namespace: str
    mask: int
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
    #: A broker lost its disk while the event was in its sole custody.
    excused: bool = False
    #: Its publisher heard that it was not accepted.
    refused: bool = False


@dataclass
class Plan:
    """How much happens in a world."""

    brokers: int = 6
    clients: int = 5
    subscriptions: int = 14
    unsubscriptions: int = 8
    events: int = 24
    cuts: int = 2
    seconds: float = 20.0


@dataclass
class World:
    """One seed's world. The classes can be replaced, which is how bugs are planted."""

    seed: int
    plan: Plan = field(default_factory=Plan)
    broker_class: type[BrokerCore] = BrokerCore
    simulator_class: type[Simulator] = Simulator
    policy: str | None = None
    weather: Faults | None = None
    quota: Quota | None = None

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.quota = self.quota or TIGHT[self.seed // 40 % len(TIGHT)]
        self.weather = self.weather or WEATHERS[self.seed % len(WEATHERS)]
        self.main = self._main_policy()
        shape = self.rng.choice(("line", "star", "balanced", "random"))
        self.topology = Topology.of(shape, self.plan.brokers, seed=self.seed)
        self.sides = {(a, b): self.topology.side(a, b) for edge in self.topology.edges for a, b in (edge, edge[::-1])}
        self.around = {broker: self.topology.neighbours(broker) for broker in self.topology.brokers}
        self.asked: dict[tuple[str, int], Asked] = {}
        self.sent: dict[m.EventId, Sent] = {}
        self.active = dict.fromkeys(self.topology.brokers, 0)
        self.seen: dict[str, int] = {}
        self.got: dict[str, list[tuple[float, m.Delivery]]] = {}
        #: Outboxes at their quota after the last step of their broker: in which lives, and up to which message.
        self.full: dict[tuple[str, str], tuple[Any, int]] = {}
        self.sim = self.simulator_class(CODEC, seed=self.seed, faults=NO_FAULTS)
        self.sim.max_steps = 10_000
        self._build()

    def _main_policy(self) -> Policy:
        """Choose by the seed; ranges of cells cost several times what filters do, so they come in every fifth round."""
        round_number, fifth_round = divmod(self.seed // len(WEATHERS), 5)
        slow = [policy for policy in POLICIES.values() if policy.cells or policy.stages]
        quick = [policy for policy in POLICIES.values() if policy not in slow]
        turn, usual = (round_number, slow) if fifth_round == 4 else (4 * round_number + fifth_round, quick)
        main = POLICIES[self.policy] if self.policy else usual[turn % len(usual)]
        self.choices = quick + [policy for policy in slow if main in slow and agree(main.cells or USUAL_CELLS, policy)]
        return main

    # Building

    def _build(self) -> None:
        policies = self._link_policies()
        for broker in self.topology.brokers:
            around = self.topology.neighbours(broker)
            mine = {other: policies[broker, other] for other in around}
            make_core = partial(self.broker_class, broker, mine, CONTENT, None, self.cells)
            self.sim.add(broker, make_core, list(around), quota=self.quota)
        self.clients = {f"c{i}": self.rng.choice(self.topology.brokers) for i in range(self.plan.clients)}
        for client, broker in self.clients.items():
            self.sim.attach(broker, client)
            self.sim.add(client, lambda c=client, b=broker: ClientCore(c, b), [broker], mortal=False)
        self.sim.watch, self.sim.mourn = self._watch, self._mourn

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
        plan, rng, sim = self.plan, self.rng, self.sim
        sim.faults = self.weather or NO_FAULTS
        actions = [self._subscribe] * plan.subscriptions + [self._unsubscribe] * plan.unsubscriptions
        actions += [self._publish] * plan.events + [self._cut] * (plan.cuts if sim.faults is not NO_FAULTS else 0)
        if sim.faults is not NO_FAULTS:
            sim.slow(*rng.choice(self.topology.edges), rng.choice((1, 10, 100)))
        for action in actions:
            sim.call_later(rng.uniform(0, plan.seconds), action)
        sim.run(until=plan.seconds)
        sim.faults = NO_FAULTS
        self._heal()
        sim.run()
        self.check_quiet()
        refused = sum(one.refused for one in self.sent.values())
        for _ in range(4):
            self._publish()
            sim.run()
        if refused != sum(one.refused for one in self.sent.values()):
            raise InvariantError("events are still refused after everything has healed (G16)")
        self.check_deliveries()
        for client, id in list(self.asked):
            self._end(client, id)
        sim.run()
        self.check_empty()

    def _heal(self) -> None:
        for a, b in self.topology.edges:
            self.sim.mend(a, b)

    def _subscribe(self) -> None:
        client, id = self.rng.choice(list(self.clients)), len(self.asked)
        data, namespace = self.rng.choice(POOL), self.rng.choice((NAMESPACES[0], *NAMESPACES))
        shift = WIDTH * NAMESPACES.index(namespace)
        self.asked[client, id] = Asked(client, self.clients[client], namespace, MASKS[data] << shift)
        self.sim.submit(client, m.Subscribe(id, data, namespace), sender=USER)

    def _unsubscribe(self) -> None:
        live = [key for key, asked in self.asked.items() if asked.ended is None]
        if live:
            self._end(*self.rng.choice(live))

    def _end(self, client: str, id: int) -> None:
        asked = self.asked[client, id]
        if asked.ended is None:
            asked.ended = self.sim.now
            self._count_active()
            self.sim.submit(client, m.Unsubscribe(id, asked.namespace), sender=USER)

    def _publish(self) -> None:
        client = self.rng.choice(list(self.clients))
        batch = [self._event(client) for _ in range(self.rng.choice((1, 1, 1, 3)))]
        message = m.Publish(batch[0]) if len(batch) == 1 else m.PublishBatch(tuple(batch))
        self.sim.submit(client, message, sender=USER)

    def _event(self, client: str) -> m.Published:
        id = m.EventId(client, 1, 1 + sum(one.publisher == client for one in self.sent))
        event = m.Published(id, self.rng.choice((NAMESPACES[0], *NAMESPACES)), self.rng.choice(PAYLOADS))
        self.sent[id] = Sent(self.sim.now, event.namespace, event.payload)
        return event

    def _cut(self) -> None:
        a, b = self.rng.choice(self.topology.edges)
        self.sim.cut(a, b)
        self.sim.call_later(self.rng.uniform(0.5, 5.0), self.sim.mend, a, b)

    # Watching

    def _watch(self, host: Host) -> None:
        core = host.node.core if host.node is not None else None
        if isinstance(core, ClientCore):
            broker = self.sim.hosts[core.broker]
            this_life = host.node.ends[core.broker].peer_epoch == broker.epoch and bool(broker.disk)
            self._watch_client(core, knows_broker=this_life)
        elif isinstance(core, BrokerCore):
            self._watch_broker(host.name, core)
            if self.quota != TIGHT[0]:
                self._watch_quota(host)

    def _watch_client(self, core: ClientCore, *, knows_broker: bool) -> None:
        mine = self.got.setdefault(core.name, [])
        for delivery in core.deliveries[len(mine) :]:
            mine.append((self.sim.now, delivery))
            for id in delivery.subscriptions:
                if self.asked[core.name, int(id)].cancelled:
                    raise InvariantError(f"{core.name} got {delivery.event.id} for {id} after it was cancelled (G9)")
        for refusal in core.refusals:
            if refusal.event is None or not refusal.is_temporary or not refusal.reason:
                raise InvariantError(f"{core.name} was refused {refusal}, which says neither what nor why")
            self.sent[refusal.event].refused = True
        for (_, id), state in core.states.items():
            asked = self.asked[core.name, int(id)]
            # What a broker said before it lost its disk may come late; it counts for nothing.
            if state is m.State.ACTIVE and asked.active_since is None and knows_broker:
                asked.active_since = self.sim.now
                self._count_active()
            asked.cancelled = asked.cancelled or state is m.State.CANCELLED

    def _count_active(self) -> None:
        self.active = dict.fromkeys(self.topology.brokers, 0)
        for asked in self.asked.values():
            if asked.active_since is not None and asked.ended is None:
                self.active[asked.broker] |= asked.mask

    def _watch_broker(self, name: str, core: BrokerCore) -> None:
        for neighbour in self.around[name]:
            if neighbour in core.table.unspoken:
                continue
            needed = self._needed(neighbour, name, self.active)
            if needed & ~table_mask(core, neighbour):
                raise InvariantError(f"{name} does not know all that is active behind {neighbour}", core.story.lines())

    def _watch_quota(self, host: Host) -> None:
        """No broker takes an event of its own client for an outbox that was full before (G16)."""
        for neighbour in self.around[host.name]:
            end, place = host.node.ends[neighbour], (host.name, neighbour)
            life = (id(host.node), end.peer_epoch)
            known, last = self.full.pop(place, (None, 0))
            new = [number for number in end.outbox if number > last] if known == life else []
            for event_id in (one for number in new for one in _events_of(m.decode(end.outbox[number], neighbour))):
                if self.clients[event_id.publisher] == host.name:
                    raise InvariantError(f"{host.name} took {event_id} though {neighbour}'s outbox was full (G16)")
            if len(end.outbox) >= self.quota.messages or sum(map(len, end.outbox.values())) >= self.quota.bytes:
                self.full[place] = (life, end.sent)

    def _needed(self, broker: str, neighbour: str, by_broker: dict[str, int]) -> int:
        """Return what is asked for on a broker's side of the edge to a neighbour."""
        needed = 0
        for one in self.sides[broker, neighbour]:
            needed |= by_broker[one]
        return needed

    def _mourn(self, host: Host, lose_disk: bool) -> None:
        """Note what a crash excuses; the loss of a disk: events in sole custody, and the host's own subscriptions."""
        for asked in self.asked.values():
            if asked.broker == host.name and asked.active_since is None:
                asked.interrupted = True
        if not lose_disk:
            return
        for key, body in host.disk.items():
            if key[0] == "out":
                message = m.decode(body, key[1])
                for event_id in _events_of(message):
                    self.sent[event_id].excused = True
        for asked in self.asked.values():
            if asked.broker == host.name:
                asked.active_since, asked.interrupted = None, True
        self._count_active()

    # Judging

    def core(self, broker: str) -> BrokerCore:
        node = self.sim.hosts[broker].node
        assert node is not None, f"{broker} is down"
        return node.core

    def check_quiet(self) -> None:
        """Everything is settled: tables mirror each other, cover what is live, and nothing waits."""
        live = dict.fromkeys(self.topology.brokers, 0)
        for asked in self.asked.values():
            if asked.ended is None:
                live[asked.broker] |= asked.mask
        for broker in self.topology.brokers:
            self.core(broker).check_invariants()
            if not self.core(broker).flow.is_open:
                raise InvariantError(f"{broker} still refuses events though nothing waits (G16)")
            for neighbour in self.topology.neighbours(broker):
                self._check_link(broker, neighbour, live)
        for (client, id), asked in self.asked.items():
            state = self.sim.hosts[client].node.core.states[asked.namespace, id]
            if state is not (m.State.ACTIVE if asked.ended is None else m.State.CANCELLED):
                raise InvariantError(f"{client}'s {id} is stuck: {state}")

    def _check_link(self, broker: str, neighbour: str, live: dict[str, int]) -> None:
        held = {key: one.filters for key, one in self.core(neighbour).table.interests(broker).items()}
        meant = {str(one.id): one.filters for one in self.core(broker).table.contents(neighbour)}
        ours, theirs = self.core(broker).table.cells.told(neighbour), self.core(neighbour).table.cells.ranges(broker)
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
        for (client, id), asked in self.asked.items():
            got = [d.event for _, d in self.got.get(client, ()) if id in d.subscriptions]
            self._check_one(client, id, asked, got)
        for client, got in self.got.items():
            if self.sim.hosts[client].node.core.repeated and not self.sim.counts.get("disks lost"):
                raise InvariantError(f"{client} was sent an event again though no disk was lost (G12)")
            ids = [delivery.event.id for _, delivery in got]
            if len(set(ids)) != len(ids):
                raise InvariantError(f"{client} got an event twice (G5, G8)")
            for publisher in self.clients:
                order = [id.seq for id in ids if id.publisher == publisher]
                if order != sorted(order):
                    raise InvariantError(f"{client} got the events of {publisher} out of order (G7)")

    def _check_one(self, client: str, id: int, asked: Asked, got: list[m.Published]) -> None:
        have = {event.id for event in got}
        for event in got:
            if self.sent[event.id].refused and not self.sim.counts.get("disks lost"):
                raise InvariantError(f"{client} got {event.id}, which its publisher was refused (G16)")
            if event.payload != self.sent[event.id].payload or not self._matches(asked, self.sent[event.id]):
                raise InvariantError(f"{client} got {event.id} for {id}, which never matched (G2, G3)")
        for event_id, sent in self.sent.items():
            due = asked.active_since is not None and asked.active_since <= sent.time and asked.ended is None
            if due and not (sent.excused or sent.refused) and self._matches(asked, sent) and event_id not in have:
                raise InvariantError(f"{client} lost {event_id} for {id} (G4)")
        if not asked.interrupted:
            self._check_no_holes(client, id, asked, have)

    def _check_no_holes(self, client: str, id: int, asked: Asked, have: set[m.EventId]) -> None:
        """Once an event of a publisher came, all later ones come (R12)."""
        for publisher in self.clients:
            seqs = [one.seq for one in have if one.publisher == publisher]
            for event_id, sent in self.sent.items():
                inside = event_id.publisher == publisher and seqs and min(seqs) < event_id.seq < max(seqs)
                if (
                    inside
                    and event_id not in have
                    and self._matches(asked, sent)
                    and not (sent.excused or sent.refused)
                ):
                    raise InvariantError(f"{client} has a hole at {event_id} for {id} (R12)")

    def _matches(self, asked: Asked, sent: Sent) -> bool:
        return bool(asked.mask >> WIDTH * NAMESPACES.index(sent.namespace) & BITS[sent.payload]) and (
            asked.namespace == sent.namespace
        )

    def check_empty(self) -> None:
        """Nobody asks for anything: nothing is left anywhere (R5)."""
        for broker in self.topology.brokers:
            core = self.core(broker)
            core.check_invariants()
            for neighbour in self.topology.neighbours(broker):
                ranges = plain(core.table.cells.ranges(neighbour)) | plain(core.table.cells.told(neighbour))
                if ranges.keys() - {ALL_NAMESPACES}:
                    raise InvariantError(f"{broker} holds stale ranges of {neighbour}")
                left = [key for key, one in core.table.interests(neighbour).items() if one.namespace != ALL_NAMESPACES]
                if left or any(one.namespace != ALL_NAMESPACES for one in core.table.contents(neighbour)):
                    raise InvariantError(f"{broker} holds stale entries of {neighbour}: {left}")
            disk = self.sim.hosts[broker].disk
            stale = [key for key in disk if key[0] == "out" or (key[0] == "interest" and key[1] in self.clients)]
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
    for one in core.table.interests(link).values():
        if one.namespace == ALL_NAMESPACES:
            return ALL
        mask |= mask_of(one.filters) << WIDTH * NAMESPACES.index(one.namespace)
    return mask


def plain(ranges: Any) -> dict[str, list[list[list[int]]]]:
    """Return ranges by namespace and space as plain numbers, without empty ones."""
    return {namespace: [one.tolist() for one in found] for namespace, found in ranges if any(map(len, found))}


def _events_of(message: Any) -> list[m.EventId]:
    """Return the events that a message carries, or tells the fate of."""
    if isinstance(message, m.Publish | m.Delivery):
        return [message.event.id]
    if isinstance(message, m.Refusal) and message.event is not None:
        return [message.event]
    return [event.id for event in message.events] if isinstance(message, m.PublishBatch) else []
