"""All messages between peers, and their encoding as bytes.

A member of the tree is a *seat*: one subscription of one peer (``alice/0``). A message goes from seat to seat and
names nodes by their level: leaves are level 0, and a seat owns the nodes of the levels 0 to its *top*.

========================= ====================================================================================
to find a place           `Insert` climbs to the root and descends; `Adopt` asks a certain node; `Adopted` answers
to change owners          `TakeOver` of nodes, then `Owner` to their children and `Replace` to their parent
to keep MBRs              `MbrReport` of a new MBR, `Grown` when all ancestors know it, `Detach` from a former parent
to stay legal             `Ping` and `Pong` of child and parent, `Seek` and `Invite` of roots
to pass events            `Forward` and `Receipt`
to a peer from its user   `SubscribeRequest`, `UnsubscribeRequest`, `PublishRequest`; never on a wire
to a peer from its clock  `Check`; never on a wire
========================= ====================================================================================

Structure messages may be lost, doubled and reordered: what they build is checked again in every round. Joins are
repeated until they are answered, events are held until they are acknowledged.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.node.published import EventId, Published
from tamis.node.vocabulary import MAX_COUNT, Count, Vocabulary

__all__ = [
    "MAX_ROWS",
    "VERSION",
    "Adopt",
    "Adopted",
    "Check",
    "Detach",
    "EventId",
    "Forward",
    "Grown",
    "Insert",
    "Instead",
    "Invite",
    "MbrReport",
    "NodeState",
    "Owner",
    "PeerDelivery",
    "PeerEvent",
    "Ping",
    "Pong",
    "PublishRequest",
    "Receipt",
    "Replace",
    "SeatMessage",
    "Seek",
    "SubscribeRequest",
    "TakeOver",
    "UnsubscribeRequest",
    "decode",
    "encode",
    "peer_of",
]

#: The first byte of every message.
VERSION = 1

#: The level of a node that has children.
InnerLevel = Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]
#: The name of a seat: a peer's, which is an address of at most 262 characters among real peers, and a number.
Name = Annotated[str, msgspec.Meta(max_length=512)]
#: A seat's key for a copy of an event: the name of a seat and a level.
Token = Annotated[str, msgspec.Meta(max_length=600)]
#: Rows of a table; a table is at most a few times as long as a node has children.
MAX_ROWS = 256
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_ROWS)]
Counts = Annotated[tuple[Count, ...], msgspec.Meta(max_length=MAX_ROWS)]


class PeerEvent(Published, frozen=True, array_like=True, gc=False):
    """An event among peers. Events of its publisher below ``floor`` are done, and may be forgotten."""

    floor: Count


class Instead(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """In the choice, give the node of ``seat`` at ``level`` this box; without a box, leave the node out."""

    level: Count
    seat: Name
    box: bytes


class NodeState(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A node that is handed to a new owner: its children, their boxes, and the notes about each."""

    names: Names
    boxes: bytes
    passed: Counts
    places: Counts
    leaving: Names


class SeatMessage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """From a seat to a seat; ``hops`` counts how often others passed it on."""

    to: Name
    sender: Name
    hops: Count


class Insert(SeatMessage, frozen=True, array_like=True, tag=1):
    """Find a parent for ``seat``, whose top node at ``level`` has this box.

    It climbs while ``at`` is 0; then the node at level ``at`` passes it down. ``reinserted`` has a bit for each level
    that may not reinsert again.
    """

    seat: Name
    level: Count
    box: bytes
    at: Count = 0
    reinserted: Count = 0
    instead: Annotated[tuple[Instead, ...], msgspec.Meta(max_length=MAX_ROWS)] = ()


class Adopt(SeatMessage, frozen=True, array_like=True, tag=2):
    """A request to adopt ``sender``'s node at ``level``, which was split off from a node of the receiver."""

    level: Count
    box: bytes
    reinserted: Count = 0


class Adopted(SeatMessage, frozen=True, array_like=True, tag=3):
    """``child`` is a child of my node at ``level``, with this box; ``moved`` there with the notes about it.

    ``place`` is the number of this adoption, ``placed`` tells whether the sender itself is known to be in the tree.
    """

    child: Name
    level: InnerLevel
    box: bytes
    place: Count
    moved: bool
    placed: bool


class TakeOver(SeatMessage, frozen=True, array_like=True, tag=4):
    """Become the owner of these nodes from ``level`` upwards; ``fresh`` nodes were just split off, without a parent.

    ``noted_box``, ``received`` and ``place`` are the former owner's notes about its parent, ``newborn`` the seat that
    the node was split off from, ``doubt`` the rounds for which the new owner may not call an event complete.
    """

    heir: Name
    level: InnerLevel
    nodes: Annotated[tuple[NodeState, ...], msgspec.Meta(max_length=16)]
    parent: Name | None
    fresh: bool
    noted_box: bytes
    received: Count
    place: Count
    newborn: Name | None = None
    reinserted: Count = 0
    doubt: Count = 0


class Owner(SeatMessage, frozen=True, array_like=True, tag=5):
    """The node of ``old`` at ``level``, parent of ``child``, is mine now; I note this box for it."""

    child: Name
    old: Name
    level: InnerLevel
    box: bytes


class Replace(SeatMessage, frozen=True, array_like=True, tag=6):
    """Your child ``old`` at ``level`` is mine now."""

    old: Name
    level: Count


class MbrReport(SeatMessage, frozen=True, array_like=True, tag=7):
    """My node at ``level`` has this MBR, and this is the number of inserts I have received from you.

    ``order`` numbers the sender's reports of its MBRs: the latest is valid. ``origin`` gets a reply when all ancestors
    know of its growth ``number``.
    """

    level: Count
    box: bytes
    received: Count
    order: Count
    origin: Name = ""
    number: Count = 0


class Grown(SeatMessage, frozen=True, array_like=True, tag=8):
    """Every ancestor knows your growth ``number``."""

    number: Count


class Detach(SeatMessage, frozen=True, array_like=True, tag=9):
    """The node of ``seat`` at ``level`` has left the place that you gave it as number ``place``."""

    seat: Name
    level: Count
    place: Count


class Ping(SeatMessage, frozen=True, array_like=True, tag=10):
    """A child asks its parent whether it is still its child; ``box`` is the MBR of the child's node at ``level``.

    ``parent`` is the seat that the child believes to be its parent; if another seat owns the parent's node, that seat
    answers. ``received`` and ``order`` are as in `MbrReport`.
    """

    parent: Name
    level: Count
    box: bytes
    received: Count
    order: Count


class Pong(SeatMessage, frozen=True, array_like=True, tag=11):
    """The answer to a `Ping`: ``mine`` or not, and the seats above the sender, in case the sender stops answering.

    ``parent`` and ``level`` are those of the `Ping`.
    """

    parent: Name
    level: Count
    mine: bool
    passed: Count
    place: Count
    placed: bool
    above: Annotated[tuple[Name, ...], msgspec.Meta(max_length=8)]


class Seek(SeatMessage, frozen=True, array_like=True, tag=12):
    """``root`` believes that it is a root with its top at ``level``, and looks for other roots."""

    root: Name
    level: Count


class Invite(SeatMessage, frozen=True, array_like=True, tag=13):
    """The sender is a root and has precedence: the receiver should join it."""


class Forward(SeatMessage, frozen=True, array_like=True, tag=14):
    """An event for the node at ``level``: ``down`` from its parent, else up from the child ``came``, or from outside.

    ``token`` is the sender's key for this copy; `Receipt` returns it. ``again`` means that the copy is sent again,
    because there was no answer for a round: the tree may have changed meanwhile.
    """

    event: PeerEvent
    attempt: Count
    level: Count
    down: bool
    came: Name
    token: Token
    distance: Count = 0
    again: bool = False


class Receipt(SeatMessage, frozen=True, array_like=True, tag=15):
    """A copy of an event has been handled; ``complete`` if every matching seat behind it has the event."""

    id: EventId
    attempt: Count
    token: Token
    complete: bool


class SubscribeRequest(msgspec.Struct, frozen=True):
    """The user of a peer subscribes; ``filter`` is CQL2-JSON."""

    id: SubscriptionId
    filter: bytes
    namespace: str = DEFAULT_NAMESPACE


class UnsubscribeRequest(msgspec.Struct, frozen=True):
    """The user of a peer unsubscribes."""

    id: SubscriptionId
    namespace: str = DEFAULT_NAMESPACE


class PublishRequest(msgspec.Struct, frozen=True):
    """The user of a peer publishes an event; ``payload`` has canonical values."""

    payload: bytes
    namespace: str = DEFAULT_NAMESPACE


class Check(msgspec.Struct, frozen=True):
    """A round begins: a peer checks its own state. ``contact`` is a seat that is believed to be in the tree."""

    contact: str | None = None


class PeerDelivery(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One copy of an event for the user of a peer, with the ids of all subscriptions that match."""

    event: PeerEvent
    subscriptions: tuple[SubscriptionId, ...]


_Wire = (
    Insert
    | Adopt
    | Adopted
    | TakeOver
    | Owner
    | Replace
    | MbrReport
    | Grown
    | Detach
    | Ping
    | Pong
    | Seek
    | Invite
    | Forward
    | Receipt
)
_vocabulary = Vocabulary[SeatMessage](VERSION, _Wire)
encode, decode = _vocabulary.encode, _vocabulary.decode


def peer_of(seat: str) -> str:
    """Return the peer that a seat belongs to.

    >>> peer_of("alice/0")
    'alice'
    """
    return seat.rpartition("/")[0]
