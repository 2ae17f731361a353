"""Which brokers are behind each link, so that no link closes a ring of brokers (promise R16).

Brokers exchange their tables along a tree. In a ring each broker would wait for the table of the next one, and events
would circulate for ever. So each broker sends each neighbour the tree of brokers behind it (`Reach`), on every
connection and after every change. If a broker is behind two links, these links are part of a ring, and the newest link
of that ring is *refused*: both its ends treat it as removed until the ring is gone.

Both ends choose the same link independently, because they agree on the age of every link: each end proposes a moment
later than every moment it has seen, and the later proposal counts. An end that has lost its disk takes the age from the
other end. A link that joins two brokers of one tree is therefore the newest of its ring, whatever the clocks show.
Brokers also report which links are refused, so that an end refuses its link when the other end does.

The state of a link is kept while its neighbour is away, and on disk: a dead broker is still part of its ring. A link
that another one replaces (``resend_from``) no longer counts, and its neighbour may not connect again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from tamis.node import records
from tamis.node.effects import Effect, Key, Link, Persist, Tell
from tamis.routing.edge.limits import MAX_NAME
from tamis.routing.messages import Reach, Reached
from tamis.routing.policies import Policy

__all__ = ["MAX_BROKERS", "Readmit", "RingDetector", "find_problem", "replaced_links"]

#: Brokers that one `Reach` lists: further ones are left out, so a ring through those is not found.
MAX_BROKERS = 4_096
#: Up to this number of neighbours, changes are sent at once.
_FEW = 8
#: Ages of links are below this: in microseconds the year 148,000, and room for the steps of `RingDetector.add`.
_LATEST = 1 << 62


@dataclass(frozen=True)
class Readmit:
    """A refused link no longer closes a ring: use it again. It never crosses a wire."""

    link: Link


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    """The stored state of a link; the fields are those of `_Side`."""

    proposed: int
    agreed: int
    brokers: tuple[Reached, ...]
    replaced_by: str
    ring: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


_saved_decoder = msgspec.msgpack.Decoder(_Saved)


@dataclass(frozen=True)
class _Side:
    """The state of one link."""

    #: The age that this end proposes, and the age that both ends agreed on; 0 until the other end has answered.
    proposed: int
    agreed: int = 0
    #: The brokers behind the neighbour by name, each after its parent.
    tree: Mapping[str, Reached] = field(default_factory=dict)
    #: The link that was added in place of this one, whose neighbour is dead; "": none.
    replaced_by: str = ""
    #: The brokers of the ring that the link would close; empty while the link is in use.
    ring: tuple[str, ...] = ()
    #: The links behind the neighbour that are refused, each as the broker that refuses it and its other end.
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def is_counted(self) -> bool:
        """Whether brokers are reached over this link."""
        return bool(self.agreed) and not self.ring and not self.replaced_by

    def agree(self, message: Reach) -> int:
        """Return the agreed age after a message of the other end."""
        if not self.agreed:
            return message.since if message.is_agreed else max(self.proposed, message.since)
        return min(self.agreed, message.since) if message.is_agreed else self.agreed

    def path_to(self, link: Link, name: str) -> list[str]:
        """Return the brokers from the neighbour to another one behind it."""
        path = [name]
        while path[-1] != link:
            path.append(self.tree[path[-1]].parent)
        return path[::-1]

    def depths(self, link: Link) -> dict[str, int]:
        """Return how many links lead from the neighbour to each broker behind it, the neighbour itself included."""
        depths = {link: 0}
        for name, broker in self.tree.items():  # each after its parent
            depths[name] = depths[broker.parent] + 1
        return depths

    def record(self, link: Link) -> Persist:
        """Return the change that persists this side."""
        saved = _Saved(self.proposed, self.agreed, tuple(self.tree.values()), self.replaced_by, self.ring, self.refused)
        return records.REACH.put(link, value=msgspec.msgpack.encode(saved))


class _Ring(NamedTuple):
    """Brokers in a circle, each linked to the next, and the two ends of the newest link."""

    brokers: tuple[str, ...]
    newest: frozenset[str]


class RingDetector:
    """The brokers behind the links of the broker ``name``."""

    def __init__(self, name: str, links: Mapping[Link, Policy]) -> None:
        self._name = name
        #: The policy of each link, refused ones included.
        self.policies = dict(links)
        self._sides: dict[Link, _Side] = {link: _Side(0) for link in links}
        #: The last message sent to each connected neighbour.
        self._last_sent: dict[Link, Reach] = {}
        #: Whether messages to neighbours are due at the next tick.
        self._is_due = False
        #: Links that were refused since `take_refused` was called.
        self._refused: list[tuple[Link, str]] = []

    @property
    def refused(self) -> list[Link]:
        """The links that are refused now."""
        return [link for link, side in self._sides.items() if side.ring]

    def restore(self, stored: Mapping[Key, bytes], now: float) -> list[Effect]:
        """Restore the state of an earlier life; return what to persist of new links."""
        new_links = list(self._sides)
        for (link,), value in records.REACH.items(stored):
            if link in self._sides:
                saved = _saved_decoder.decode(value)
                tree = {broker.name: broker for broker in saved.brokers}
                replaced_by = (
                    saved.replaced_by if saved.replaced_by in self._sides else ""
                )  # it may be gone from the file
                self._sides[link] = _Side(saved.proposed, saved.agreed, tree, replaced_by, saved.ring, saved.refused)
                new_links.remove(link)
        effects = [effect for link in new_links for effect in self.add(link, self.policies[link], now)]
        for link in new_links:
            if (ring := _ring_with(self._name, self._sides, link)) is not None:
                effects += self.refuse(link, ring)
        return effects

    def add(self, link: Link, policy: Policy, now: float) -> list[Effect]:
        """Add a link that is new or was refused."""
        self.policies[link] = policy
        age = max(round(now * 1e6), 1 + max(_ages(self._sides.values()), default=0))
        return self._put(link, _Side(min(age, _LATEST - 1)))  # of two links of one age, the greater names are newer

    def remove(self, link: Link) -> list[Effect]:
        """Forget a link; one that it replaced counts again."""
        del self._sides[link], self.policies[link]
        self._last_sent.pop(link, None)
        effects: list[Effect] = [records.REACH.drop(link)]
        for replaced, side in list(self._sides.items()):
            if side.replaced_by == link:
                effects += self._put(replaced, replace(side, replaced_by=""))
        return effects + self.tell()

    def put_in_place(self, dead: Link, link: Link) -> list[Effect]:
        """Note that a new link replaces a dead one."""
        return [*self._put(dead, replace(self._sides[dead], replaced_by=link, tree={})), *self.tell()]

    def greet(self, link: Link) -> list[Effect]:
        """Return the message that tells a newly connected neighbour which brokers it reaches through this one."""
        side = self._sides.get(link)
        if side is None or not (side.proposed or side.agreed):  # without an age there is nothing to agree on
            return []
        self._last_sent[link] = message = _reach_for(self._name, self._sides, link)
        return [Tell(link, message)]

    def take(self, link: Link, message: Reach) -> list[Effect]:
        """Apply a message of a neighbour; a link that `find_refusable` returns afterwards must be refused.

        A message that is not a tree of brokers is ignored as a whole: a later release may send another form, and the
        other messages of its frame still count.
        """
        if find_problem(self._name, link, message):
            return []
        previous = self._sides[link]
        tree = _tree_behind(self._name, message)
        side = replace(previous, agreed=previous.agree(message), tree=tree, refused=message.refused)
        effects = [] if side == previous else self._put(link, side)
        for broker in message.brokers:  # ages of our links whose neighbours have not answered since this disk was lost
            silent_side = self._sides.get(broker.parent) if broker.name == self._name else None
            if silent_side is not None and not silent_side.agreed:
                effects += self._put(broker.parent, replace(silent_side, agreed=broker.since))
        return [*effects, *(self.tell() if effects else ())]

    def part(self, link: Link) -> None:
        """Note that the connection to a neighbour is lost; `greet` sends everything again on the next one."""
        self._last_sent.pop(link, None)

    def tell_due(self) -> list[Effect]:
        """Return the messages that `tell` has put off."""
        effects = self._tell_all() if self._is_due else []
        self._is_due = False
        return effects

    def tell(self) -> list[Effect]:
        """Return messages to connected neighbours whose tree has changed; with many neighbours wait for the next tick.

        Otherwise each of many neighbours would be sent the whole tree again for every message of one of them.
        """
        if len(self._last_sent) <= _FEW:
            return self._tell_all()
        self._is_due = True
        return []

    def _tell_all(self) -> list[Effect]:
        effects: list[Effect] = []
        for link, last_message in list(self._last_sent.items()):
            message = self._last_sent[link] = _reach_for(self._name, self._sides, link)
            if message != last_message:
                effects.append(Tell(link, message))
        return effects

    def find_refusable(self, changed: Link = "") -> tuple[Link, tuple[str, ...]] | None:
        """Return a link that must be refused, the newest link of a ring, and that ring; None: there is none.

        With ``changed`` only rings through that link are checked. The other end of a refused link closes the
        connection, so a report that it refuses the link counts only while there is no connection.
        """
        for ring in _rings(self._name, self._sides, changed):
            if self._name in ring.newest:
                [link] = ring.newest - {self._name}
                return link, ring.brokers
        for side in _counted(self._sides).values():
            for refusing_broker, own_name in side.refused:
                is_open = (
                    own_name == self._name and refusing_broker in self._sides and not self._sides[refusing_broker].ring
                )
                is_reached_otherwise = refusing_broker in side.tree and refusing_broker not in self._last_sent
                if (
                    is_open
                    and is_reached_otherwise
                    and (brokers := _ring_with(self._name, self._sides, refusing_broker)) is not None
                ):
                    return refusing_broker, brokers
        return None

    def refuse(self, link: Link, ring: tuple[str, ...]) -> list[Effect]:
        """Refuse a link because it is the newest of a ring."""
        effects = self._put(link, replace(self._sides[link], ring=ring, tree={}, refused=()))
        self._last_sent.pop(link, None)
        self._refused.append((link, _text(link, ring)))
        return [*effects, *self.tell()]

    def take_refused(self) -> list[tuple[Link, str]]:
        """Return the links that were refused since the last call, each with the reason."""
        refused, self._refused = self._refused, []
        return refused

    def why_refused(self, link: Link) -> str:
        """Return the reason that is sent to the neighbour of a refused link."""
        return _text(link, self._sides[link].ring)

    def ring_of(self, link: Link) -> str:
        """Return the ring because of which a link is refused, as "a - b - c - a"; "" for all others."""
        side = self._sides.get(link)
        return "" if side is None or not side.ring else _circle(side.ring)

    def why_not(self, link: Link) -> str:
        """Return why a neighbour may not connect; "" when it may."""
        side = self._sides.get(link)
        if side is None:
            return f"the link to broker {link!r} was removed"
        if side.replaced_by:
            return (
                f"the link {link!r} was replaced by {side.replaced_by!r}: remove it (tamis serve links remove {link})"
            )
        if not side.ring:
            return ""
        return self.why_not_new(link)

    def why_not_new(self, link: Link, dead: Link = "") -> str:
        """Return why a link to a broker cannot be added: it is reached over another link already. "" if it can.

        ``dead`` is a link that the new one replaces.
        """
        ring = _ring_with(self._name, self._sides, link, dead)
        if ring is None:
            return ""
        return f"{_text(link, ring)}. If {ring[1]!r} is gone for ever, add the link with --resend-from {ring[1]}"

    # Inside

    def _put(self, link: Link, side: _Side) -> list[Effect]:
        self._sides[link] = side
        return [side.record(link)]


def replaced_links(stored: Mapping[Key, bytes]) -> set[Link]:
    """Return the links on a disk in whose place others were added."""
    return {link for (link,), value in records.REACH.items(stored) if _saved_decoder.decode(value).replaced_by}


def _counted(sides: Mapping[Link, _Side]) -> dict[Link, _Side]:
    """Return the links over which brokers are reached."""
    return {link: side for link, side in sides.items() if side.is_counted}


def _reach_for(name: str, sides: Mapping[Link, _Side], link: Link) -> Reach:
    """Return the message for a neighbour: the brokers behind all other links, each once."""
    reached: dict[str, Reached] = {}
    refused = {(name, other): None for other, side in sides.items() if side.ring}
    for other, side in _counted(sides).items():
        if other == link:
            continue
        refused |= dict.fromkeys(side.refused)
        if other in reached:
            continue
        if not _is_name(other):  # possible in a configuration file; neighbours would ignore the whole message
            continue
        reached[other] = Reached(other, name, side.agreed)
        for broker in side.tree.values():
            if broker.name != name and broker.parent in reached and broker.parent != link:
                reached.setdefault(broker.name, broker)  # also the neighbour itself: it learns which brokers link to it
    side = sides[link]
    brokers = tuple(reached.values())[:MAX_BROKERS]
    return Reach(side.agreed or side.proposed, bool(side.agreed), brokers, tuple(refused)[:MAX_BROKERS])


def _ring_with(name: str, sides: Mapping[Link, _Side], link: Link, dead: Link = "") -> tuple[str, ...] | None:
    """Return the ring that a link closes if its broker is reached over another link already; otherwise None."""
    for other, side in _counted(sides).items():
        if other not in (link, dead) and link in side.tree:
            return (name, *side.path_to(other, link))
    return None


def _rings(name: str, sides: Mapping[Link, _Side], changed: Link = "") -> Iterator[_Ring]:
    """Yield the rings through the broker ``name``: for each pair of its links the shortest ring.

    With ``changed`` only pairs with that link are compared.
    """
    counted = _counted(sides)
    depths = {link: side.depths(link) for link, side in counted.items()}
    for a, b in itertools.combinations(counted, 2):
        if changed and changed not in (a, b):
            continue
        shared = depths[a].keys() & depths[b].keys()
        ends = [end for end in shared if _is_confirmed(end, counted[a], counted[b])]
        if ends:
            end = min(ends, key=lambda end: (depths[a][end] + depths[b][end], end))
            yield _ring(name, sides, counted[b].path_to(b, end), counted[a].path_to(a, end))


def _ages(sides: Iterable[_Side]) -> Iterator[int]:
    """Yield the ages of all links that are known."""
    for side in sides:
        yield max(side.proposed, side.agreed)
        yield from (broker.since for broker in side.tree.values())


def _ring(name: str, sides: Mapping[Link, _Side], path: list[str], back: list[str]) -> _Ring:
    """Return the ring formed by two paths that start behind the broker ``name`` and end at the same broker."""
    ages: list[tuple[int, list[str]]] = []
    for names in (path, back):
        side = sides[names[0]]
        ages.append((side.agreed, sorted((name, names[0]))))
        ages += [(side.tree[b].since, sorted((a, b))) for a, b in itertools.pairwise(names)]
    return _Ring((name, *path, *back[-2::-1]), frozenset(max(ages)[1]))


def _is_confirmed(end: str, a: _Side, b: _Side) -> bool:
    """Whether a broker behind two links itself reports both links over which it is reached.

    A link that only one end reports, because the other end removed it or lost its disk, closes no ring.
    """
    return _has_link(end, a, b) and _has_link(end, b, a)


def _has_link(end: str, side: _Side, other: _Side) -> bool:
    """Whether ``side`` lists behind ``end`` the broker over which ``other`` reaches ``end``."""
    if end not in other.tree:  # it is the neighbour itself
        return True
    leader = other.tree[end].parent
    return leader in side.tree and side.tree[leader].parent == end


def _tree_behind(name: str, message: Reach) -> dict[str, Reached]:
    """Return the brokers of a message without those that its sender reaches through the broker ``name``."""
    tree: dict[str, Reached] = {}
    hidden = {name}
    for broker in message.brokers:
        if broker.name in hidden or broker.parent in hidden:
            hidden.add(broker.name)
        else:
            tree[broker.name] = broker
    return tree


def find_problem(name: str, link: Link, message: Reach) -> str:
    """Return why a message of the neighbour ``link`` is not a tree of brokers of bounded size; "" if it is one."""
    if max(len(message.brokers), len(message.refused)) > MAX_BROKERS:
        return f"a Reach lists at most {MAX_BROKERS:,} brokers and refused links"
    names = [broker.name for broker in message.brokers] + [name for pair in message.refused for name in pair]
    wrong_name = next((name for name in names if not _is_name(name)), None)
    if wrong_name is not None:
        return (
            f"a broker's name is 1 to {MAX_NAME} printable characters, not {len(wrong_name)}: {wrong_name[:MAX_NAME]!r}"
        )
    if not all(0 < age < _LATEST for age in (message.since, *(broker.since for broker in message.brokers))):
        return "the age of a link is a positive number of microseconds below 2^62"
    listed = {link}
    for broker in message.brokers:
        if broker.name in listed and broker.name != name:
            return f"duplicate broker {broker.name!r} in a Reach"
        if broker.parent not in listed:
            return f"broker {broker.name!r} is behind the unknown {broker.parent[:MAX_NAME]!r}"
        listed.add(broker.name)
    return ""


def _is_name(name: str) -> bool:
    """Whether a broker may have this name in a message; names are written to logs and to the audit."""
    return 0 < len(name) <= MAX_NAME and name.isprintable()


def _text(link: Link, ring: tuple[str, ...]) -> str:
    return f"the link to {link!r} closes a ring of brokers ({_circle(ring)}): remove one of its links at both ends"


def _circle(brokers: tuple[str, ...]) -> str:
    return " - ".join((*brokers, brokers[0]))
