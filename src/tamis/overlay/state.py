"""What a seat notes besides its tables, by concern. Each class keeps its own invariants; others call its methods.

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

#: Rounds of silence after which a parent or child is believed to be gone.
PATIENCE: Final = 3
#: Rounds for which a loss is remembered: long enough for those who fell off to notice and to join again.
GRACE: Final = 2 * PATIENCE + 2
#: Answers that it is not our parent after which it is not: the first may have crossed a change of owners.
REFUSALS: Final = 2


@dataclass
class ParentLink:
    """The owner of the top node's parent. A link without a parent (``name`` is None) is that of a root.

    Invariant: a new parent starts with full patience, unless it only took the place of a dissolved node.
    """

    #: None at a root, and before the first place is found.
    name: str | None = None
    #: What the parent notes as our MBR, how many inserts it has passed down to us, the number of our place there.
    known: Box | None = None
    received: int = 0
    place: int = 0
    #: Who is above the parent, for the day it falls silent.
    above: tuple[str, ...] = ()
    #: The owner of the node that the top node was split off from, while the top node has no parent of its own.
    newborn: str | None = None
    #: Words to parents about MBRs; rounds without an answer, and answers that it is not our parent.
    _words: int = 0
    _unanswered: int = 0
    _refused: int = 0

    def move(self, name: str | None, known: Box | None, place: int, received: int) -> None:
        """Have a parent, which notes our MBR as ``known`` and has passed down ``received`` inserts."""
        self.name, self.place, self.received = name, place, received
        self.known = None if known is None else known.copy()

    def change_hands(self, name: str, known: Box) -> None:
        """Have the same parent node with another owner, who has not been silent yet."""
        self.name, self.known = name, known.copy()
        self.trust()

    def split_off(self, source: str | None, parent: str | None, known: Box) -> None:
        """Begin as a node that was split off from ``source``; ``parent`` is to adopt it."""
        self.newborn, self.name, self.known = source, parent, known

    def inherit(self, source: str | None) -> None:
        """Note the seat that nodes which were handed over were split off from; None: they have a parent."""
        self.newborn = source

    def trust(self) -> None:
        """Start to count rounds without answers, and refusals, again."""
        self._unanswered = self._refused = 0

    def lose(self) -> None:
        """Forget the parent."""
        self.name, self.known, self.received = None, None, 0
        self.trust()

    def forget_name(self) -> None:
        """Have no parent, because the noted one cannot be."""
        self.name = None

    def note_insert(self, box: Box) -> None:
        """Note that the parent passed an insert down: it has grown our MBR by its box."""
        self.received += 1
        if self.known is not None:
            self.known = hull(np.array([self.known, box]))

    def next_word(self) -> int:
        """Return the number of the next word to the parent about our MBR."""
        self._words += 1
        return self._words

    def tell(self, box: Box) -> int:
        """Note that our MBR is being sent to the parent; return the number of this word."""
        self.known = box.copy()
        return self.next_word()

    def is_silent(self) -> bool:
        """Count a round; say whether the parent has not answered for more than `PATIENCE` rounds."""
        self._unanswered += 1
        return self._unanswered > PATIENCE

    def confirm(self, message: m.Pong) -> None:
        """Note the answer of the parent, or of who owns its node now, that we are its child."""
        self.name, self.above = message.sender, message.above
        self.received, self.place = message.passed, message.place
        self.trust()

    def is_refused(self) -> bool:
        """Note an answer that we are not a child; say whether there have been `REFUSALS`."""
        self._unanswered = 0
        self._refused += 1
        return self._refused >= REFUSALS


@dataclass
class Membership:
    """Whether a seat is in the tree. Once it is placed it stays so; once it has left it does not come back."""

    #: Whether it has found its first place, or is the first of all.
    placed: bool = False
    #: Its subscription is cancelled: it only passes messages on, until the next round.
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
        """Be in the tree."""
        self.placed = True

    def leave(self) -> None:
        """Be gone."""
        self.left = True


@dataclass
class Dissolution:
    """The top node is being given up: all its children, the own lower node too, find other places.

    Invariant: there is a next parent only while the node is being dissolved.
    """

    active: bool = False
    #: Who has adopted the seat below the top node meanwhile, the MBR it notes, and the place.
    next_parent: tuple[str, Box, int] | None = None
    #: Rounds that a dissolution or a departure of children has been under way.
    _stuck: int = 0

    def begin(self) -> None:
        """Give the top node up."""
        self.active, self.next_parent = True, None

    def end(self) -> None:
        """The node is gone, or stays."""
        self.active, self.next_parent = False, None

    def found(self, parent: str, box: Box, place: int) -> None:
        """Note who adopts the own node below."""
        self.next_parent = (parent, box, place)

    def is_stuck(self, busy: bool) -> bool:
        """Count a round with something under way; say after more than `PATIENCE` that it is stuck, and count again."""
        self._stuck = self._stuck + 1 if busy else 0
        if self._stuck <= PATIENCE:
            return False
        self._stuck = 0
        return True


@dataclass
class Growth:
    """Growths of the own box, and who waits for the answer of the root to a report. ``_grown`` only grows."""

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
        """Have a new box."""
        self._growing += 1

    def ask(self, name: str) -> None:
        """Let the next report ask for an answer to the last growth of the seat ``name`` itself."""
        self._origin = (name, self._growing)

    def pass_on(self, origin: str, number: int) -> None:
        """Let the next report carry who waits below."""
        self._origin = (origin, number)

    def take_origin(self) -> tuple[str, int]:
        """Return who waits, and forget it."""
        origin, self._origin = self._origin, ("", 0)
        return origin

    def confirm(self, number: int) -> None:
        """All ancestors know of a growth."""
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
        """Answer "not complete" for a while: others who should be with us may be on their way."""
        if rounds > 0:
            self._lost.append((np.repeat(np.array(FREE)[:, None], self._n_axes, axis=1), rounds))

    def may_miss(self, box: Box, *, again: bool) -> bool:
        """Say whether an event may miss a reader here; ``again``: this copy of it may be late."""
        away = [*self._lost, *self._moved] if again else self._lost
        return any(meets(lost[None], box)[0] for lost, _ in away)

    def age(self) -> None:
        """Live through a round."""
        self._lost, self._moved = (
            [(box, rounds - 1) for box, rounds in boxes if rounds > 1] for boxes in (self._lost, self._moved)
        )


@dataclass
class Copy:
    """An event at a seat, in one attempt of its publisher."""

    event: m.Published
    attempt: int
    distance: int
    #: The levels whose children were looked at, as bits, and whether it went up.
    levels: int = 0
    went_up: bool = False
    #: ``(seat, token)``: who waits for a receipt.
    engager: tuple[str, str] = ("", "")
    #: ``{token: copy}``: what was passed on and not acknowledged.
    pending: dict[str, m.Forward] = field(default_factory=dict)
    #: Whether, as far as is known, every seat that must have it has it.
    complete: bool = True
    #: Rounds since it was last busy here.
    idle: int = 0


def _nowhere(payload: bytes) -> Box:
    raise InvariantError("a seat without a peer got an event")


@dataclass
class SeatEvents:
    """Events at a seat, and what its peer has to learn about them; ``locate`` says where an event lies."""

    locate: Callable[[bytes], Box] = _nowhere
    #: Events that are under way here, or were lately.
    copies: EventBook[Copy] = field(default_factory=EventBook)
    #: An event has come (once per attempt); an event of the own peer has been dealt with.
    _arrived: list[m.Forward] = field(default_factory=list)
    _finished: list[tuple[m.EventId, int, bool]] = field(default_factory=list)

    def open_copy(self, message: m.Forward) -> Copy:
        """Return the notes about an event; for a new attempt new ones, and the peer learns of it."""
        copy = self.copies.read(message.event.id)
        if copy is None or copy.attempt < message.attempt:
            copy = Copy(message.event, message.attempt, message.distance)
            self.copies.write(message.event.id, copy)
            self._arrived.append(message)
        return copy

    def finish(self, id: m.EventId, attempt: int, complete: bool) -> None:
        """Let the peer know that an attempt of its own has been dealt with."""
        self._finished.append((id, attempt, complete))

    def take_arrived(self) -> list[m.Forward]:
        """Return the events that have come since the last call."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def take_finished(self) -> list[tuple[m.EventId, int, bool]]:
        """Return the attempts that were dealt with since the last call."""
        finished, self._finished = self._finished, []
        return finished
