"""The rounds: every peer checks its own state, and from any state the tree becomes legal.

In a round a seat repairs its own tables, asks its parent "am I your child?", forgets children that have not asked for
`PATIENCE` rounds, and, if it has no parent, asks whether there are other roots. A seat that is refused twice, or gets
no answer for `PATIENCE` rounds, has lost its parent: it is the root of a *fragment*. If two roots meet, the lower tree
joins the taller one as a whole, at its level. Crashes, lost messages and broken pointers all lead to this: a pointer
that is not confirmed from both sides is dropped, and the seat joins again.

Why this terminates. A child at level k is confirmed only by a seat whose top is above k, so confirmed pointers form no
circle: after `PATIENCE` + 1 rounds all confirmed pointers form a forest whose leaves are equally deep. In each round
two roots that know each other become one. Sizes are repaired as in any split or leave.

A seat that loses a child keeps its box for `GRACE` rounds, and a root that lost its parent keeps a box of everything:
events that meet such a box are answered "not complete", so that their publisher tries again when the seats that fell
off have found new places (promise O6).

Implements: what [drtree] section 4 leaves to its companion paper [5]; the protocol is ours.
"""

from __future__ import annotations

import numpy as np

from tamis.overlay import messages as m
from tamis.overlay.protocol.bounds import note_box, tell_growth
from tamis.overlay.protocol.dissemination import send_again
from tamis.overlay.protocol.placement import goes_before, join, move_in
from tamis.overlay.seat import Seat
from tamis.overlay.space import FREE
from tamis.overlay.state import PATIENCE

__all__ = ["check", "hear_invite", "hear_ping", "hear_pong", "hear_seek"]


def check(seat: Seat, contact: str | None) -> None:
    """Run one round; ``contact`` is a seat that is believed to be in the tree."""
    _mend(seat)
    _give_up_what_is_stuck(seat)
    seat.losses.age()
    if seat.parent is not None:
        if seat.up.is_silent():
            _lose_parent(seat)
        else:
            words = (seat.top, seat.mbr(seat.top).tobytes(), seat.up.received, seat.up.next_word())
            seat.send(m.Ping(seat.parent, seat.name, 0, seat.parent, *words))
    if seat.parent is None:
        seat.membership.stay()
        move_in(seat)
        _look_for_roots(seat, contact)
    tell_growth(seat)
    seat.unsettle()
    send_again(seat)


def _mend(seat: Seat) -> None:
    """Repair the errors that a seat detects in its own state, and drop silent children."""
    if seat.parent == seat.name:
        seat.up.forget_name()
    if not seat.levels:
        seat.up.inherit(None)
        seat.dissolution.end()
    for level in seat.levels:
        for name in level.names:
            level.silent[name] += 1
        for name in [name for name in level.names if level.silent[name] > PATIENCE and name != seat.name]:
            seat.losses.lose(level.box(name))
            level.remove(name)
        if seat.name not in level:
            level.put(seat.name, seat.box)
        low, high = level.boxes[:, 0], level.boxes[:, 1]
        wrong = ~((low >= FREE[0]) & (low <= high) & (high <= FREE[1])).all(axis=1)
        level.boxes[wrong] = np.array(FREE)[:, None]  # until its owner reports it
    seat.refresh()


def _give_up_what_is_stuck(seat: Seat) -> None:
    """Keep children that were to leave and did not."""
    dissolution = seat.dissolution
    if dissolution.is_stuck(dissolution.active or any(level.leaving for level in seat.levels)):
        for level in seat.levels:
            level.leaving.clear()
        if dissolution.next_parent is not None:
            parent, _, place = dissolution.next_parent
            seat.send(m.Detach(parent, seat.name, 0, seat.name, seat.top - 1, place))
        dissolution.end()


def _lose_parent(seat: Seat) -> None:
    seat.up.lose()
    seat.losses.doubt_everything()


def _look_for_roots(seat: Seat, contact: str | None) -> None:
    for target in dict.fromkeys((contact, *seat.up.above)):
        if target is not None and target != seat.name:
            if seat.placed or seat.levels:
                seat.send(m.Seek(target, seat.name, 0, seat.name, seat.top))
            else:
                join(seat, target)
    if contact in (None, seat.name):
        seat.membership.forget_contact()
        _begin_tree(seat)


def _begin_tree(seat: Seat) -> None:
    """Become the root, because the contact is gone or is below this seat; seats that it knew may still join."""
    if not seat.placed:
        seat.membership.enter()
        seat.losses.doubt_everything()


def hear_ping(seat: Seat, message: m.Ping) -> None:
    """Handle the ping of a seat that believes that it is a child; if another seat owns the node, that seat answers."""
    at = message.level + 1
    if seat.top < at and seat.forward(message):
        return
    is_child = seat.top >= at and message.sender in seat.levels[at - 1] and message.sender != seat.name
    passed = place = 0
    if is_child:
        level = seat.levels[at - 1]
        note_box(level, message, seat.space.read(message.box))
        passed, place = level.passed[message.sender], level.places[message.sender]
        seat.unsettle()
    above = (seat.parent or seat.name, *seat.up.above)[:3]
    notes = (is_child, passed, place, seat.placed, above)
    seat.send(m.Pong(message.sender, seat.name, 0, message.parent, message.level, *notes))


def hear_pong(seat: Seat, message: m.Pong) -> None:
    """Handle the answer of the parent, or of the new owner of its node; an answer of a former parent is ignored."""
    if message.level != seat.top or message.parent != seat.parent:
        return
    if message.mine:
        seat.up.confirm(message)
        if message.placed:
            seat.membership.enter()
        move_in(seat)
        return
    if seat.up.is_refused():
        _lose_parent(seat)
        _look_for_roots(seat, message.sender)


def hear_seek(seat: Seat, message: m.Seek) -> None:
    """Handle a root that looks for other roots: forward it to this seat's root, or decide which of the two joins."""
    if seat.parent is not None:
        seat.forward(message)
    elif message.root == seat.name:
        _begin_tree(seat)
    elif seat.left:
        return
    elif goes_before(seat.top, seat.name, message.level, message.root):
        seat.send(m.Invite(message.root, seat.name, 0))
    else:
        join(seat, message.root)


def hear_invite(seat: Seat, message: m.Invite) -> None:
    """Join a root that has precedence."""
    if seat.parent is None and not seat.left and message.sender != seat.name:
        join(seat, message.sender)
