"""MBRs that follow their children: growth is told at once, shrinking when all who leave are gone."""

from __future__ import annotations

import numpy as np

from tamis.overlay import messages as m
from tamis.overlay.level import Level
from tamis.overlay.measures import contains
from tamis.overlay.seat import GRACE, Seat
from tamis.overlay.space import Box

__all__ = ["change_box", "hear_detach", "hear_grown", "hear_report", "note_box", "report", "tell_growth"]


def change_box(seat: Seat, box: Box) -> None:
    """Let a seat ask for something else; `Seat.grown` reaches `Seat.growing` when all ancestors know."""
    seat.box = np.array(box)
    seat.growing += 1
    tell_growth(seat)


def tell_growth(seat: Seat) -> None:
    """Ask to hear when all ancestors know the own box; in every round again, for the answer may be lost."""
    if seat.grown < seat.growing:
        seat.unsettled, seat.origin = True, (seat.name, seat.growing)


def report(seat: Seat) -> None:
    """Tell the parent of the own MBR if it is news; what somebody waits for goes up to the root, which answers.

    It is not answered earlier, by somebody who has told the same before: that word may have been lost.
    """
    box, origin = seat.mbr(seat.top), seat.origin
    seat.origin = ("", 0)
    known = box if seat.known is None else seat.known
    is_waiting = contains(known, box) and any(level.leaving for level in seat.levels)
    told = known if is_waiting else box  # shrinking waits until all who leave are gone
    if seat.parent is not None and (origin[0] or seat.known is None or not np.array_equal(told, known)):
        seat.known = told.copy()
        seat.told += 1
        words = (seat.top, told.tobytes(), seat.received, seat.told)
        seat.send(m.Report(seat.parent, seat.name, 0, *words, *origin))
    elif origin[0] == seat.name:
        seat.grown = max(seat.grown, origin[1])
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
        seat.unsettled, seat.origin = True, (message.origin, message.number)


def hear_grown(seat: Seat, message: m.Grown) -> None:
    """All ancestors know of a growth."""
    seat.grown = max(seat.grown, message.number)


def hear_detach(seat: Seat, message: m.Detach) -> None:
    """A child has another parent now; unless we adopted it again before it said so."""
    if seat.top <= message.level:
        seat.forward(message)
        return
    level = seat.levels[message.level]
    if message.seat != seat.name and level.places.get(message.seat) == message.place:
        seat.moved.append((level.box(message.seat).copy(), GRACE))
        level.remove(message.seat)
        seat.unsettled = True
