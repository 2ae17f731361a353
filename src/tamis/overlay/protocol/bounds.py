"""Keeps MBRs up to date: growth is reported at once, shrinking when all leaving children are gone."""

from __future__ import annotations

import numpy as np

from tamis.overlay import messages as m
from tamis.overlay.level import Level
from tamis.overlay.measures import contains
from tamis.overlay.seat import Seat
from tamis.overlay.space import Box

__all__ = ["change_box", "hear_detach", "hear_grown", "hear_report", "note_box", "report", "tell_growth"]


def change_box(seat: Seat, box: Box) -> None:
    """Give a seat another box; `Growth.is_known` is true again when all ancestors know it."""
    seat.ask_for(box)
    tell_growth(seat)


def tell_growth(seat: Seat) -> None:
    """Request a reply when all ancestors know the seat's box; repeated in every round, because a reply may be lost."""
    if not seat.growth.is_known:
        seat.unsettle()
        seat.growth.ask(seat.name)


def report(seat: Seat) -> None:
    """Send the seat's MBR to the parent if it has changed; a report with an origin goes up to the root, which replies.

    An ancestor that has reported the same box before does not reply earlier: its report may have been lost.
    """
    box, origin = seat.mbr(seat.top), seat.growth.take_origin()
    noted = box if seat.up.noted_box is None else seat.up.noted_box
    is_waiting = contains(noted, box) and any(level.leaving for level in seat.levels)
    reported = noted if is_waiting else box  # shrinking waits until all leaving children are gone
    if seat.parent is not None and (origin[0] or seat.up.noted_box is None or not np.array_equal(reported, noted)):
        words = (seat.top, reported.tobytes(), seat.up.received, seat.up.tell(reported))
        seat.send(m.MbrReport(seat.parent, seat.name, 0, *words, *origin))
    elif origin[0] == seat.name:
        seat.growth.confirm(origin[1])
    elif origin[0]:
        seat.send(m.Grown(origin[0], seat.name, 0, origin[1]))


def note_box(level: Level, message: m.MbrReport | m.Ping, box: Box) -> None:
    """Store a child's reported MBR; it may only grow while inserts are under way or a newer report exists."""
    name = message.sender
    row = level.names.index(name)
    if message.received < level.passed[name] or message.order < level.orders[name]:
        level.grow(row, box)
    else:
        level.boxes[row] = box
    level.orders[name] = max(level.orders[name], message.order)
    level.silent[name] = 0


def hear_report(seat: Seat, message: m.MbrReport) -> None:
    """Handle a child's new MBR."""
    if seat.top <= message.level:
        seat.forward(message)
        return
    level = seat.levels[message.level]
    if message.sender in level and message.sender != seat.name:
        note_box(level, message, seat.space.read(message.box))
        seat.unsettle()
        seat.growth.pass_on(message.origin, message.number)


def hear_grown(seat: Seat, message: m.Grown) -> None:
    """Handle the reply that all ancestors know of a growth."""
    seat.growth.confirm(message.number)


def hear_detach(seat: Seat, message: m.Detach) -> None:
    """Remove a child that has another parent now, unless this seat has adopted it again since."""
    if seat.top <= message.level:
        seat.forward(message)
        return
    level = seat.levels[message.level]
    if message.seat != seat.name and level.places.get(message.seat) == message.place:
        seat.losses.move_on(level.box(message.seat))
        level.remove(message.seat)
        seat.unsettle()
