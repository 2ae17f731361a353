"""One message to one seat: which function handles it, and what is repaired afterwards."""

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
    m.Report: bounds.hear_report,
    m.Grown: bounds.hear_grown,
    m.Detach: bounds.hear_detach,
    m.Ping: repair.hear_ping,
    m.Pong: repair.hear_pong,
    m.Seek: repair.hear_seek,
    m.Found: repair.hear_found,
    m.Forward: dissemination.hear_forward,
    m.Receipt: dissemination.hear_receipt,
}

#: Times that a seat puts its own nodes in order at once; what is left waits for the next message.
_PASSES = 8


def handle(seat: Seat, message: m.Message) -> None:
    """Take a message that is addressed to a seat; what follows from it is in its mail."""
    try:
        _HANDLERS[type(message)](seat, message)
    except ModelError as error:
        raise RemoteProtocolError(m.peer_of(message.sender), str(error)) from None
    settle(seat)


def settle(seat: Seat) -> None:
    """Bring the own nodes in order if something has changed, and tell the parent what is new."""
    if seat.is_settled:
        return
    for _ in range(_PASSES):  # what is reinserted may come back to a node of the same seat
        reinserted = seat.settle()
        seat.refresh()
        placement.mend_sizes(seat, reinserted)
        if seat.is_settled:
            break
    seat.refresh()
    promotion.reorganise(seat)
    bounds.report(seat)
    seat.settle()
