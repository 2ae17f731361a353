"""Nodes change owners: the best cover is promoted, and who leaves is replaced.

Handing over a node means handing over all nodes above it that the same seat owns: their owner was their best cover by
the very node that now belongs to the heir. The former owner keeps the levels below and is a child of the heir. Messages
that still come to it for higher levels go on to its parent, which is the heir; so nothing is lost meanwhile.

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
    """Promote a child that covers better than the owner does; from the lowest level up."""
    if seat.is_reshaping:
        return
    for at, level in enumerate(seat.levels, 1):
        if level.leaving:
            continue
        best = best_cover(level.boxes)
        mine = level.names.index(seat.name)
        pair = sizes(level.boxes[[best, mine]])
        if best != mine and tuple(pair[0]) > tuple(pair[1]):
            hand_over(seat, at, level.names[best])
            return


def hand_over(seat: Seat, at: int, heir: str) -> None:
    """Give all own nodes from a level upwards to a child of the lowest of them."""
    nodes = tuple(level.state() for level in seat.levels[at - 1 :])
    up = seat.up
    known = b"" if up.known is None else up.known.tobytes()
    notes = (up.name, False, known, up.received, up.place, up.newborn, 0, seat.losses.doubt)
    seat.send(m.TakeOver(heir, seat.name, 0, heir, at, nodes, *notes))
    lowest = seat.levels[at - 1]
    del seat.levels[at - 1 :]
    up.move(heir, lowest.box(seat.name), lowest.places[seat.name], lowest.passed[seat.name])
    up.inherit(None)
    up.trust()


def hear_take_over(seat: Seat, message: m.TakeOver) -> None:
    """Own nodes from now on; who is about to go gives them back."""
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
    known = seat.space.read(message.known) if message.known else None
    seat.up.move(message.parent, known, message.place, message.received)
    seat.up.inherit(message.newborn)
    if seat.parent is not None:
        seat.send(m.Replace(seat.parent, seat.name, 0, message.sender, seat.top))
    for number, level in enumerate(seat.levels[message.level - 1 :], message.level):
        _tell_children(seat, number, level, message)


def _seek_parent(seat: Seat, message: m.TakeOver) -> None:
    """Ask the parent of the node that ours was split off from to adopt it."""
    box = seat.mbr(seat.top)
    seat.up.split_off(message.sender, message.parent, box)
    if seat.parent is not None:
        seat.send(m.Adopt(seat.parent, seat.name, 0, seat.top, box.tobytes(), message.reinserted))


def _install(seat: Seat, message: m.TakeOver) -> None:
    """Put the nodes on top of our own, with us in the place of the seat that they were meant for or came from."""
    for number, state in enumerate(message.nodes):
        level = Level.of_state(state, seat.space)
        level.rename(message.sender if number else message.heir, seat.name)
        if seat.name not in level:
            level.put(seat.name, seat.mbr(seat.top))
        level.leaving.discard(seat.name)
        seat.levels.append(level)


def _give_back(seat: Seat, message: m.TakeOver) -> None:
    """Return nodes to the seat they came from, without us or with us as a leaving child."""
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
    """A node that was split off came back, for its heir is not the child we believed it to be: forget that child."""
    if message.level <= seat.top:
        level = seat.levels[message.level - 1]
        level.leaving -= {name for node in message.nodes for name in node.names}
        if message.heir != seat.name and message.heir in level:
            seat.losses.lose(level.box(message.heir))
            level.remove(message.heir)
        seat.unsettle()


def _find_places(seat: Seat, message: m.TakeOver) -> None:
    """We own such nodes already, so these cannot be ours: let all their children find other places."""
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
    """The same parent node, in other hands; unless it is our parent no longer."""
    if seat.top < message.level - 1:
        seat.forward(message)
    elif seat.top == message.level - 1 and seat.parent == message.old and message.sender != seat.name:
        seat.up.change_hands(message.sender, seat.space.read(message.box))
        seat.unsettle()
        if message.child != seat.name:
            seat.send(m.Replace(message.sender, seat.name, 0, message.child, seat.top))


def hear_replace(seat: Seat, message: m.Replace) -> None:
    """A child node is in other hands."""
    if seat.top <= message.level:
        seat.forward(message)
    elif message.old != seat.name and message.sender != seat.name:
        seat.levels[message.level].rename(message.old, message.sender)
        seat.unsettle()


def leave(seat: Seat) -> None:
    """Go: hand over what is owned to the best of the others, then let the parent forget the leaf.

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
