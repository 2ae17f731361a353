"""The state of a seat besides its tables, by concern. Each class keeps its own invariants; others call its methods.

* `ParentLink`: the parent of the top node, and what both ends note about their link.
* `Membership`: whether the seat has a place in the tree, seeks one, or has left.
* `Dissolution`: the top node is being given up.
* `Growth`: which seat waits for the reply that all ancestors know a larger box.
* `Losses`: boxes behind which an event may have missed a reader.
* `SeatEvents`: events that are under way here.

Nothing here sends a message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tamis.errors import InvariantError
from tamis.overlay import messages as m
from tamis.overlay.event_book import EventBook
from tamis.overlay.measures import hull, meets
from tamis.overlay.space import FREE, Box

__all__ = ["GRACE", "PATIENCE", "Copy", "Dissolution", "Growth", "Losses", "Membership", "ParentLink", "SeatEvents"]

#: Rounds of silence after which a parent or child counts as gone.
PATIENCE: Final = 3
#: Rounds for which a loss is remembered: long enough for the lost seats to notice and to join again.
GRACE: Final = 2 * PATIENCE + 2
#: Refusals after which a seat is no longer the parent: the first one may have crossed a change of owners.
REFUSALS: Final = 2


@dataclass
class ParentLink:
    """The owner of the top node's parent. A link without a parent (``name`` is None) is that of a root.

    Invariant: a new parent starts with full patience, unless it only took the place of a dissolved node.
    """

    #: None at a root, and before the seat has its first place.
    name: str | None = None
    #: The parent's note of this seat's MBR, the number of inserts it passed down, and the number of the place there.
    noted_box: Box | None = None
    received: int = 0
    place: int = 0
    #: The parent's parent, to be asked if the parent falls silent.
    above: tuple[str, ...] = ()
    #: The owner of the node that the top node was split off from, while the top node has no parent of its own.
    newborn: str | None = None
    #: The number of reports to parents; rounds without an answer; and refusals.
    _words: int = 0
    _unanswered: int = 0
    _refused: int = 0

    def move(self, name: str | None, noted_box: Box | None, place: int, received: int) -> None:
        """Set the parent, which has noted this seat's MBR as ``noted_box`` and passed down ``received`` inserts."""
        self.name, self.place, self.received = name, place, received
        self.noted_box = None if noted_box is None else noted_box.copy()

    def change_hands(self, name: str, noted_box: Box) -> None:
        """Set another owner of the same parent node; its rounds of silence start at 0."""
        self.name, self.noted_box = name, noted_box.copy()
        self.trust()

    def split_off(self, source: str | None, parent: str | None, noted_box: Box) -> None:
        """Begin as a node that was split off from ``source``; ``parent`` is to adopt it."""
        self.newborn, self.name, self.noted_box = source, parent, noted_box

    def inherit(self, source: str | None) -> None:
        """Record the seat from which handed-over nodes were split off; None if they have a parent."""
        self.newborn = source

    def trust(self) -> None:
        """Reset the counts of rounds without answers and of refusals."""
        self._unanswered = self._refused = 0

    def lose(self) -> None:
        """Forget the parent."""
        self.name, self.noted_box, self.received = None, None, 0
        self.trust()

    def forget_name(self) -> None:
        """Clear the parent, because it is impossible."""
        self.name = None

    def note_insert(self, box: Box) -> None:
        """Record that the parent passed an insert down: it has enlarged this seat's MBR by its box."""
        self.received += 1
        if self.noted_box is not None:
            self.noted_box = hull(np.array([self.noted_box, box]))

    def next_word(self) -> int:
        """Return the number of the next report of the MBR to the parent."""
        self._words += 1
        return self._words

    def tell(self, box: Box) -> int:
        """Record that the MBR is sent to the parent; return the number of this report."""
        self.noted_box = box.copy()
        return self.next_word()

    def is_silent(self) -> bool:
        """Count a round; return whether the parent has not answered for more than `PATIENCE` rounds."""
        self._unanswered += 1
        return self._unanswered > PATIENCE

    def confirm(self, message: m.Pong) -> None:
        """Record that the parent, or the new owner of its node, confirms this child."""
        self.name, self.above = message.sender, message.above
        self.received, self.place = message.passed, message.place
        self.trust()

    def is_refused(self) -> bool:
        """Record a refusal; return whether there have been `REFUSALS`."""
        self._unanswered = 0
        self._refused += 1
        return self._refused >= REFUSALS


@dataclass
class Membership:
    """Whether a seat is in the tree. Once it is placed it stays so; once it has left it does not come back."""

    #: Whether the seat has had a place in the tree, or is the first seat of the network.
    placed: bool = False
    #: The subscription is cancelled: the seat only forwards messages, until the next round.
    left: bool = False
    #: Whether this root has asked to be inserted elsewhere, and through which seat it looks for a place.
    yielding: bool = False
    contact: str | None = None

    def seek(self, contact: str) -> None:
        """Ask for a place through a contact."""
        self.yielding, self.contact = True, contact

    def stay(self) -> None:
        """Do not wait for an answer to the last request for a place."""
        self.yielding = False

    def forget_contact(self) -> None:
        """Forget the contact."""
        self.contact = None

    def enter(self) -> None:
        """Record that the seat has a place in the tree."""
        self.placed = True

    def leave(self) -> None:
        """Record that the seat has left."""
        self.left = True


@dataclass
class Dissolution:
    """The dissolution of the top node: all its children, including the seat's own lower node, find other places.

    Invariant: there is a next parent only while the node is being dissolved.
    """

    active: bool = False
    #: The seat that has adopted the node below the top meanwhile, its note of the MBR, and the place.
    next_parent: tuple[str, Box, int] | None = None
    #: Rounds that a dissolution or a departure of children has been under way.
    _stuck: int = 0

    def begin(self) -> None:
        """Start to dissolve the top node."""
        self.active, self.next_parent = True, None

    def end(self) -> None:
        """End the dissolution: the node is removed, or stays."""
        self.active, self.next_parent = False, None

    def note_adopter(self, parent: str, box: Box, place: int) -> None:
        """Record the seat that has adopted the node below the top."""
        self.next_parent = (parent, box, place)

    def is_stuck(self, busy: bool) -> bool:
        """Count a round with something under way; return True after more than `PATIENCE`, and restart the count."""
        self._stuck = self._stuck + 1 if busy else 0
        if self._stuck <= PATIENCE:
            return False
        self._stuck = 0
        return True


@dataclass
class Growth:
    """Growths of the own box, and the seat that waits for the root's answer to a report. ``_grown`` only grows."""

    #: Growths that all ancestors know of; the last one that was begun.
    _grown: int = 0
    _growing: int = 0
    #: The seat that waits for the reply to a growth, and the growth's number: sent with the next report.
    _origin: tuple[str, int] = ("", 0)

    @property
    def is_known(self) -> bool:
        """Whether all ancestors know the own box."""
        return self._grown >= self._growing

    def begin(self) -> None:
        """Record a new box."""
        self._growing += 1

    def ask(self, name: str) -> None:
        """Let the next report request an answer to the last growth of the seat ``name`` itself."""
        self._origin = (name, self._growing)

    def pass_on(self, origin: str, number: int) -> None:
        """Let the next report carry the waiting seat below."""
        self._origin = (origin, number)

    def take_origin(self) -> tuple[str, int]:
        """Return the waiting seat, and clear it."""
        origin, self._origin = self._origin, ("", 0)
        return origin

    def confirm(self, number: int) -> None:
        """Record that all ancestors know of a growth."""
        self._grown = max(self._grown, number)


class Losses:
    """Boxes over ``n_axes`` axes behind which an event may miss a reader, each for `GRACE` rounds unless given."""

    def __init__(self, n_axes: int) -> None:
        self._n_axes = n_axes
        #: Boxes behind which a seat was lost, with the rounds until all of them have found new places.
        self._lost: list[tuple[Box, int]] = []
        #: Boxes of children that have moved on, with the rounds for which a late copy may still look for them here.
        self._moved: list[tuple[Box, int]] = []

    @property
    def doubt(self) -> int:
        """The rounds until no seat that was lost can still be on the way."""
        return max((rounds for _, rounds in self._lost), default=0)

    def lose(self, box: Box) -> None:
        """Remember the box of a child that was lost."""
        self._lost.append((box.copy(), GRACE))

    def move_on(self, box: Box) -> None:
        """Remember the box of a child that has another parent now."""
        self._moved.append((box.copy(), GRACE))

    def doubt_everything(self, rounds: int = GRACE) -> None:
        """Answer "not complete" for a while: seats that belong here may be on their way."""
        if rounds > 0:
            self._lost.append((np.repeat(np.array(FREE)[:, None], self._n_axes, axis=1), rounds))

    def may_miss(self, box: Box, *, again: bool) -> bool:
        """Return whether an event may miss a reader here; ``again`` means that this copy may be late."""
        away = [*self._lost, *self._moved] if again else self._lost
        return any(meets(lost[None], box)[0] for lost, _ in away)

    def age(self) -> None:
        """Count a round, and forget old losses."""
        self._lost, self._moved = (
            [(box, rounds - 1) for box, rounds in boxes if rounds > 1] for boxes in (self._lost, self._moved)
        )


@dataclass
class Copy:
    """An event at a seat, in one attempt of its publisher."""

    event: m.PeerEvent
    attempt: int
    distance: int
    #: The levels whose children were looked at, as bits, and whether it went up.
    levels: int = 0
    went_up: bool = False
    #: ``(seat, token)`` of the sender that waits for a receipt.
    engager: tuple[str, str] = ("", "")
    #: ``{token: copy}`` of the forwarded copies that are not acknowledged.
    pending: dict[str, m.Forward] = field(default_factory=dict)
    #: Whether, as far as is known, every matching seat has it.
    complete: bool = True
    #: Rounds since it was last busy here.
    idle: int = 0


def _nowhere(payload: bytes) -> Box:
    raise InvariantError("a seat without a peer got an event")


@dataclass
class SeatEvents:
    """Events at a seat, and what its peer must be told about them; ``locate`` returns the box of an event."""

    locate: Callable[[bytes], Box] = _nowhere
    #: Events that are under way here, or were lately.
    copies: EventBook[Copy] = field(default_factory=EventBook)
    #: Events that arrived (once per attempt); attempts of the own peer that are finished.
    _arrived: list[m.Forward] = field(default_factory=list)
    _finished: list[tuple[m.EventId, int, bool]] = field(default_factory=list)

    def open_copy(self, message: m.Forward) -> Copy:
        """Return the notes about an event; a new attempt gets new notes and is reported to the peer."""
        copy = self.copies.read(message.event.id)
        if copy is None or copy.attempt < message.attempt:
            copy = Copy(message.event, message.attempt, message.distance)
            self.copies.write(message.event.id, copy)
            self._arrived.append(message)
        return copy

    def finish(self, id: m.EventId, attempt: int, complete: bool) -> None:
        """Report to the peer that one of its own attempts is finished."""
        self._finished.append((id, attempt, complete))

    def take_arrived(self) -> list[m.Forward]:
        """Return the events that arrived since the last call."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def take_finished(self) -> list[tuple[m.EventId, int, bool]]:
        """Return the attempts that finished since the last call."""
        finished, self._finished = self._finished, []
        return finished
