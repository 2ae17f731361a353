"""Links that are added and removed while a broker runs: one step of its machine each.

What waits for a link is removed with it. To send that over another link first, add the other link with
``resend_from``, and remove the dead one afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tamis.errors import RefusedError
from tamis.node.effects import Link
from tamis.node.node import Node, Transaction
from tamis.routing import messages as m
from tamis.routing.core.link_gaps import AddLink, RemoveLink
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.requests import ChangeLink
from tamis.routing.edge.rights import Rights
from tamis.routing.link_changes import still_leaving
from tamis.runtime.broker.machine import BrokerMachine

__all__ = ["add_link", "remove_link"]

#: Messages of a dead link that another link may carry: all others are about the lives of its two ends.
_RESENT = m.Publish | m.PublishBatch | m.LinkGap

#: Called with how many events were sent over another link, or dropped, or with the `RefusedError`.
Done = Callable[[Any], None]


def add_link(machine: BrokerMachine, change: AddLink, by: Rights, done: Done, resend_from: Link = "") -> None:
    """Add a link. What waits for the dead link ``resend_from`` is sent over the new link, too."""

    def call(node: Node[EdgeCore], now: float) -> Transaction:
        core = node.core.broker
        if core.is_neighbour(change.link):
            return Transaction(answer=RefusedError(409, f"there is a link {change.link!r} already"))
        if change.link in core.table.leaving:
            return Transaction(answer=RefusedError(503, still_leaving(change.link)))
        if resend_from and (refusal := _find_refusal(machine, resend_from)):
            return Transaction(answer=refusal)
        if problem := core.flow.rings.why_not_new(change.link, resend_from):
            return Transaction(answer=RefusedError(409, problem))
        waiting = _waiting(node, resend_from) if resend_from else []
        added, n = replace(change, resent=tuple(waiting), dead=resend_from), _count(waiting)
        detail = f"{n:,} events of link {resend_from} are sent over it" if resend_from else ""
        transaction = node.join(change.link, now)
        transaction.join(node.submit(ChangeLink(added, by, detail), sender="", now=now))
        transaction.answer = n
        return transaction

    machine.step(call, done)


def remove_link(machine: BrokerMachine, change: RemoveLink, by: Rights, done: Done) -> None:
    """Remove a link with its neighbour's subscriptions and the messages that wait for it; its connection is closed."""

    def call(node: Node[EdgeCore], now: float) -> Transaction:
        core = node.core.broker
        if core.flow.rings.ring_of(change.link):  # it has no stream
            return node.submit(ChangeLink(change, by), sender="", now=now).join(Transaction(answer=0))
        if not core.is_neighbour(change.link):
            return Transaction(answer=RefusedError(404, f"there is no link {change.link!r}"))
        n = _count(_waiting(node, change.link))
        transaction = node.submit(ChangeLink(change, by, f"{n:,} events that waited are dropped"), sender="", now=now)
        transaction.join(node.part(change.link, now))
        transaction.answer = n
        return transaction

    machine.forget(change.link, done, call)
    if change.link not in machine.node.ends and change.link in machine.connections:
        machine.connections[change.link].close("the link was removed")


def _find_refusal(machine: BrokerMachine, link: Link) -> RefusedError | None:
    """Return why messages cannot be resent from a link; None: they can."""
    if not machine.is_neighbour(link):
        return RefusedError(404, f"resend_from: there is no link {link!r}")
    if link in machine.connections:
        return RefusedError(409, f"resend_from: link {link!r} is connected; it delivers what waits by itself")
    return None


def _waiting(node: Node[EdgeCore], link: Link) -> list[Any]:
    """Return what another link may carry of what waits for a link, and its gap, which is before the overflow."""
    outbox, overflow = node.waiting(link)
    messages = [*outbox, *node.core.broker.flow.gaps.of(link), *overflow]
    return [message for message in messages if isinstance(message, _RESENT)]


def _count(messages: Iterable[Any]) -> int:
    """Return how many events the messages carry, or report as missed."""
    return sum(
        len(message.events)
        if isinstance(message, m.PublishBatch)
        else message.count
        if isinstance(message, m.LinkGap)
        else 1
        for message in messages
    )
