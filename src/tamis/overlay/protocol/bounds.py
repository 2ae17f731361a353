"""MBRs that follow their children: growth is reported at once, shrinking when all leaving children are gone."""

from __future__ import annotations

import numpy as np

from tamis.overlay import messages as m
from tamis.overlay.level import Level
from tamis.overlay.measures import contains
from tamis.overlay.seat import Seat
from tamis.overlay.space import Box

__all__ = ["change_box", "hear_detach", "hear_grown", "hear_report", "note_box", "report", "tell_growth"]


def change_box(seat: Seat, box: Box) -> None:
    """Let a seat ask for something else; `Growth.is_known` is true again when all ancestors know."""
    seat.ask_for(box)
    tell_growth(seat)


def tell_growth(seat: Seat) -> None:
    """Ask for a reply when all ancestors know the own box; repeated in every round, because the reply may be lost."""
    if not seat.growth.is_known:
        seat.unsettle()
        seat.growth.ask(seat.name)


def report(seat: Seat) -> None:
    """Send the parent the own MBR if it has changed; a report with an origin goes up to the root, which replies.

    An ancestor that has reported the same box before does not reply earlier: its report may have been lost.
    """
    box, origin = seat.mbr(seat.top), seat.growth.take_origin()
    known = box if seat.up.known is None else seat.up.known
    is_waiting = contains(known, box) and any(level.leaving for level in seat.levels)
    told = known if is_waiting else box  # shrinking waits until all who leave are gone
    if seat.parent is not None and (origin[0] or seat.up.known is None or not np.array_equal(told, known)):
        words = (seat.top, told.tobytes(), seat.up.received, seat.up.tell(told))
        seat.send(m.Report(seat.parent, seat.name, 0, *words, *origin))
    elif origin[0] == seat.name:
        seat.growth.confirm(origin[1])
    elif origin[0]:
        seat.send(m.Grown(origin[0], seat.name, 0, origin[1]))


def note_box(level: Level, message: m.Report | m.Ping, box: Box) -> None:
    """Note a child's MBR: as it says, or at least that, if inserts are on their way to it or it has said more since."""
    name = message.sender
    row = level.names.index(name)
    if message.received < level.passed[name] or message.order < level.orders[name]:
        level.grow(row, box)
    else:
        level.boxes[row] = box
    level.orders[name] = max(level.orders[name], message.order)
    level.silent[name] = 0


def hear_report(seat: Seat, message: m.Report) -> None:
    """A child's MBR has changed."""
    if seat.top <= message.level:
        seat.forward(message)
        return
    level = seat.levels[message.level]
    if message.sender in level and message.sender != seat.name:
        note_box(level, message, seat.space.read(message.box))
        seat.unsettle()
        seat.growth.pass_on(message.origin, message.number)


def hear_grown(seat: Seat, message: m.Grown) -> None:
    """All ancestors know of a growth."""
    seat.growth.confirm(message.number)


def hear_detach(seat: Seat, message: m.Detach) -> None:
    """A child has another parent now; unless we adopted it again before it said so."""
    if seat.top <= message.level:
        seat.forward(message)
        return
    level = seat.levels[message.level]
    if message.seat != seat.name and level.places.get(message.seat) == message.place:
        seat.losses.move_on(level.box(message.seat))
        level.remove(message.seat)
        seat.unsettle()
