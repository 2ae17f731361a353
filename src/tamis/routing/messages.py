"""All messages between brokers and clients: a closed vocabulary with one binary encoding.

======================= ======================================================================
client to broker        `Subscribe`, `SubscribeBatch`, `Unsubscribe`, `Publish`, `PublishBatch`; and `Origins`, which
                        has no number
broker to client        `Status` of a subscription, `Delayed`, `Delivery` of an event, `Gap`, `Refusal`, `Types`
broker to broker        `Update` of a routing table, `Confirm` of updates, `TablePart` and `PartTaken`, `Publish`,
                        `PublishBatch`, `Pause`, `Resume`, `LinkGap`; and `Reach`, which has no number: releases that
                        do not know it ignore it
to a node from itself   `Tick`, and `LinkUp`, `LinkFull`, `LinkFree` of `tamis.node.core`; never on a wire
======================= ======================================================================

Messages that are sent by the thousand are not tracked by the garbage collector (``gc=False``): they hold no cycles.

Filters travel as CQL2-JSON and events as canonical values (`tamis.node.content`); both are bytes here, so a broker
that only passes an event on does not rewrite it (promise G3).
"""

from __future__ import annotations

import enum

import msgspec

from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.node.published import EventId, Published
from tamis.node.vocabulary import Count, Vocabulary

__all__ = [
    "VERSION",
    "About",
    "Confirm",
    "Delayed",
    "Delivery",
    "Entry",
    "EventId",
    "Gap",
    "Message",
    "Origins",
    "PartTaken",
    "Pause",
    "Publish",
    "PublishBatch",
    "Published",
    "Ranges",
    "Reach",
    "Reached",
    "Refusal",
    "Resume",
    "State",
    "Status",
    "Subscribe",
    "SubscribeBatch",
    "TablePart",
    "Tick",
    "Types",
    "Unsubscribe",
    "Update",
    "about",
    "decode",
    "encode",
]

#: The first byte of every message.
VERSION = 1


class State(enum.StrEnum):
    """The state of a subscription."""

    #: Sent by its client, not answered yet.
    PENDING = "pending"
    #: On the disk of its client's broker.
    ACCEPTED = "accepted"
    #: Known to every broker that must know it: every event published from now on reaches it.
    ACTIVE = "active"
    #: Ended, by its client or because it expired; nothing new reaches it.
    CANCELLED = "cancelled"


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One filter of a routing table, under the key by which it is retracted."""

    key: str
    namespace: str
    filter: bytes


class Ranges(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A change of the ranges of cells that the sender asks for in a namespace: the bytes of a MICS plan."""

    namespace: str
    plan: bytes


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of all messages. Unknown fields are refused: msgspec would skip them, however deep they are nested."""


class Subscribe(Message, frozen=True, array_like=True, tag=1):
    """A client asks for events; ``expires`` is in microseconds UTC, ``about`` an `About` as JSON."""

    id: SubscriptionId
    filter: bytes
    namespace: str = DEFAULT_NAMESPACE
    expires: int | None = None
    about: bytes = b""


class SubscribeBatch(Message, frozen=True, array_like=True, tag=22):
    """A client makes several subscriptions in one step; each is accepted or refused by itself."""

    subscriptions: tuple[Subscribe, ...]


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """The description of a subscription by its owner; routing ignores it.

    ``text`` is the filter as it was written. A subscription that is not ``durable`` ends with its client's connection.
    ``fields`` are the attributes that its deliveries carry; empty: all. A message that was delivered ``max_deliveries``
    times without an acknowledgement becomes a dead letter; 0: never.
    """

    owner: str = ""
    text: str = ""
    durable: bool = True
    created: int = 0
    metadata: dict[str, str] = {}
    fields: tuple[str, ...] = ()
    max_deliveries: int = 0


class Unsubscribe(Message, frozen=True, array_like=True, tag=2):
    """A client ends a subscription."""

    id: SubscriptionId
    namespace: str = DEFAULT_NAMESPACE


class Publish(Message, frozen=True, array_like=True, tag=3):
    """A client publishes an event, or a broker forwards one."""

    event: Published


class PublishBatch(Message, frozen=True, array_like=True, tag=4):
    """Several events, in order, so that matching is batched."""

    events: tuple[Published, ...]


class Origins(Message, frozen=True, array_like=True, tag=26):
    """Tells a broker that is traced which spans publish the events of the client's next message.

    ``spans`` are the first number of some events, how many there are, and the ``traceparent`` of the span. A broker
    that is not traced does not read it.
    """

    epoch: Count
    spans: tuple[tuple[Count, Count, str], ...]


class Status(Message, frozen=True, array_like=True, tag=5):
    """Tells a client the state of its subscription."""

    id: SubscriptionId
    namespace: str
    state: State


class Delayed(Message, frozen=True, array_like=True, tag=23):
    """Tells a client that its subscription is accepted but not active: these neighbours have not confirmed it."""

    id: SubscriptionId
    namespace: str
    missing: tuple[str, ...]


class Delivery(Message, frozen=True, array_like=True, tag=6, gc=False):
    """One copy of an event for a client, with the ids of all its subscriptions that match (promise G8)."""

    event: Published
    subscriptions: tuple[SubscriptionId, ...]


class Refusal(Message, frozen=True, array_like=True, tag=7):
    """A request of a client is refused: which one, and why.

    A refused event was not delivered to any client. With ``is_temporary`` the same request may be accepted later; an
    event then needs a new id, because readers take the events of a publisher in order and may have seen a later one.
    ``status`` is 403 if the client has no right to publish in the namespace at all, and 400 otherwise.
    """

    subject: str
    reason: str
    event: EventId | None = None
    is_temporary: bool = False
    status: int = 400


class Gap(Message, frozen=True, array_like=True, tag=20):
    """A client read too slowly: ``count`` events, from ``first`` on, were not kept for it.

    Or a link that drops events was full (`LinkGap`): up to ``count`` events may have been for the client.

    With a ``count`` of 0 their number is not known: the broker was restored from a backup, and ``first.epoch`` is the
    moment of the backup in microseconds UTC.
    """

    first: EventId
    count: Count


class LinkGap(Message, frozen=True, array_like=True, tag=24):
    """A link was full and dropped its oldest events: ``count`` of a namespace, from ``first`` on."""

    namespace: str
    first: EventId
    count: Count


class Reached(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A broker, the broker before it on the way there, and the age of the link between the two in microseconds."""

    name: str
    parent: str
    since: int


class Reach(Message, frozen=True, array_like=True, tag=25):
    """Tells a neighbour which brokers it reaches through the sender, each listed after its parent.

    ``since`` is the age of the link that carries this message, agreed or proposed (`tamis.routing.rings`). ``refused``
    are links that are not used because of a ring, each as the broker that refuses it and the broker at its other end.
    """

    since: int
    is_agreed: bool
    brokers: tuple[Reached, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


class Types(Message, frozen=True, array_like=True, tag=21):
    """Tells a client the types of attributes, as the JSON of a schema, so that it can read payloads.

    If types are learned, they are those of one namespace; with a configured schema, those of all (``""``).
    """

    schema: bytes
    namespace: str = ""


class Update(Message, frozen=True, array_like=True, tag=8):
    """A change of the table that the receiver keeps for the sender, in one step.

    Entries are announced before others are retracted; an announced key that exists already gets the new filter. With
    ``replace`` the entries and ranges are the whole table. ``number`` counts the updates of a link.
    """

    number: Count
    announce: tuple[Entry, ...] = ()
    retract: tuple[str, ...] = ()
    replace: bool = False
    ranges: tuple[Ranges, ...] = ()


class TablePart(Message, frozen=True, array_like=True, tag=27):
    """One part of the whole table that the receiver keeps for the sender (`tamis.routing.table_parts`).

    Parts are counted from 0, which begins a table. All parts have the ``number`` of the update that they are together.
    ``ranges`` are in the last part. ``retract`` has entries of earlier parts that have ended since.
    """

    number: Count
    index: Count
    announce: tuple[Entry, ...] = ()
    retract: tuple[str, ...] = ()
    is_last: bool = False
    ranges: tuple[Ranges, ...] = ()


class PartTaken(Message, frozen=True, array_like=True, tag=28):
    """The part ``index`` of the table ``number`` has been applied; the sender has only a few parts under way."""

    number: Count
    index: Count


class Confirm(Message, frozen=True, array_like=True, tag=9):
    """All updates up to ``number`` are known to the sender and to every broker behind it that must know them."""

    number: Count


class Pause(Message, frozen=True, array_like=True, tag=10):
    """A link behind the sender is full: the receiver must refuse events of its clients that would take that link."""


class Resume(Message, frozen=True, array_like=True, tag=11):
    """The end of a `Pause`."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed: look for subscriptions that have expired."""


_Wire = (
    Subscribe
    | SubscribeBatch
    | Unsubscribe
    | Publish
    | PublishBatch
    | Origins
    | Status
    | Delayed
    | Delivery
    | Gap
    | Refusal
    | Update
    | Confirm
    | Pause
    | Resume
    | LinkGap
    | Reach
    | Types
    | TablePart
    | PartTaken
)
_vocabulary = Vocabulary[Message](VERSION, _Wire)
encode, decode = _vocabulary.encode, _vocabulary.decode

_about_decoder = msgspec.json.Decoder(About)


def about(message: Subscribe) -> About:
    """Return the owner's description of a subscription.

    >>> about(Subscribe("alice", b"", about=b'{"text": "price < 100"}')).text
    'price < 100'
    """
    return _about_decoder.decode(message.about) if message.about else About()
