"""Checks and limits of what clients send to a broker, and statistics of the traffic."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec

from tamis.errors import EventError, LimitError, ModelError, RemoteProtocolError, TamisError
from tamis.model.subscription import SubscriptionId
from tamis.model.types.paths import MAX_DEPTH
from tamis.model.values import INT64_MAX, INT64_MIN, has_lone_surrogate
from tamis.node.content import check_nesting
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.routing_table import ALL_NAMESPACES
from tamis.routing.edge.limits import (
    MAX_ABOUT,
    MAX_BACKLOG,
    MAX_EVENT,
    MAX_EVENT_WITH_REGION,
    MAX_METADATA_KEYS,
    MAX_NAME,
)

__all__ = [
    "DECIMAL",
    "MAX_ABOUT",
    "MAX_BACKLOG",
    "MAX_EVENT",
    "MAX_EVENT_WITH_REGION",
    "MAX_NAME",
    "MAX_REASON",
    "Recent",
    "Traffic",
    "check_dead_letters",
    "check_metadata",
    "check_namespace",
    "check_pieces",
    "read_raw",
    "refusal_reason",
    "subscription_id",
]

#: Characters of the reason of a refusal.
MAX_REASON = 1_000

_TEXT, _INNER = frozenset({str}), frozenset({dict, list})

#: Bytes of one decimal: its digits, a sign, a point and an exponent.
MAX_DECIMAL = 420

#: Events and deliveries that are remembered for pages, and bytes of each; a dry run matches these events.
RECENT_EVENTS, RECENT_DELIVERIES, RECENT_BYTES = 2_000, 500, 16 * 1024 * 1024

Item = TypeVar("Item")

#: The extension of MessagePack that is a decimal as text; MessagePack has floats only.
DECIMAL = 1


def _read_extension(code: int, data: memoryview) -> Decimal:
    if code != DECIMAL or len(data) > MAX_DECIMAL:
        raise ModelError(
            f"extension {code} of {len(data):,} bytes: only decimals of up to {MAX_DECIMAL} bytes are read"
        )
    return Decimal(bytes(data).decode("ascii"))


_event_decoder = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_read_extension)


class Recent(Generic[Item]):
    """The last items, bounded in number and in bytes, each with its size.

    >>> recent = Recent[str](3, 10)
    >>> for word in ("a", "bb", "cccccccc", "d"):
    ...     recent.append(word, len(word))
    >>> list(recent), list(recent.newest())
    (['cccccccc', 'd'], [(3, 'd'), (2, 'cccccccc')])
    >>> list(recent.newest(before=3))
    [(2, 'cccccccc')]
    """

    def __init__(self, most: int, most_bytes: int = RECENT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        #: The number, the size and the value of each; numbers begin with 0.
        self._items: deque[tuple[int, int, Item]] = deque()
        self._bytes = 0
        self._next = 0

    def append(self, item: Item, size: int) -> None:
        """Add an item; drop the oldest items beyond the limits."""
        self._items.append((self._next, size, item))
        self._next += 1
        self._bytes += size
        while len(self._items) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._items.popleft()[1]

    def keep(self, is_kept: Callable[[Item], bool]) -> None:
        """Drop the items for which ``is_kept`` is false."""
        self._items = deque(entry for entry in self._items if is_kept(entry[2]))
        self._bytes = sum(size for _, size, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return (item for _, _, item in self._items)

    def newest(self, before: int | None = None) -> Iterator[tuple[int, Item]]:
        """Yield the items with their numbers, the newest first: those with numbers below ``before``."""
        entries = reversed(list(self._items))  # items may be added meanwhile
        return ((number, item) for number, _, item in entries if before is None or number < before)


@dataclass
class Traffic:
    """Counts since the start, and the most recent events and deliveries with their moments; nothing is persisted."""

    #: Events received from clients, copies sent to clients, and copies that suspended clients missed.
    events: int = 0
    deliveries: int = 0
    missed: int = 0
    recent_events: Recent[tuple[float, m.Published]] = field(default_factory=lambda: Recent(RECENT_EVENTS))
    recent_deliveries: Recent[tuple[float, Link, m.Delivery]] = field(default_factory=lambda: Recent(RECENT_DELIVERIES))

    def note_events(self, now: float, events: Sequence[m.Published]) -> None:
        """Count events of clients."""
        self.events += len(events)
        for event in events[-RECENT_EVENTS:]:
            self.recent_events.append((now, event), len(event.payload))

    def forget(self, namespace: str) -> None:
        """Forget the last events of a namespace: its types have changed."""
        self.recent_events.keep(lambda entry: entry[1].namespace != namespace)
        self.recent_deliveries.keep(lambda entry: entry[2].event.namespace != namespace)

    def note_delivery(self, now: float, link: Link, delivery: m.Delivery) -> None:
        """Count a copy that is sent to a client."""
        self.deliveries += 1
        self.recent_deliveries.append((now, link, delivery), len(delivery.event.payload))


def check_namespace(name: str) -> str:
    """Return ``name`` if it is a valid namespace; otherwise raise `ModelError`."""
    if not name or len(name) > MAX_NAME or name == ALL_NAMESPACES or not name.isprintable():
        raise ModelError(f"a namespace is 1 to {MAX_NAME} printable characters and not '*', got {name[:MAX_NAME]!r}")
    return name


def check_metadata(n: int) -> None:
    """Raise `LimitError` if the metadata of a subscription have too many keys."""
    if n > MAX_METADATA_KEYS:
        raise LimitError("keys of metadata", n, MAX_METADATA_KEYS)


def check_dead_letters(about: m.About) -> None:
    """Raise `ModelError` when a client gives a limit of deliveries to a subscription for which none are counted."""
    if about.max_deliveries and not about.durable:
        raise ModelError("max_deliveries: only the messages of a durable subscription can become dead letters")


def check_pieces(link: Link, what: str, count: int, most: int) -> None:
    """Raise `RemoteProtocolError`, which ends the connection, when a client's message holds more than ``most``."""
    if count > most:
        raise RemoteProtocolError(link, f"a message has {count:,} {what}, at most {most:,} are taken")


def read_raw(payload: bytes) -> dict[str, Any]:
    """Return the attributes of an event as a client sent it; raise `EventError` if the payload is not an event."""
    if len(payload) > MAX_EVENT_WITH_REGION:
        raise LimitError("bytes of an event", len(payload), MAX_EVENT_WITH_REGION)
    try:
        raw = _event_decoder.decode(payload)
    except Exception as error:  # whatever the parser raises, the payload is at fault
        raise EventError("", payload, f"not an event: {error}") from None
    check_nesting(raw)
    attribute = next((name for name, value in raw.items() if _has_odd_name(value, MAX_DEPTH)), None)
    if attribute is not None:
        raise EventError(attribute, "...", "an object in it has a name that is not text")
    return raw


def _has_odd_name(value: object, levels: int) -> bool:
    """Whether an object within ``levels`` levels has a name that is not text: possible in MessagePack, not in JSON."""
    if levels == 0 or not isinstance(value, dict | list):
        return False
    inner = value if isinstance(value, list) else value.values()
    if isinstance(value, dict) and not set(map(type, value)) <= _TEXT:
        return True
    if _INNER.isdisjoint(map(type, inner)):  # quickly: a list may have a million numbers
        return False
    return any(_has_odd_name(item, levels - 1) for item in inner)


def refusal_reason(error: Exception) -> str:
    """Return the reason for a client whose message was refused because checking it raised ``error``.

    >>> refusal_reason(ModelError("no")), refusal_reason(KeyError("a"))
    ('no', "cannot be read (KeyError: 'a')")
    """
    try:
        text = str(error)
    except Exception:  # it names a value that is nested too deep to be printed
        text = type(error).__name__
    if not isinstance(error, TamisError):
        text = f"cannot be read ({type(error).__name__}: {text})"
    # JSON can write half of a surrogate pair; a frame cannot carry it.
    return text[:MAX_REASON].encode("utf-8", "backslashreplace").decode()


def subscription_id(id: SubscriptionId) -> SubscriptionId:
    """Return ``id`` if a client may use it; otherwise raise `ModelError`: an id that cannot be stored is refused."""
    if isinstance(id, str) and (not 0 < len(id) <= MAX_NAME or has_lone_surrogate(id)):
        raise ModelError(f"an id has 1 to {MAX_NAME} characters")
    if isinstance(id, int) and not INT64_MIN <= id <= INT64_MAX:
        raise ModelError(f"an id that is a number has 64 bits ({INT64_MIN} to {INT64_MAX}); write {id} as text")
    return id
