"""Dispatches a message to the function that handles it, and repairs the seat afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tamis.errors import ModelError, RemoteProtocolError
from tamis.overlay import messages as m
from tamis.overlay.protocol import bounds, dissemination, placement, promotion, repair
from tamis.overlay.seat import Seat

__all__ = ["handle", "settle"]

_HANDLERS: dict[type, Callable[[Seat, Any], None]] = {
    m.Insert: placement.hear_insert,
    m.Adopt: placement.hear_adopt,
    m.Adopted: placement.hear_adopted,
    m.TakeOver: promotion.hear_take_over,
    m.Owner: promotion.hear_owner,
    m.Replace: promotion.hear_replace,
    m.MbrReport: bounds.hear_report,
    m.Grown: bounds.hear_grown,
    m.Detach: bounds.hear_detach,
    m.Ping: repair.hear_ping,
    m.Pong: repair.hear_pong,
    m.Seek: repair.hear_seek,
    m.Invite: repair.hear_invite,
    m.Forward: dissemination.hear_forward,
    m.Receipt: dissemination.hear_receipt,
}

#: How often a seat repairs its own nodes for one message; the rest waits for the next message.
_PASSES = 8


def handle(seat: Seat, message: m.SeatMessage) -> None:
    """Handle a message to a seat; the resulting messages are in its mail."""
    try:
        _HANDLERS[type(message)](seat, message)
    except ModelError as error:
        raise RemoteProtocolError(m.peer_of(message.sender), str(error)) from None
    settle(seat)


def settle(seat: Seat) -> None:
    """Repair the seat's own nodes if something has changed, and report changes to the parent."""
    if seat.is_settled:
        return
    for _ in range(_PASSES):  # a reinserted node may come back to a node of the same seat
        reinserted = seat.settle()
        seat.refresh()
        placement.mend_sizes(seat, reinserted)
        if seat.is_settled:
            break
    seat.refresh()
    promotion.reorganise(seat)
    bounds.report(seat)
    seat.settle()
