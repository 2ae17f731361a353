"""`tamis.consume`: read one subscription together with other programs, each message by one of them; over HTTP."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from tamis.errors import ModelError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.runtime.client.http_calls import HttpCalls

__all__ = ["Consumer", "SharedDelivery", "consume"]

#: Seconds that one request waits for a message.
WAIT = 15.0


def consume(
    url: str | Sequence[str],
    id: str,
    *,
    consumer: str,
    token: str = "",
    namespace: str = DEFAULT_NAMESPACE,
    seconds: float = 30.0,
    batch: int = 16,
    insecure: bool = False,
) -> Consumer:
    """Read a durable subscription together with other consumers: ``for delivery in tamis.consume(url, "strong", ...)``.

    Parameters
    ----------
    url, id
        The broker and the subscription, which was made over HTTP or by `tamis apply`. Several addresses are those of
        the broker and its standbys.
    consumer
        The name of this program; each program of the group has another one.
    seconds
        How long a message belongs to this consumer. One that is not acknowledged by then goes to another.
    batch
        How many messages are taken at once; all of them must be dealt with within ``seconds``.
    """
    if not consumer:
        raise ModelError("consumer: a name that no other program of the group has")
    calls = HttpCalls(url, token, namespace, insecure=insecure)
    return Consumer(calls, id, consumer, seconds, batch)


@dataclass(frozen=True)
class SharedDelivery:
    """A message that belongs to one consumer for a while; ``deliveries`` says how often it was taken."""

    id: str
    event: dict[str, Any]
    deliveries: int
    cursor: str
    _consumer: Consumer = field(repr=False)

    def ack(self) -> bool:
        """Say that the event was dealt with; returns False if its time was over and another consumer has it."""
        return self._consumer.settle(acknowledge=[self.cursor]) == []

    def release(self) -> bool:
        """Give the event back at once; returns False if another consumer has it already."""
        return self._consumer.settle(release=[self.cursor]) == []


@dataclass(frozen=True)
class Consumer:
    """One of the programs that share a subscription; iterate over it, and acknowledge each delivery."""

    calls: HttpCalls
    id: str
    name: str
    seconds: float = 30.0
    batch: int = 16

    def __iter__(self) -> Iterator[SharedDelivery]:
        while True:
            start = time.monotonic()
            for delivery in self.take(wait=WAIT):
                if time.monotonic() - start > self.seconds + WAIT:  # the rest of the batch belongs to others by now
                    break
                yield delivery

    def take(self, *, wait: float = 0.0) -> list[SharedDelivery]:
        """Return messages that no other consumer holds; waits up to ``wait`` seconds for the first."""
        request = {"consumer": self.name, "limit": self.batch, "seconds": self.seconds, "wait": wait}
        request["request_id"] = secrets.token_hex(16)  # the call is repeated when its answer is lost
        messages = self._post("take", request, wait)["messages"]
        if gaps := [message["cursor"] for message in messages if "gap" in message]:  # a gap has no event to deal with
            self.settle(acknowledge=gaps)
        return [
            SharedDelivery(message["id"], message["event"], message["deliveries"], message["cursor"], self)
            for message in messages
            if "gap" not in message
        ]

    def settle(self, *, acknowledge: list[str] | None = None, release: list[str] | None = None) -> list[str]:
        """Acknowledge messages by their cursors, or give them back; returns those that another consumer has."""
        request = {"consumer": self.name, "acknowledge": acknowledge or [], "release": release or []}
        late: list[str] = self._post("settle", request)["late"]
        return late

    def dead_letters(self, *, after: str = "", limit: int = 256) -> dict[str, Any]:
        """Return a page of the messages that were taken too often: ``letters``, ``next``, ``count``."""
        query = {"namespace": self.calls.namespace, "limit": str(limit)} | ({"after": after} if after else {})
        page: dict[str, Any] = msgspec.json.decode(self.calls.call("GET", self._path("dead"), query))
        return page

    def replay(self, *, cursors: list[str] | None = None, upto: str | None = None) -> int:
        """Put dead letters back into the queue, some or all up to a cursor; returns how many."""
        return int(self._post("dead/replay", _chosen(cursors, upto))["replayed"])

    def drop(self, *, cursors: list[str] | None = None, upto: str | None = None) -> int:
        """Forget dead letters, some or all up to a cursor; returns how many."""
        return int(self._post("dead/drop", _chosen(cursors, upto))["dropped"])

    def _path(self, action: str) -> str:
        return f"/v1/subscriptions/{quote(self.id, safe='')}/{action}"

    def _post(self, action: str, body: Any, wait: float = 0.0) -> Any:
        query, content = {"namespace": self.calls.namespace}, msgspec.json.encode(body)
        return msgspec.json.decode(self.calls.call("POST", self._path(action), query, content, wait=wait))


def _chosen(cursors: list[str] | None, upto: str | None) -> dict[str, Any]:
    return {"cursors": cursors} if upto is None else {"upto": upto}
