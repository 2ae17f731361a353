"""Places nodes: the way down from the root, attaching, and nodes with too many or too few children.

A child leaves its old parent only after it has a new one (promise O5, erratum D.3.8): a child that is to move is
*leaving*, gets its events as before, and is dropped when it reports its new parent. The choice of the new parent must
use the tree as it will be, or a reinserted node would come back at once. So an `Insert` carries the boxes to use
*instead* of those of the nodes that it comes from.

Implements: [drtree] section 4, registering and cancelling a subscription; R* reinsertion of section 3.2 (iii).
Deviation: the share that is reinserted (30 %, the nearest first, once per level and insertion) is not in the paper
(erratum D.3.2).
"""

from __future__ import annotations

import msgspec
import numpy as np

from tamis.geometry.split import SPLITS, farthest
from tamis.overlay import messages as m
from tamis.overlay.level import Level
from tamis.overlay.measures import CHOICES, best_cover, choose_r, hull
from tamis.overlay.protocol.promotion import hand_over
from tamis.overlay.seat import MAX_HOPS, Seat
from tamis.overlay.space import Box

__all__ = ["goes_before", "hear_adopt", "hear_adopted", "hear_insert", "join", "mend_sizes", "move_in"]

#: The share of an overflowing node's children that R* reinserts.
REINSERTED = 0.3


def join(seat: Seat, contact: str) -> None:
    """Ask any seat (``contact``) for a place in the tree: the seat's top node becomes a child of some node."""
    seat.membership.seek(contact)
    seat.send(m.Insert(contact, seat.name, 0, seat.name, seat.top, seat.mbr(seat.top).tobytes()))


def goes_before(level: int, name: str, other_level: int, other: str) -> bool:
    """Whether the first of two roots adopts the second: the taller tree does; for equal heights, the smaller name."""
    return (-level, name) < (-other_level, other)


# The way


def hear_insert(seat: Seat, message: m.Insert) -> None:
    """Forward an insert, up or down, or attach its node."""
    if message.at == 0:
        _climb(seat, message)
        return
    if message.sender == seat.parent:
        seat.up.note_insert(seat.space.read(message.box))
        seat.unsettle()
    if seat.top >= message.at:
        _descend(seat, message, message.at)
    elif not seat.forward(message) and message.hops < MAX_HOPS:
        _climb(seat, msgspec.structs.replace(message, at=0))


def _climb(seat: Seat, message: m.Insert) -> None:
    if message.hops >= MAX_HOPS or (message.seat == seat.name and seat.is_root):
        return
    if message.instead:
        message = msgspec.structs.replace(message, instead=_seen_from(seat, message.instead))
    if seat.parent is not None:
        seat.forward(message)
    elif not seat.placed and seat.membership.contact is not None and not seat.levels:  # still looking for the tree
        seat.send(msgspec.structs.replace(message, to=seat.membership.contact, hops=message.hops + 1))
    elif message.level < seat.top:
        _descend(seat, message, seat.top)
    elif message.level == seat.top and _takes_in(seat, message):
        box = seat.space.read(message.box)
        seat.levels.append(Level([seat.name], seat.mbr(seat.top)[None].copy()))
        _attach(seat, message.seat, box, seat.top, message.reinserted)


def _takes_in(seat: Seat, message: m.Insert) -> bool:
    """Whether this root adopts a tree of its own height; of two roots that ask each other, only one does."""
    return not seat.membership.yielding or goes_before(seat.top, seat.name, message.level, message.seat)


def _descend(seat: Seat, message: m.Insert, at: int) -> None:
    """Descend through the seat's own levels; grow each entry before the next step (O5)."""
    box = seat.space.read(message.box)
    while at > message.level + 1:
        level = seat.levels[at - 1]
        row = _choose(seat, level, box, at, message.instead)
        level.grow(row, box)
        name = level.names[row]
        if name != seat.name:
            level.passed[name] += 1
            seat.send(msgspec.structs.replace(message, to=name, sender=seat.name, hops=message.hops + 1, at=at - 1))
            seat.unsettle()
            return
        at -= 1
    if seat.dissolution.active and at == seat.top:  # takes no new children
        absent = m.Instead(at, seat.name, b"")
        again = msgspec.structs.replace(message, at=0, hops=message.hops + 1, instead=(*message.instead, absent))
        if not seat.forward(again):
            _attach(seat, message.seat, box, at, message.reinserted)
        return
    _attach(seat, message.seat, box, at, message.reinserted)


def _choose(seat: Seat, level: Level, box: Box, at: int, instead: tuple[m.Instead, ...]) -> int:
    """Return the row of the child to descend to, among children that are not leaving."""
    rows, boxes = level.staying or list(range(len(level))), level.boxes
    for override in instead:
        if override.level == at - 1 and override.seat in level:
            row = level.names.index(override.seat)
            if not override.box and len(rows) > 1:
                rows = [other for other in rows if other != row]
            elif override.box:
                boxes = boxes.copy()
                boxes[row] = seat.space.read(override.box)
    choose = CHOICES[seat.shape.choice] if at == 2 else choose_r
    return rows[choose(boxes[rows], box)]


def _seen_from(seat: Seat, instead: tuple[m.Instead, ...]) -> tuple[m.Instead, ...]:
    """Add the boxes of the seat's own nodes that follow from the overridden boxes below them."""
    seen = {(override.level, override.seat): override for override in instead}
    for at in range(1, seat.top + 1):
        below = [override for override in instead if override.level == at - 1 and override.seat in seat.levels[at - 1]]
        below += [
            override
            for override in seen.values()
            if override.level == at - 1 and override.seat == seat.name and override not in below
        ]
        if below and (at, seat.name) not in seen:
            level = seat.levels[at - 1]
            absent = {override.seat for override in below if not override.box}
            rows = [row for row in level.staying if level.names[row] not in absent]
            if not rows:
                continue
            boxes = level.boxes.copy()
            for override in below:
                if override.box:
                    boxes[level.names.index(override.seat)] = seat.space.read(override.box)
            seen[at, seat.name] = m.Instead(at, seat.name, hull(boxes[rows]).tobytes())
    return tuple(seen.values())


# Attaching


def _attach(seat: Seat, name: str, box: Box, at: int, reinserted: int = 0) -> None:
    if name == seat.name:
        return
    level = seat.levels[at - 1]
    moved = name in level
    if not moved and len(level) >= m.MAX_ROWS:
        return  # a longer table does not fit into a message; a seat that is not adopted asks again
    level.put(name, box)
    place = seat.give_place(level, name)
    seat.send(m.Adopted(name, seat.name, 0, name, at, box.tobytes(), place, moved, seat.placed))
    seat.unsettle(reinserted)
    if seat.is_root:
        seat.membership.stay()


def hear_adopt(seat: Seat, message: m.Adopt) -> None:
    """Adopt a node that was split off from one of this seat's nodes; a root grows by a level for it."""
    box = seat.space.read(message.box)
    if seat.top > message.level:
        _attach(seat, message.sender, box, message.level + 1, message.reinserted)
    elif not seat.forward(message) and seat.top == message.level:
        seat.levels.append(Level([seat.name], seat.mbr(seat.top)[None].copy()))
        _attach(seat, message.sender, box, seat.top, message.reinserted)


def hear_adopted(seat: Seat, message: m.Adopted) -> None:
    """Handle a new parent: inform the former one and, if the top node is new, its children."""
    box, up = seat.space.read(message.box), seat.up
    if seat.dissolution.active and seat.top == message.level:
        seat.dissolution.note_adopter(message.sender, box, message.place)
        seat.unsettle()
    elif seat.top == message.level - 1 and message.sender != seat.name and not seat.left:
        if up.name not in (None, message.sender) and not up.newborn:
            seat.send(m.Detach(str(up.name), seat.name, 0, seat.name, seat.top, up.place))
        up.move(message.sender, box, message.place, up.received if message.moved else 0)
        up.trust()
        seat.membership.stay()
        if message.placed:
            seat.membership.enter()
        if message.child != seat.name:
            seat.send(m.Replace(message.sender, seat.name, 0, message.child, seat.top))
        move_in(seat)
        seat.unsettle()
    elif seat.top >= message.level - 1 or not seat.forward(message):
        seat.send(m.Detach(message.sender, seat.name, 0, message.child, message.level - 1, message.place))


def move_in(seat: Seat) -> None:
    """Complete a new top node that has a parent: its children may leave the node they came from."""
    if seat.up.newborn is not None and seat.levels:
        level = seat.levels[-1]
        for row, name in enumerate(level.names):
            if name != seat.name:
                box, place = level.boxes[row].tobytes(), level.places[name]
                seat.send(m.Adopted(name, seat.name, 0, name, seat.top, box, place, True, seat.placed))
        seat.send(m.Detach(seat.up.newborn, seat.name, 0, seat.name, seat.top - 1, level.places[seat.name]))
        seat.up.inherit(None)


# Too many, too few


def mend_sizes(seat: Seat, reinserted: int) -> None:
    """Split or reinsert where there are too many children, dissolve or collapse where there are too few."""
    shape = seat.shape
    while seat.is_root and seat.levels and len(seat.levels[-1]) == 1:  # a root has at least two children
        seat.levels.pop()
    _finish_dissolving(seat)
    for at in range(1, seat.top + 1):
        level = seat.levels[at - 1]
        staying = level.staying
        if len(staying) > shape.most:
            is_root = seat.is_root and at == seat.top
            if shape.split == "r*" and not is_root and not reinserted >> at & 1:
                _reinsert(seat, at, reinserted | 1 << at)
            else:
                _split(seat, at, reinserted)
        elif _is_too_few(seat, at) and _dissolve(seat, at):
            return


def _is_too_few(seat: Seat, at: int) -> bool:
    level = seat.levels[at - 1]
    is_root = seat.is_root and at == seat.top
    return len(level) < seat.shape.least and not is_root and not level.leaving


def _reinsert(seat: Seat, at: int, reinserted: int) -> None:
    """Let the children that are farthest from the centre find better places."""
    level = seat.levels[at - 1]
    rows = [row for row in level.staying if level.names[row] != seat.name]
    boxes = np.maximum(level.boxes[rows], 0.0)
    chosen = [rows[i] for i in farthest(boxes[:, 0], boxes[:, 1], max(1, int(REINSERTED * (seat.shape.most + 1))))]
    level.leaving |= {level.names[row] for row in chosen}
    without = m.Instead(at, seat.name, hull(level.boxes[level.staying]).tobytes())
    for row in chosen:
        box = level.boxes[row].tobytes()
        _climb(seat, m.Insert(seat.name, seat.name, 0, level.names[row], at - 1, box, 0, reinserted, (without,)))


def _split(seat: Seat, at: int, reinserted: int) -> None:
    """Move some of a node's children to a new node, owned by the best of them; they leave when it has a parent."""
    level = seat.levels[at - 1]
    rows = level.staying
    boxes = np.maximum(level.boxes[rows], 0.0)
    groups = [
        [rows[i] for i in group] for group in SPLITS[seat.shape.split](boxes[:, 0], boxes[:, 1], seat.shape.least)
    ]
    own_row = level.names.index(seat.name)
    away = groups[1] if own_row in groups[0] else groups[0]
    heir = level.names[away[best_cover(level.boxes[away])]]
    parent = seat.name if at < seat.top else seat.parent or seat.name
    state = level.state(away)
    level.leaving |= set(state.names)
    seat.send(m.TakeOver(heir, seat.name, 0, heir, at, (state,), parent, True, b"", 0, 0, None, reinserted))


def _dissolve(seat: Seat, at: int) -> bool:
    """Dissolve a node with too few children: all of them, including the seat's own lower node, find other places.

    False when that cannot be yet: something else is under way, or the nodes above must go first.
    """
    if seat.is_reshaping:
        return False
    if at < seat.top:
        above = seat.levels[at]
        others = [row for row in above.staying if above.names[row] != seat.name]
        if not others:
            return False
        above.leaving.add(seat.name)  # otherwise the successor would promote this seat again
        hand_over(seat, at + 1, above.names[others[best_cover(above.boxes[others])]])
    level = seat.levels[at - 1]
    seat.dissolution.begin()
    level.leaving = {name for name in level.names if name != seat.name}
    absent = m.Instead(at, seat.name, b"")
    for row, name in enumerate(level.names):
        box = level.boxes[row].tobytes()
        seat.send(m.Insert(str(seat.parent), seat.name, 0, name, at - 1, box, 0, 0, (absent,)))
    return True


def _finish_dissolving(seat: Seat) -> None:
    next_parent = seat.dissolution.next_parent
    if seat.dissolution.active and next_parent is not None and seat.levels and len(seat.levels[-1]) == 1:
        seat.levels.pop()
        if seat.parent is not None:
            seat.send(m.Detach(seat.parent, seat.name, 0, seat.name, seat.top + 1, seat.up.place))
        seat.up.move(*next_parent, received=0)
        seat.dissolution.end()
