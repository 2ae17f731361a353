"""Links that are added and removed while a broker runs: one step of its machine each.

A removed link takes what waits for it along. To send that over another link first, add the other link with
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

#: What a dead link has that another one may carry: all else is about the lives of its two ends.
_RESENT = m.Publish | m.PublishBatch | m.LinkGap

#: Called with how many events were sent over another link, or dropped, or with the `RefusedError`.
Done = Callable[[Any], None]


def add_link(machine: BrokerMachine, change: AddLink, by: Rights, done: Done, resend_from: Link = "") -> None:
    """Have a link; ``resend_from`` is a dead one, and what waits for it is sent over the new link, too."""

    def call(node: Node[EdgeCore], now: float) -> Transaction:
        core = node.core.broker
        if core.is_neighbour(change.link):
            return Transaction(answer=RefusedError(409, f"there is a link {change.link!r} already"))
        if change.link in core.table.leaving:
            return Transaction(answer=RefusedError(503, still_leaving(change.link)))
        if resend_from and (why := _why_not_from(machine, resend_from)):
            return Transaction(answer=why)
        if problem := core.flow.rings.why_not_new(change.link, resend_from):
            return Transaction(answer=RefusedError(409, problem))
        waiting = [one for one in node.waiting(resend_from) if isinstance(one, _RESENT)] if resend_from else []
        gaps = core.flow.gaps.of(resend_from) if resend_from else []
        added, n = replace(change, resent=tuple(waiting), gaps=tuple(gaps), dead=resend_from), _count(waiting)
        detail = f"{n:,} events of link {resend_from} are sent over it" if resend_from else ""
        whole = node.join(change.link, now)
        whole.join(node.submit(ChangeLink(added, by, detail), sender="", now=now))
        whole.answer = n
        return whole

    machine.step(call, done)


def remove_link(machine: BrokerMachine, change: RemoveLink, by: Rights, done: Done) -> None:
    """Forget a link, with what its neighbour asked for and what waits for it; its connection is closed."""

    def call(node: Node[EdgeCore], now: float) -> Transaction:
        core = node.core.broker
        if core.flow.rings.ring_of(change.link):  # it has no stream
            return node.submit(ChangeLink(change, by), sender="", now=now).join(Transaction(answer=0))
        if not core.is_neighbour(change.link):
            return Transaction(answer=RefusedError(404, f"there is no link {change.link!r}"))
        n = _count(node.waiting(change.link)) + sum(gap.count for gap in core.flow.gaps.of(change.link))
        whole = node.submit(ChangeLink(change, by, f"{n:,} events that waited are dropped"), sender="", now=now)
        whole.join(node.part(change.link, now))
        whole.answer = n
        return whole

    machine.forget(change.link, done, call)
    if change.link not in machine.node.ends and change.link in machine.connections:
        machine.connections[change.link].close("the link was removed")


def _why_not_from(machine: BrokerMachine, link: Link) -> RefusedError | None:
    if not machine.is_neighbour(link):
        return RefusedError(404, f"resend_from: there is no link {link!r}")
    if link in machine.connections:
        return RefusedError(409, f"resend_from: link {link!r} is connected; it delivers what waits by itself")
    return None


def _count(messages: Iterable[Any]) -> int:
    """Return how many events messages carry, or count as missed."""
    return sum(
        len(one.events) if isinstance(one, m.PublishBatch) else one.count if isinstance(one, m.LinkGap) else 1
        for one in messages
        if isinstance(one, _RESENT)
    )
