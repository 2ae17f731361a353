"""MBRs that follow their children: growth is told at once, shrinking when all who leave are gone."""

from __future__ import annotations

import numpy as np

from tamis.overlay import messages as m
from tamis.overlay.level import Level
from tamis.overlay.measures import contains
from tamis.overlay.seat import Seat
from tamis.overlay.space import Box

__all__ = ["change_box", "hear_detach", "hear_grown", "hear_report", "note_box", "report"]


def change_box(seat: Seat, box: Box) -> int:
    """Let a seat ask for something else; return the number of the growth, which `Seat.grown` will reach."""
    seat.box = np.array(box)
    seat.growing += 1
    seat.unsettled, seat.origin = True, (seat.name, seat.growing)
    return seat.growing


def report(seat: Seat) -> None:
    """Tell the parent of the own MBR if it is news; whoever waits for a growth hears when it ends here."""
    box, origin = seat.mbr(seat.top), seat.origin
    seat.origin = ("", 0)
    news = seat.parent is not None and (seat.known is None or not np.array_equal(box, seat.known))
    if news and seat.known is not None and contains(seat.known, box):
        news = not any(level.leaving for level in seat.levels)  # shrinking waits until all who leave are gone
    if news and seat.parent is not None:
        seat.known = box.copy()
        seat.send(m.Report(seat.parent, seat.name, 0, seat.top, box.tobytes(), seat.received, *origin))
    elif origin[0] == seat.name:
        seat.grown = max(seat.grown, origin[1])
    elif origin[0]:
        seat.send(m.Grown(origin[0], seat.name, 0, origin[1]))


def note_box(level: Level, name: str, box: Box, received: int) -> None:
    """Note a child's MBR: as it says, or at least that, if inserts are still on their way to it."""
    row = level.names.index(name)
    if received < level.passed[name]:
        level.grow(row, box)
    else:
        level.boxes[row] = box
    level.silent[name] = 0


def hear_report(seat: Seat, message: m.Report) -> None:
    """A child's MBR has changed."""
    if seat.top <= message.level:
        seat.forward(message)
        return
    level = seat.levels[message.level]
    if message.sender in level and message.sender != seat.name:
        note_box(level, message.sender, seat.space.read(message.box), message.received)
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
        level.remove(message.seat)
        seat.unsettled = True
