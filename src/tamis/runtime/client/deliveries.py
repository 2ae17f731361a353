"""What a client's subscription yields: deliveries to acknowledge, and gaps to know of."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from tamis.errors import RefusedError
from tamis.model.schema import Schema
from tamis.model.subscription import SubscriptionId
from tamis.routing import messages as m
from tamis.runtime.event_json import payload_as_json

__all__ = ["ClientSubscription", "Delivery", "Missed"]


class _Acknowledging(Protocol):
    schema: Schema

    def acknowledge(self, number: int) -> None:
        """Take note that one reader is done with a message."""


@dataclass(frozen=True)
class Delivery:
    """One event for one subscription; ``subscriptions`` are all of this client that it matches."""

    id: str
    event: dict[str, Any]
    namespace: str
    subscriptions: tuple[SubscriptionId, ...]
    cursor: int
    _client: _Acknowledging

    async def ack(self) -> None:
        """Say that this event was dealt with; it does not come again."""
        self._client.acknowledge(self.cursor)


@dataclass(frozen=True)
class Missed:
    """The client read too slowly: ``count`` events, from ``first`` on, were not kept for it."""

    count: int
    first: m.EventId


#: In which order a subscription passes its states.
_ORDER = {state: place for place, state in enumerate(m.State)}


class ClientSubscription:
    """A standing question at a broker, and what comes of it: ``async for delivery in subscription``."""

    def __init__(self, client: _Acknowledging, message: m.Subscribe) -> None:
        #: What to tell a broker that may not know of it.
        self.message: m.Subscribe | m.Unsubscribe = message
        self.id = message.id
        self.namespace = message.namespace
        self.is_durable = m.about(message).durable
        self.state = m.State.PENDING
        #: The neighbours of the broker that have not confirmed it for long; empty once it is active.
        self.waiting_for: tuple[str, ...] = ()
        #: How many events were missed because they were read too slowly.
        self.missed = 0
        self._client = client
        self._waiting: deque[tuple[int, m.Delivery]] = deque()
        self._news = asyncio.Event()
        self._error: BaseException | None = None

    def __aiter__(self) -> ClientSubscription:
        return self

    async def __anext__(self) -> Delivery:
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self.state is m.State.CANCELLED:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        number, found = self._waiting.popleft()
        id = found.event.id
        event = payload_as_json(found.event.payload, self._client.schema)
        name = f"{id.publisher}:{id.epoch}:{id.seq}"
        return Delivery(name, event, self.namespace, found.subscriptions, number, self._client)

    async def reached(self, state: m.State) -> None:
        """Wait until the subscription has come so far; raises when it cannot."""
        while _ORDER[self.state] < _ORDER[state]:
            if self._error is not None:
                raise self._error
            if self.waiting_for and state == m.State.ACTIVE:
                raise RefusedError(504, _late(self.id, self.waiting_for))
            self._news.clear()
            await self._news.wait()

    # For the client

    @property
    def is_open(self) -> bool:
        """Whether a new connection must say it again: what was answered may be lost with the old one."""
        return isinstance(self.message, m.Unsubscribe) or not self.is_durable or self.state is not m.State.ACTIVE

    def end(self) -> m.Unsubscribe:
        """Ask no longer; return what to tell the broker."""
        self.message = m.Unsubscribe(self.id, self.namespace)
        return self.message

    def deliver(self, number: int, delivery: m.Delivery) -> None:
        """Queue a delivery for the reader."""
        self._waiting.append((number, delivery))
        self._news.set()

    def put(self, missed: Missed) -> None:
        """Take note of a gap."""
        self.missed += missed.count
        self._news.set()

    def came_to(self, state: m.State) -> None:
        """Take note of a new state."""
        self.state = state
        self.waiting_for = ()
        self._news.set()

    def delay(self, missing: tuple[str, ...]) -> None:
        """Take note of the neighbours that keep it from being active."""
        self.waiting_for = missing
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """Let the reader and whoever waits end with an error."""
        self._error = error
        self._news.set()


def _late(id: SubscriptionId, missing: tuple[str, ...]) -> str:
    names = ", ".join(map(repr, missing))
    return (
        f"subscription {id!r} is accepted and not active yet: the broker waits for {names}. It becomes active by "
        "itself; subscribe again to wait longer, or with wait='accepted' to go on at once"
    )
