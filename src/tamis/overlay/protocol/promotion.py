"""Changes the owners of nodes: the best cover is promoted, and a seat that leaves is replaced.

A seat that hands over a node also hands over all nodes above it that it owns: it was their best cover because of the
node that now belongs to the successor. The former owner keeps the levels below and is a child of the successor.
Messages that still reach it for higher levels are forwarded to its parent, the successor; so nothing is lost.

Implements: [drtree] section 4, promotion and dynamic reorganisation. Deviation: owners are looked at again whenever an
MBR has changed, not only at joins and splits, for shrinking changes the best cover too (erratum D.3.7).
"""

from __future__ import annotations

import msgspec
import numpy as np

from tamis.overlay import messages as m
from tamis.overlay.level import Level
from tamis.overlay.measures import best_cover, sizes
from tamis.overlay.seat import Seat

__all__ = ["hand_over", "hear_owner", "hear_replace", "hear_take_over", "leave", "reorganise"]


def reorganise(seat: Seat) -> None:
    """Promote a child that is a better cover than the owner, from the lowest level up."""
    if seat.is_reshaping:
        return
    for at, level in enumerate(seat.levels, 1):
        if level.leaving:
            continue
        best = best_cover(level.boxes)
        own_row = level.names.index(seat.name)
        pair = sizes(level.boxes[[best, own_row]])
        if best != own_row and tuple(pair[0]) > tuple(pair[1]):
            hand_over(seat, at, level.names[best])
            return


def hand_over(seat: Seat, at: int, heir: str) -> None:
    """Hand over all own nodes from a level upwards to a child of the lowest of them."""
    nodes = tuple(level.state() for level in seat.levels[at - 1 :])
    up = seat.up
    noted_box = b"" if up.noted_box is None else up.noted_box.tobytes()
    notes = (up.name, False, noted_box, up.received, up.place, up.newborn, 0, seat.losses.doubt)
    seat.send(m.TakeOver(heir, seat.name, 0, heir, at, nodes, *notes))
    lowest = seat.levels[at - 1]
    del seat.levels[at - 1 :]
    up.move(heir, lowest.box(seat.name), lowest.places[seat.name], lowest.passed[seat.name])
    up.inherit(None)
    up.trust()


def hear_take_over(seat: Seat, message: m.TakeOver) -> None:
    """Become the owner of nodes; a seat that is about to leave gives them back."""
    if message.fresh and message.sender == seat.name:
        _keep(seat, message)
        return
    if seat.top < message.level - 1:
        seat.forward(message)
        return
    if not message.nodes:
        return
    if (seat.left or seat.dissolution.active) and message.sender != seat.name and not message.fresh:
        _give_back(seat, message)
        return
    if seat.top > message.level - 1:
        _find_places(seat, message)
        return
    _install(seat, message)
    seat.unsettle()
    seat.up.trust()
    seat.losses.doubt_everything(message.doubt)
    if message.fresh:
        _seek_parent(seat, message)
        return
    noted_box = seat.space.read(message.noted_box) if message.noted_box else None
    seat.up.move(message.parent, noted_box, message.place, message.received)
    seat.up.inherit(message.newborn)
    if seat.parent is not None:
        seat.send(m.Replace(seat.parent, seat.name, 0, message.sender, seat.top))
    for number, level in enumerate(seat.levels[message.level - 1 :], message.level):
        _tell_children(seat, number, level, message)


def _seek_parent(seat: Seat, message: m.TakeOver) -> None:
    """Ask the parent of the node from which this seat's node was split off to adopt it."""
    box = seat.mbr(seat.top)
    seat.up.split_off(message.sender, message.parent, box)
    if seat.parent is not None:
        seat.send(m.Adopt(seat.parent, seat.name, 0, seat.top, box.tobytes(), message.reinserted))


def _install(seat: Seat, message: m.TakeOver) -> None:
    """Put the nodes on top of this seat's own, as a child in place of the seat they were meant for or came from."""
    for number, state in enumerate(message.nodes):
        level = Level.of_state(state, seat.space)
        level.rename(message.sender if number else message.heir, seat.name)
        if seat.name not in level:
            level.put(seat.name, seat.mbr(seat.top))
        level.leaving.discard(seat.name)
        seat.levels.append(level)


def _give_back(seat: Seat, message: m.TakeOver) -> None:
    """Return nodes to the seat they came from, without this seat or with it as a leaving child."""
    lowest = Level.of_state(message.nodes[0], seat.space)
    lowest.rename(message.heir, seat.name)
    if seat.left:
        lowest.remove(seat.name)
    else:
        lowest.leaving.add(seat.name)
    nodes = (lowest.state(), *message.nodes[1:])
    back = msgspec.structs.replace(message, to=message.sender, heir=message.sender, hops=message.hops + 1, nodes=nodes)
    seat.send(back)


def _keep(seat: Seat, message: m.TakeOver) -> None:
    """Take back a node that was split off, because its new owner was not a child of this seat; forget that child."""
    if message.level <= seat.top:
        level = seat.levels[message.level - 1]
        level.leaving -= {name for node in message.nodes for name in node.names}
        if message.heir != seat.name and message.heir in level:
            seat.losses.lose(level.box(message.heir))
            level.remove(message.heir)
        seat.unsettle()


def _find_places(seat: Seat, message: m.TakeOver) -> None:
    """Dissolve nodes of levels that this seat owns already: let all their children find other places."""
    seat.losses.doubt_everything()
    size = 16 * len(seat.space)
    for at, node in enumerate(message.nodes, message.level):
        for row, name in enumerate(node.names):
            if name not in (seat.name, message.heir) and (at == message.level or name != message.sender):
                box = node.boxes[size * row : size * (row + 1)]
                seat.send(m.Insert(seat.name, seat.name, 0, name, at - 1, box))


def _tell_children(seat: Seat, at: int, level: Level, message: m.TakeOver) -> None:
    for row, name in enumerate(level.names):
        if name != seat.name:
            old = message.heir if name == message.sender else message.sender
            seat.send(m.Owner(name, seat.name, 0, name, old, at, level.boxes[row].tobytes()))


def hear_owner(seat: Seat, message: m.Owner) -> None:
    """Handle a new owner of the parent node, unless that node is no longer the parent."""
    if seat.top < message.level - 1:
        seat.forward(message)
    elif seat.top == message.level - 1 and seat.parent == message.old and message.sender != seat.name:
        seat.up.change_hands(message.sender, seat.space.read(message.box))
        seat.unsettle()
        if message.child != seat.name:
            seat.send(m.Replace(message.sender, seat.name, 0, message.child, seat.top))


def hear_replace(seat: Seat, message: m.Replace) -> None:
    """Handle a new owner of a child node."""
    if seat.top <= message.level:
        seat.forward(message)
    elif message.old != seat.name and message.sender != seat.name:
        seat.levels[message.level].rename(message.old, message.sender)
        seat.unsettle()


def leave(seat: Seat) -> None:
    """Leave: hand over all own nodes to the best of the others, then detach the leaf from its parent.

    Implements: [drtree] section 4, cancelling a subscription.
    """
    if seat.levels:
        level = seat.levels[0]
        others = [row for row, name in enumerate(level.names) if name != seat.name]
        staying = [row for row in others if level.names[row] not in level.leaving] or others
        if staying:
            hand_over(seat, 1, level.names[staying[best_cover(level.boxes[np.array(staying)])]])
    if seat.parent is not None:
        seat.send(m.Detach(seat.parent, seat.name, 0, seat.name, seat.top, seat.up.place))
    seat.membership.leave()
