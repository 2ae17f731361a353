"""Forwards events: to every child whose MBR contains the event and, if it came from below, to the parent.

A seat handles its own levels itself; only other seats get a message. Each copy is answered by a `Receipt` once all
copies behind it are answered: the publisher learns whether all seats have the event, and tries again if not (promise
O6). Unacknowledged copies are sent again in every round. Only the sender that brought an event to an idle seat waits
for what follows; any other copy is acknowledged at once, so that seats never wait in a circle (Dijkstra and Scholten's
diffusing computation).

Implements: [drtree] section 4, selective event dissemination. Deviation: "unless the message was received *by* that
child" must read *from*; a peer that is its own child sends itself no message, and it is counted once per event, however
many of its nodes the event passes (erratum D.3.3).
"""

from __future__ import annotations

import msgspec

from tamis.overlay import messages as m
from tamis.overlay.measures import meets
from tamis.overlay.seat import MAX_HOPS, Seat
from tamis.overlay.space import Box
from tamis.overlay.state import GRACE, Copy

__all__ = ["hear_forward", "hear_receipt", "send_again"]

#: Prefixes of tokens: of the copy that goes up, and of a copy for a node that has another owner now.
_UP, _ON = "^", "~"


def hear_forward(seat: Seat, message: m.Forward) -> None:
    """Handle an event from a parent, from a child, or from outside."""
    box = seat.events.locate(message.event.payload)  # an invalid event stops here
    engager = (message.sender, message.token)
    if _is_past(seat, message):
        _answer(seat, message.event.id, message.attempt, *engager, False)
        return
    copy = seat.events.open_copy(message)
    if engager == copy.engager and copy.pending:
        return  # sent again; the answer is on its way
    was_busy = bool(copy.pending)
    if not was_busy:
        copy.engager = engager
    _pass_on(seat, copy, message, box)
    if was_busy:  # a copy on its way up that comes back has not found the node: the parents form a circle
        is_here = message.down and message.level <= seat.top
        is_reached = is_here or not any(token.startswith((_UP, _ON)) for token in copy.pending)
        _answer(seat, copy.event.id, copy.attempt, *engager, is_reached)
    else:
        _finish(seat, copy)


def _is_past(seat: Seat, message: m.Forward) -> bool:
    """Whether this attempt is obsolete: its publisher is done with the event, or has started a new attempt."""
    copy = seat.events.copies.read(message.event.id)
    return seat.events.copies.is_done(message.event) or (copy is not None and copy.attempt > message.attempt)


def _pass_on(seat: Seat, copy: Copy, message: m.Forward, box: Box) -> None:
    if seat.losses.may_miss(box, again=message.again) or not seat.placed:
        copy.complete = False
    if message.level > seat.top:
        _to_owner(seat, copy, message)
    last = min(message.level, seat.top) if message.down else seat.top
    for at in range(last, 0, -1):
        if not copy.levels >> at & 1:
            copy.levels |= 1 << at
            came = message.came if at == message.level and not message.down else ""
            _to_children(seat, copy, at, box, came)
    if not message.down and not copy.went_up and seat.parent is not None:
        copy.went_up = True
        copy.pending[_UP] = m.Forward(
            seat.parent, seat.name, 0, copy.event, copy.attempt, seat.top + 1, False, seat.name, _UP, copy.distance + 1
        )
        seat.send(copy.pending[_UP])


def _to_owner(seat: Seat, copy: Copy, message: m.Forward) -> None:
    """Forward to our parent because another seat owns the node; without a parent the event is not complete."""
    if seat.parent is None or message.distance >= MAX_HOPS:
        copy.complete = False
        return
    token = f"{_ON}{message.level} {'' if message.down else message.came}"
    if token not in copy.pending:  # otherwise it would run in a circle of parents until the next round
        onward = {"to": seat.parent, "sender": seat.name, "token": token, "distance": message.distance + 1}
        copy.pending[token] = msgspec.structs.replace(message, **onward)
        seat.send(copy.pending[token])


def _to_children(seat: Seat, copy: Copy, at: int, box: Box, came: str) -> None:
    level = seat.levels[at - 1]
    for row in meets(level.boxes, box).nonzero()[0].tolist():
        name = level.names[row]
        if name not in (seat.name, came):
            token = f"{at} {name}"
            copy.pending[token] = m.Forward(
                name, seat.name, 0, copy.event, copy.attempt, at - 1, True, "", token, copy.distance + 1
            )
            seat.send(copy.pending[token])


def hear_receipt(seat: Seat, message: m.Receipt) -> None:
    """Handle the receipt of a copy."""
    copy = seat.events.copies.read(message.id)
    if copy is not None and copy.attempt == message.attempt and copy.pending.pop(message.token, None) is not None:
        copy.complete &= message.complete
        _finish(seat, copy)


def _finish(seat: Seat, copy: Copy) -> None:
    if not copy.pending:
        _answer(seat, copy.event.id, copy.attempt, *copy.engager, copy.complete)


def _answer(seat: Seat, id: m.EventId, attempt: int, sender: str, token: str, complete: bool) -> None:
    if sender == seat.name and not token:
        seat.events.finish(id, attempt, complete)
    else:
        seat.send(m.Receipt(sender, seat.name, 0, id, attempt, token, complete))


def send_again(seat: Seat) -> None:
    """Send unacknowledged copies again; where the child has been replaced, the event is marked as not complete.

    A copy is never sent to a second seat: both would answer for it, and the first answer would count. Copies that were
    idle for long are dropped. Children of a seat that gets an event late may have moved to a seat that has passed it on
    already: the late seat answers that the event may have missed a reader (`Losses.may_miss`).
    """
    for copy in seat.events.copies:
        copy.idle = 0 if copy.pending else copy.idle + 1
        if copy.idle > GRACE:
            seat.events.copies.erase(copy.event.id)
        for token, forward in list(copy.pending.items()):
            if _is_in_place(seat, forward):
                seat.send(msgspec.structs.replace(forward, again=True))
            else:
                del copy.pending[token]
                copy.complete = False
                _finish(seat, copy)


def _is_in_place(seat: Seat, forward: m.Forward) -> bool:
    if forward.token.startswith((_UP, _ON)):
        return forward.to == seat.parent
    at = forward.level + 1
    return at <= seat.top and forward.to in seat.levels[at - 1]
