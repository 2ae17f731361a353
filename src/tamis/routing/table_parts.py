"""Whole routing tables on links, in parts of bounded size, and how a neighbour replaces its former table by them.

A neighbour that has none of our state, or may have other entries than we mean it to, is sent its whole table: after the
first contact, a restart or a full link. A table of a million filters has hundreds of megabytes. It crosses the link as
`TablePart` messages of at most `PART_ENTRIES` entries and `PART_BYTES` bytes. `PARTS_UNDER_WAY` of them are sent before
the first is answered by `PartTaken`, so each step of either broker, and what waits on either disk, is bounded. A small
table is one `Update`, and so is the table for a neighbour of an earlier release, which does not know parts.

*The sender* (`OutgoingTables`) has a queue of keys. A part has the entries that these keys have now; a key that changes
meanwhile enters the queue again. All parts have the number of one update, so everything that is announced meanwhile is
active when that number is confirmed.

*The receiver* (`ReceivedTables`) adds the entries of each part at once, and drops nothing until the last part has come.
Until then it has the former table and more, so it forwards every event that it forwarded before: the filters of two
tables may be distributed differently over the same keys, and either is complete only as a whole. A filter whose key
gets another one is kept under another key. What no part announced, or a later part retracted, is *stale*, and is
dropped in slices after the last part.

A message of which some entries have entered the table early (`tamis.routing.early_entries`) is read like any other:
entries that are in the table already cost nothing. The filters that early entries replaced are kept like those of a
former table, and are stale once the message is taken.

Each entry on disk has the *generation* of its table, the number of whole tables that began before. So a broker that
restarts knows which entries are stale, and goes on with the next part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tamis.errors import LimitError, RemoteProtocolError
from tamis.node import records
from tamis.node.content import Content
from tamis.node.effects import Again, Effect, Key, Link, Persist, Send
from tamis.routing import messages as m
from tamis.routing.core.interest import Interest, ReadInterests
from tamis.routing.core.routing_table import RoutingTable
from tamis.routing.core.summary import Changes, Wanted, find_content, keys_of_contents
from tamis.routing.neighbour_checks import check_table
from tamis.routing.policies.cell_tables import empty_plan

__all__ = ["Connected", "OutgoingTables", "ReceivedTables", "StoredEntry"]

#: Entries and bytes of one part; a single entry may be larger.
PART_ENTRIES, PART_BYTES = 256, 128 * 1024

#: Parts that are sent before the first of them is taken.
PARTS_UNDER_WAY = 4

#: Stale entries that are dropped in one step.
DROPPED_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Connected:
    """A neighbour is connected; ``takes_parts`` is whether its release knows `TablePart`."""

    takes_parts: bool


class StoredEntry(m.Entry, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The record of a neighbour's entry, with the generation of its table; earlier releases wrote none."""

    generation: int = 0


class _OutgoingTable:
    """The queue of one table under way."""

    def __init__(self, number: int, keys: Mapping[str, list[str]]) -> None:
        self.number = number
        self.n_sent = self.n_taken = 0
        #: Keys by namespace, the next one last.
        self._keys = [(namespace, names[::-1]) for namespace, names in keys.items()]
        #: Keys that were announced meanwhile, and keys that were retracted and not announced again.
        self._changed: deque[tuple[str, str]] = deque()
        self._ended: dict[str, None] = {}

    def note(self, changes: Changes) -> None:
        """Queue the keys of changes."""
        for content in changes.announce:
            self._changed.append((content.namespace, str(content.id)))
            self._ended.pop(str(content.id), None)
        self._ended |= dict.fromkeys(changes.retract)

    def next_keys(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of the queue, and remove them from it."""
        while self._keys:
            namespace, names = self._keys[-1]
            while names:
                yield namespace, names.pop()
            self._keys.pop()
        while self._changed:
            yield self._changed.popleft()

    def put_back(self, namespace: str, key: str) -> None:
        """Return a key to the queue."""
        self._keys.append((namespace, [key]))

    def take_ended(self) -> tuple[str, ...]:
        """Return the retracted keys of one part, and remove them from the queue."""
        ended = tuple(islice(self._ended, PART_ENTRIES))
        for key in ended:
            del self._ended[key]
        return ended

    @property
    def is_empty(self) -> bool:
        """Whether every key has been sent."""
        return not (any(names for _, names in self._keys) or self._changed or self._ended)


class OutgoingTables:
    """The tables that are being sent to neighbours in parts; ``write`` returns a filter as a neighbour gets it."""

    def __init__(self, table: RoutingTable, write: Callable[[Wanted], bytes]) -> None:
        self._table = table
        self._write = write
        #: Neighbours that need our table; each gets it once all others have sent theirs.
        self.waiting: set[Link] = set()
        #: Neighbours that have our table or are being sent it, so that changes are enough.
        self.sent: set[Link] = set()
        #: Whether each neighbour takes parts; a neighbour that is not connected has no entry.
        self._takes_parts: dict[Link, bool] = {}
        self._under_way: dict[Link, _OutgoingTable] = {}

    def demand(self, link: Link) -> None:
        """Note that a neighbour needs our table, whatever it was sent before."""
        self.stop(link)
        self.waiting.add(link)

    def stop(self, link: Link) -> None:
        """Note that a neighbour has none of our state; drop the table under way to it."""
        self.waiting.discard(link)
        self.sent.discard(link)
        self._under_way.pop(link, None)

    def is_under_way(self, link: Link) -> bool:
        """Whether parts of the table of a neighbour are missing."""
        return link in self._under_way

    def connect(self, link: Link, message: Connected) -> None:
        """Note what the release of a neighbour knows."""
        self._takes_parts[link] = message.takes_parts

    def disconnect(self, link: Link) -> None:
        """Note that a neighbour is not connected; the table under way goes on with its next connection."""
        self._takes_parts.pop(link, None)

    def entries(self, contents: Iterable[Wanted]) -> Iterator[m.Entry]:
        """Yield filters as entries."""
        return (m.Entry(str(content.id), content.namespace, self._write(content)) for content in contents)

    def is_sent_whole(self, link: Link) -> bool | None:
        """Return whether a neighbour is sent its table in one message; None: that is not known before it connects."""
        takes_parts = self._takes_parts.get(link)
        if takes_parts is False:
            return True
        is_small = sum(map(len, self._table.summaries[link].values())) <= PART_ENTRIES
        if is_small and sum(map(_size, self.entries(self._table.contents(link)))) <= PART_BYTES:
            return True
        return None if takes_parts is None else False

    def begin(self, link: Link, number: int) -> None:
        """Begin to send a neighbour its table, in parts, as the update ``number``."""
        summaries = self._table.summaries[link]
        keys = {namespace: keys_of_contents(summary) for namespace, summary in summaries.items()}
        self._under_way[link] = _OutgoingTable(number, keys)

    def note(self, link: Link, changes: Changes) -> None:
        """Note changes of a table under way."""
        self._under_way[link].note(changes)

    def take(self, link: Link, message: m.PartTaken) -> None:
        """Note which part a neighbour has taken; those of a table that was replaced do not count."""
        under_way = self._under_way.get(link)
        if under_way is None or under_way.number != message.number:
            return
        if message.index >= under_way.n_sent:
            raise RemoteProtocolError(link, f"it took part {message.index} of a table, {under_way.n_sent} were sent")
        under_way.n_taken = max(under_way.n_taken, message.index + 1)

    def next_parts(self, link: Link) -> list[m.TablePart]:
        """Return the parts that may be sent now."""
        parts: list[m.TablePart] = []
        under_way = self._under_way.get(link)
        while under_way is not None and under_way.n_sent < under_way.n_taken + PARTS_UNDER_WAY:
            part = self._next_part(link, under_way)
            parts.append(part)
            under_way.n_sent += 1
            if part.is_last:
                del self._under_way[link]
                break
        return parts

    def _next_part(self, link: Link, under_way: _OutgoingTable) -> m.TablePart:
        entries: dict[str, m.Entry] = {}
        size = 0
        for namespace, key in islice(under_way.next_keys(), PART_ENTRIES):
            content = find_content(self._table.summaries[link][namespace], key)
            if content is None or key in entries:  # it ended meanwhile, or changed twice
                continue
            entry = m.Entry(key, namespace, self._write(content))
            size += _size(entry)
            if size > PART_BYTES and entries:
                under_way.put_back(namespace, key)
                break
            entries[key] = entry
        announce, retract = tuple(entries.values()), under_way.take_ended()
        if not under_way.is_empty:
            return m.TablePart(under_way.number, under_way.n_sent, announce, retract)
        ranges = tuple(m.Ranges(name, plan) for name, plan in self._table.cells.snapshots(link))
        return m.TablePart(under_way.number, under_way.n_sent, announce, retract, True, ranges)


@dataclass
class _ReceivedTable:
    """What is known of one neighbour's table."""

    #: How many whole tables began, the current one included.
    generation: int = 0
    #: The number of the table of which parts are missing, and the next part; 0: none is missing.
    number: int = 0
    next_part: int = 0
    #: Keys of entries of former tables; they are dropped when no part is missing.
    stale: dict[str, None] = field(default_factory=dict)
    #: Keys of entries that early ones replaced; they are stale when the message of these is taken.
    replaced: dict[str, None] = field(default_factory=dict)

    def begin(self, keys: Iterable[str]) -> None:
        """Begin a table: all entries are of a former one until they are announced."""
        self.generation += 1
        self.stale = dict.fromkeys(keys)
        self.replaced = {}

    def record(self, link: Link) -> Persist:
        """Return the record with which a restart goes on."""
        return records.TABLE.put(link, value=records.TablePosition(self.generation, self.number, self.next_part))


class ReceivedTables:
    """The tables of neighbours: takes updates and parts of tables, and drops what is stale."""

    def __init__(self, table: RoutingTable, content: Content) -> None:
        self._table = table
        self._content = content
        self._received: dict[Link, _ReceivedTable] = {}

    def update(self, message: m.Update, sender: Link) -> list[Effect]:
        """Apply an update of a neighbour; returns what to persist."""
        received = self._of(sender)
        _check_update(message, received, sender)
        arrivals, plans = self._read(message, sender), _read_plans(self._table, message, sender)
        effects = self._give_up_replaced(sender)
        if message.replace:
            received.begin(self._table.interests(sender))
            received.number = received.next_part = 0
            effects.append(received.record(sender))
        for entry in message.announce:
            received.stale.pop(entry.key, None)
        effects += self._put(arrivals, sender)
        effects += _put_ranges(self._table, plans, sender, is_all=message.replace)
        for key in sorted(set(message.retract) & self._table.interests(sender).keys()):
            received.stale.pop(key, None)
            effects.append(self._drop(sender, key))
        return [*effects, *self.drop_stale()]

    def enter_early(self, message: m.Update | m.TablePart, sender: Link) -> list[Effect]:
        """Add entries of a message that will be taken later; returns what to persist."""
        received = self._of(sender)
        if isinstance(message, m.TablePart):
            _check_part(message, received, sender)
        else:
            _check_update(message, received, sender)
        arrivals = self._read(message, sender)
        _read_plans(self._table, message, sender)  # if they are wrong, nothing of the message is applied
        kept = self._keep_former(arrivals.interests, f"~{received.generation}.{message.number}", sender)
        received.replaced |= dict.fromkeys(kept)
        effects = [
            _stored(sender, name, interest, _replaced_in(received.generation)) for name, interest in kept.items()
        ]
        return effects + self._put(arrivals, sender)

    def _give_up_replaced(self, sender: Link) -> list[Effect]:
        """Let what early entries have replaced be stale."""
        received, held = self._of(sender), self._table.interests(sender)
        names, received.replaced = [name for name in received.replaced if name in held], {}
        received.stale |= dict.fromkeys(names)
        return [_stored(sender, name, held[name], received.generation - 1) for name in names]

    def take_part(self, message: m.TablePart, sender: Link) -> list[Effect]:
        """Apply one part of a neighbour's table; returns what to persist and to answer."""
        received = self._of(sender)
        _check_part(message, received, sender)
        arrivals, plans = self._read(message, sender), _read_plans(self._table, message, sender)
        effects = self._give_up_replaced(sender)
        if message.index == 0:
            received.begin(self._table.interests(sender))
        received.number, received.next_part = (0, 0) if message.is_last else (message.number, message.index + 1)
        effects.append(received.record(sender))
        kept = self._keep_former(arrivals.interests, f"~{received.generation}.{message.index}", sender)
        received.stale |= dict.fromkeys(kept)
        effects += [_stored(sender, name, interest, received.generation - 1) for name, interest in kept.items()]
        effects += self._put(arrivals, sender)
        held = self._table.interests(sender)
        for key in (key for key in message.retract if key in held and key not in received.stale):
            received.stale[key] = None
            effects.append(_stored(sender, key, held[key], received.generation - 1))
        if not message.is_last:
            return [*effects, Send(sender, m.PartTaken(message.number, message.index))]
        return [*effects, *_put_ranges(self._table, plans, sender, is_all=True), *self.drop_stale()]

    def drop_stale(self) -> list[Effect]:
        """Drop some stale entries of tables of which no part is missing."""
        complete = [(link, received) for link, received in self._received.items() if not received.number]
        stale = ((link, received, key) for link, received in complete for key in received.stale)
        effects: list[Effect] = []
        for link, received, key in list(islice(stale, DROPPED_AT_ONCE)):
            del received.stale[key]
            effects.append(self._drop(link, key))
        return [*effects, Again()] if any(received.stale for _, received in complete) else effects

    def restore(self, links: Collection[Link], stored: Mapping[Key, bytes]) -> None:
        """Restore which tables of neighbours are complete."""
        for link in sorted(links):
            position = records.TABLE.find(stored, link)
            if position is not None:
                self._received[link] = _ReceivedTable(*position)

    def restored(self, source: Link, key: str, value: bytes) -> Interest:
        """Return the entry of a record; it is stale if it is of a former table."""
        entry, received = msgspec.msgpack.decode(value, type=StoredEntry), self._of(source)
        if entry.generation == _replaced_in(received.generation):
            received.replaced[key] = None
        elif entry.generation != received.generation:
            received.stale[key] = None
        return self._interest(entry)

    def forget(self, link: Link) -> Persist:
        """Forget the table of a neighbour that is removed; its entries are dropped elsewhere."""
        self._received.pop(link, None)
        return records.TABLE.drop(link)

    def _of(self, link: Link) -> _ReceivedTable:
        return self._received.setdefault(link, _ReceivedTable())

    def _interest(self, entry: m.Entry) -> Interest:
        return Interest(entry.key, entry.filter, entry.namespace, self._content.of(entry.namespace))

    def _read(self, message: m.Update | m.TablePart, sender: Link) -> _Arrivals:
        """Read the entries that a neighbour announces, all or none; those that it holds already are not compiled."""
        held = self._table.interests(sender)
        check_table(message, held, sender)
        try:
            interests = [(sender, entry.key, self._interest(entry)) for entry in message.announce]
        except LimitError as error:
            raise RemoteProtocolError(sender, str(error)) from None
        changed = [place for place in interests if not _is_written_alike(held.get(place[1]), place[2])]
        read = ReadInterests([interest for _, _, interest in changed])
        if read.bad:
            first = min(read.bad)
            raise RemoteProtocolError(sender, f"entry {changed[first][1]!r}: {read.bad[first]}")
        return _Arrivals(interests, changed, read)

    def _keep_former(
        self, interests: list[tuple[Link, str, Interest]], suffix: str, sender: Link
    ) -> dict[str, Interest]:
        """Keep and return the filters whose keys get other ones, under keys of their own that end with ``suffix``."""
        received, held = self._of(sender), self._table.interests(sender)
        kept: dict[str, Interest] = {}
        for _, key, interest in interests:
            received.stale.pop(key, None)
            former = held.get(key)
            if former is not None and not former.says_same(interest):
                name = key + suffix
                while name in held:
                    name += "~"
                kept[name] = Interest(name, former.document, former.namespace, former.content)
        self._table.put_many([(sender, name, interest) for name, interest in kept.items()])
        return kept

    def _put(self, arrivals: _Arrivals, sender: Link) -> list[Effect]:
        """Put the entries of a message into the table; returns what to persist."""
        self._table.put_many(arrivals.changed, arrivals.read)
        generation = self._of(sender).generation
        return [_stored(sender, key, interest, generation) for _, key, interest in arrivals.interests]

    def _drop(self, link: Link, key: str) -> Persist:
        self._table.drop(link, key)
        return records.INTEREST.drop(link, key)


class _Arrivals(NamedTuple):
    """The entries of a message, with their keys, and those that change the table; ``read`` has these compiled."""

    interests: list[tuple[Link, str, Interest]]
    changed: list[tuple[Link, str, Interest]]
    read: ReadInterests


def _size(entry: m.Entry) -> int:
    return len(entry.key) + len(entry.namespace) + len(entry.filter)


def _stored(link: Link, key: str, interest: Interest, generation: int) -> Persist:
    entry = StoredEntry(key, interest.namespace, interest.document, generation)
    return records.INTEREST.put(link, key, value=msgspec.msgpack.encode(entry))


def _replaced_in(generation: int) -> int:
    """Return the generation on disk of entries that early ones replaced: those of an earlier table are stale."""
    return -2 - generation


def _is_written_alike(held: Interest | None, interest: Interest) -> bool:
    return held is not None and (held.document, held.namespace) == (interest.document, interest.namespace)


def _check_update(message: m.Update, received: _ReceivedTable, sender: Link) -> None:
    """Raise `RemoteProtocolError` for a change that comes while parts of a table are missing."""
    if received.number and not message.replace:
        raise RemoteProtocolError(sender, f"an update came, part {received.next_part} of its table is next")


def _check_part(message: m.TablePart, received: _ReceivedTable, sender: Link) -> None:
    """Raise `RemoteProtocolError` unless a part begins a table or follows the one before."""
    position, due = (message.number, message.index), (received.number, received.next_part)
    if message.number < 1 or (message.index != 0 and position != due):
        arrived, expected = (f"part {index} of table {number}" for number, index in (position, due))
        raise RemoteProtocolError(sender, f"{arrived} came, {expected} or part 0 of a table is next")
    if message.ranges and not message.is_last:
        raise RemoteProtocolError(sender, "ranges came before the last part of a table")


def _read_plans(table: RoutingTable, message: m.Update | m.TablePart, sender: Link) -> dict[str, Any]:
    try:
        return {part.namespace: table.cells.read(part.plan) for part in message.ranges}
    except Exception as error:  # nothing is applied yet, so this message is at fault
        raise RemoteProtocolError(sender, f"ranges: {error}") from None


def _put_ranges(table: RoutingTable, plans: dict[str, Any], sender: Link, *, is_all: bool) -> list[Effect]:
    """Apply the ranges that a neighbour announces; with ``is_all`` it has no others."""
    effects: list[Effect] = []
    if is_all:
        plans |= {name: empty_plan(table.cells.spaces) for name in table.cells.namespaces(sender) if name not in plans}
    for namespace, plan in plans.items():
        table.put_ranges(sender, namespace, plan)
        effects += table.cells.take_records(sender, namespace)
    return effects
