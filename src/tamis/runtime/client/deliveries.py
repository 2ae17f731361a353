"""What a client's subscription yields: deliveries to acknowledge, and gaps to know of."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from tamis.errors import RefusedError
from tamis.model.schema import Schema
from tamis.model.subscription import SubscriptionId
from tamis.node.cursor import Cursor
from tamis.routing import messages as m
from tamis.runtime.client.session import FilterChange, Reader
from tamis.runtime.event_json import payload_as_json

__all__ = ["Acknowledging", "ClientDelivery", "ClientSubscription"]


class Acknowledging(Protocol):
    """What a delivery needs of its client."""

    def schema_of(self, namespace: str) -> Schema:
        """Return the types of attributes in a namespace."""

    def acknowledge(self, reader: Reader, cursor: Cursor) -> None:
        """Take note that a reader is done with a message."""


@dataclass(frozen=True)
class ClientDelivery:
    """One event for one subscription; ``subscriptions`` are all of this client that it matches."""

    id: str
    event: dict[str, Any]
    namespace: str
    subscriptions: tuple[SubscriptionId, ...]
    cursor: Cursor
    _client: Acknowledging
    _reader: Reader

    async def ack(self) -> None:
        """Say that this event was dealt with; it does not come again."""
        self._client.acknowledge(self._reader, self.cursor)


#: In which order a subscription passes its states.
_ORDER = {state: place for place, state in enumerate(m.State)}


class ClientSubscription(Reader):
    """A standing question at a broker, and what comes of it: ``async for delivery in subscription``."""

    def __init__(self, client: Acknowledging, message: m.Subscribe) -> None:
        super().__init__(message)
        self._client = client
        self._news = asyncio.Event()
        #: Held while its filter changes: a refusal names the subscription, not the change.
        self.changing = asyncio.Lock()

    def __aiter__(self) -> ClientSubscription:
        return self

    async def __anext__(self) -> ClientDelivery:
        while not self.waiting:
            if self.error is not None:
                raise self.error
            if self.state is m.State.CANCELLED:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        cursor, delivery = self.waiting.popleft()
        id = delivery.event.id
        event = payload_as_json(delivery.event.payload, self._client.schema_of(delivery.event.namespace))
        if fields := self._fields():  # another subscription of this client may have asked for more
            event = {name: value for name, value in event.items() if name in fields}
        name = f"{id.publisher}:{id.epoch}:{id.seq}"
        return ClientDelivery(name, event, self.namespace, delivery.subscriptions, cursor, self._client, self)

    def _fields(self) -> tuple[str, ...]:
        """Return the attributes that this subscription asks for; none: all."""
        message = self.message
        named = isinstance(message, m.Subscribe) and b'"fields"' in message.about
        return m.about(message).fields if named and isinstance(message, m.Subscribe) else ()

    async def reached(self, state: m.State) -> None:
        """Wait until the subscription has come so far; raises when it cannot."""
        while _ORDER[self.state] < _ORDER[state]:
            if self.error is not None:
                raise self.error
            if self.waiting_for and state == m.State.ACTIVE:
                raise RefusedError(504, _late(self.id, self.waiting_for))
            self._news.clear()
            await self._news.wait()

    async def changed(self, change: FilterChange, state: m.State) -> None:
        """Wait until a change of the filter has come so far; raises when the broker refused it."""
        while not change.is_taken:
            if change.error is not None or self.error is not None:
                raise change.error or self.error  # type: ignore[misc]  # one of the two is there
            self._news.clear()
            await self._news.wait()
        await self.reached(state)

    def wake(self) -> None:
        """Let the reader and callers of `reached` go on."""
        self._news.set()


def _late(id: SubscriptionId, missing: tuple[str, ...]) -> str:
    names = ", ".join(map(repr, missing))
    return (
        f"subscription {id!r} is accepted and not active yet: the broker waits for {names}. It becomes active by "
        "itself; subscribe again to wait longer, or with wait='accepted' to go on at once"
    )
