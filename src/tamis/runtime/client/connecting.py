"""`tamis.connect`: one door, with ``async with`` or with ``with``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from tamis.model.subscription import DEFAULT_NAMESPACE, SubscriptionId
from tamis.runtime.client.client import Client
from tamis.runtime.client.deliveries import ClientDelivery, ClientSubscription
from tamis.runtime.traces.contexts import current_traceparent

__all__ = ["Connecting", "SyncClient", "SyncSubscription", "connect"]

Answer = TypeVar("Answer")


def connect(url: str | Sequence[str] = "http://127.0.0.1:8080", **options: Any) -> Connecting:
    """Connect to a broker: ``async with tamis.connect(url) as client``, or plain ``with`` outside of asyncio.

    Parameters
    ----------
    url
        Where `tamis serve` said that it is; or several addresses, of a broker and its standbys, tried in turn.
    token
        What `tamis serve token add` printed; none is needed on loopback.
    client
        The name under which the broker keeps durable subscriptions and what waits for them; a random one otherwise.
    cursor_file
        Where to keep how far this client has read, so that nothing comes twice even after a crash of the client.
    replay_after
        A cursor: everything behind it comes again, as long as the broker retains it.
    timeout
        Seconds to wait for the first answer; later the client connects again by itself.
    ssl
        An `ssl.SSLContext` for brokers whose certificate the machine does not know.
    insecure
        Allow a token to be sent unencrypted to another machine. Without it such a URL is refused.
    """
    return Connecting(url, options)


class Connecting:
    """A connection that is about to be made."""

    def __init__(self, url: str | Sequence[str], options: Mapping[str, Any]) -> None:
        self._url = url
        self._options = dict(options)

    async def __aenter__(self) -> Client:
        self._client = await Client(self._url, **self._options).open()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    def __enter__(self) -> SyncClient:
        self._sync = SyncClient(self._url, self._options)
        return self._sync

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sync.close()


class SyncClient:
    """`Client` for programs without asyncio: the same calls, which block. It has a thread of its own."""

    def __init__(self, url: str | Sequence[str], options: Mapping[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tamis-client", daemon=True)
        self._thread.start()
        try:
            self._client = self._run(_opened(url, options))
        except BaseException:
            self._end()
            raise

    @property
    def cursor(self) -> str:
        """How far everything was acknowledged."""
        return self._client.cursor

    def publish(
        self,
        events: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        traceparent: str | None = None,
    ) -> None:
        """Publish an event, or several in order; returns when the broker has them on disk. See `Client.publish`."""
        parent = current_traceparent() if traceparent is None else traceparent  # the other thread has another span
        self._run(self._client.publish(events, namespace=namespace, traceparent=parent))

    def subscribe(self, filter: str | Mapping[str, Any], **options: Any) -> SyncSubscription:
        """Ask for events; see `Client.subscribe`."""
        return SyncSubscription(self, self._run(self._client.subscribe(filter, **options)))

    def subscribe_many(
        self, filters: Mapping[SubscriptionId, str | Mapping[str, Any]], **options: Any
    ) -> list[SyncSubscription]:
        """Make many subscriptions at once; see `Client.subscribe_many`."""
        subscriptions = self._run(self._client.subscribe_many(filters, **options))
        return [SyncSubscription(self, subscription) for subscription in subscriptions]

    def update(self, id: SubscriptionId, filter: str | Mapping[str, Any], **options: Any) -> None:
        """Change the filter of a subscription in one step; see `Client.update`."""
        self._run(self._client.update(id, filter, **options))

    def unsubscribe(self, id: SubscriptionId, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Ask no longer."""
        self._run(self._client.unsubscribe(id, namespace=namespace))

    def close(self) -> None:
        """End the connection."""
        self._run(self._client.close())
        self._end()

    def _run(self, call: Coroutine[Any, Any, Answer], timeout: float | None = None) -> Answer:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(timeout)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncSubscription:
    """What a subscription yields, for a plain ``for``."""

    def __init__(self, client: SyncClient, subscription: ClientSubscription) -> None:
        self._client = client
        self._subscription = subscription
        self.id = subscription.id

    def __iter__(self) -> Iterator[SyncDelivery]:
        while (delivery := self.next()) is not None:
            yield delivery

    def next(self, timeout: float | None = None) -> SyncDelivery | None:
        """Return the next delivery; None when the subscription has ended, TimeoutError when none came in time."""
        try:
            delivery = self._client._run(_next(self._subscription, timeout))
        except StopAsyncIteration:
            return None
        return None if delivery is None else SyncDelivery(delivery, self._client)

    @property
    def missed(self) -> int:
        """How many events were missed because they were read too slowly."""
        return self._subscription.missed


class SyncDelivery:
    """One event for one subscription."""

    def __init__(self, delivery: ClientDelivery, client: SyncClient) -> None:
        self._delivery = delivery
        self._client = client
        self.id = delivery.id
        self.event = delivery.event
        self.subscriptions = delivery.subscriptions

    def ack(self) -> None:
        """Say that this event was dealt with; it does not come again."""
        self._client._run(self._delivery.ack())


async def _opened(url: str | Sequence[str], options: Mapping[str, Any]) -> Client:
    return await Client(url, **options).open()


async def _next(subscription: ClientSubscription, timeout: float | None) -> ClientDelivery | None:
    async with asyncio.timeout(timeout):
        async for delivery in subscription:
            return delivery
    return None
