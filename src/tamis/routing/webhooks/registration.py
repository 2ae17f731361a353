"""The webhooks of a broker: the URL of each subscription. Each change is one transaction with its audit record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from tamis.errors import LimitError, TamisError, UnknownSubscriptionError
from tamis.node import records
from tamis.node.effects import Answer, Effect, Key, Link
from tamis.routing.edge.audit import Trail, deed
from tamis.routing.edge.rights import Rights

__all__ = ["MAX_BATCH", "MAX_PARALLEL", "PutWebhook", "SigningKey", "Webhook", "Webhooks"]

#: Largest number of messages in one request, and of requests under way.
MAX_BATCH, MAX_PARALLEL = 1_000, 16


class SigningKey(msgspec.Struct, frozen=True, array_like=True):
    """A key, and the moment until which requests are signed with it, in microseconds UTC; 0: no end."""

    key: bytes
    until: int = 0

    def __repr__(self) -> str:
        return f"SigningKey(..., until={self.until})"


class Webhook(msgspec.Struct, frozen=True):
    """The endpoint of a subscription and how messages are sent to it. Its ``repr`` shows no secret."""

    #: A random name, part of the id of each request.
    name: str
    url: str
    #: The newest first; two while they are rotated.
    keys: tuple[SigningKey, ...]
    #: CloudEvents in JSON, or a CloudEvent in headers with its data as the body.
    format: Literal["structured", "binary"] = "structured"
    batch: int = 1
    parallel: int = 1
    #: Seconds for one request.
    timeout: float = 10.0
    #: Failures in a row after which it is suspended.
    max_failures: int = 20
    #: Why it is suspended; "": it is not.
    suspended: str = ""
    #: The digest of the token that it was made with: it ends with that token. "" without one.
    digest: str = ""

    def __repr__(self) -> str:
        return f"Webhook({self.name}, {self.host})"

    @property
    def host(self) -> str:
        """The host: the part of the URL that may be shown to others. Paths often contain a secret."""
        return urlsplit(self.url).hostname or ""

    def live_keys(self, moment: int) -> tuple[bytes, ...]:
        """Return the keys that requests are signed with now."""
        return tuple(
            signing_key.key for signing_key in self.keys if not signing_key.until or signing_key.until > moment
        )


@dataclass(frozen=True)
class PutWebhook:
    """Replaces the webhook of a subscription by ``after``; None: removes it. Refused unless it is ``before`` now.

    ``what`` is the kind of the audit record. The answer is whether it was replaced, or the error that prevents it.
    """

    link: Link
    what: str
    before: Webhook | None
    after: Webhook | None
    subject: str
    namespace: str
    by: Rights | None
    #: The largest number of webhooks.
    most: int = 1_000
    #: The name of the broker, which is the actor if ``by`` is None.
    broker: str = ""


class Webhooks:
    """All webhooks of a broker; ``subscriptions`` returns the namespaces in which a link has subscriptions."""

    def __init__(self, subscriptions: Callable[[Link], Collection[str]]) -> None:
        self._subscriptions = subscriptions
        self.all: dict[Link, Webhook] = {}

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Restore what an earlier life persisted."""
        for (link,), value in records.WEBHOOK.items(stored):
            self.all[link] = msgspec.msgpack.decode(value, type=Webhook)

    def handle(self, request: PutWebhook, trail: Trail, now: float) -> list[Effect]:
        """Handle one request; return all its effects, as one transaction."""
        link, webhook = request.link, request.after
        if self.all.get(link) != request.before:
            return [Answer(False)]
        if (problem := self._find_problem(request)) is not None:
            return [Answer(problem)]
        detail = "" if webhook is None else f"{webhook.host}{': ' if webhook.suspended else ''}{webhook.suspended}"
        trail.note(
            deed(
                now,
                request.by,
                request.what,
                subject=request.subject,
                namespace=request.namespace,
                detail=detail,
                broker=request.broker,
            )
        )
        if webhook is None:
            return [*self.forget(link), Answer(True)]
        self.all[link] = webhook
        return [records.WEBHOOK.put(link, value=msgspec.msgpack.encode(webhook)), Answer(True)]

    def forget(self, link: Link) -> list[Effect]:
        """Drop the webhook of a subscription that has ended."""
        return [records.WEBHOOK.drop(link)] if self.all.pop(link, None) is not None else []

    def _find_problem(self, request: PutWebhook) -> TamisError | None:
        if request.after is None:
            return None
        if not self._subscriptions(request.link):
            return UnknownSubscriptionError(request.subject)
        if request.before is None and len(self.all) >= request.most:
            return LimitError("webhooks", len(self.all) + 1, request.most)
        return None
