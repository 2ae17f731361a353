"""Webhooks of a broker over HTTP: set, show, rotate, suspend, resume, remove, list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from tamis.runtime.client.http_calls import HttpCalls

__all__ = ["WebhookCalls"]


@dataclass(frozen=True)
class WebhookCalls:
    """Calls about the webhooks of one namespace."""

    calls: HttpCalls

    def set(self, id: str, url: str, **settings: Any) -> dict[str, Any]:
        """Have the messages of a subscription sent to a URL; the answer has the secret if the broker made it."""
        return self._call("PUT", id, "", {"url": url} | settings)

    def show(self, id: str) -> dict[str, Any]:
        """Return where messages are sent, and how that goes."""
        return self._call("GET", id)

    def rotate(self, id: str, **settings: Any) -> dict[str, Any]:
        """Sign with a new secret, and for ``overlap`` seconds with the former one, too."""
        return self._call("POST", id, "/rotate", settings, may_repeat=False)  # a second one would end the overlap

    def suspend(self, id: str) -> dict[str, Any]:
        """Send nothing until `resume` is called."""
        return self._call("POST", id, "/suspend")

    def resume(self, id: str) -> dict[str, Any]:
        """Send what waits, and continue."""
        return self._call("POST", id, "/resume")

    def remove(self, id: str) -> None:
        """Send nothing more; the subscription stays."""
        self._call("DELETE", id, may_repeat=False)

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield the webhooks that the token may see, of all namespaces."""
        after: int | None = 0
        while after is not None:
            page = msgspec.json.decode(self.calls.call("GET", "/v1/webhooks", {"after": str(after), "limit": "1000"}))
            yield from page["webhooks"]
            after = page["next"]

    def _call(
        self, method: str, id: str, action: str = "", body: dict[str, Any] | None = None, *, may_repeat: bool = True
    ) -> dict[str, Any]:
        path = f"/v1/subscriptions/{quote(id, safe='')}/webhook{action}"
        data = None if body is None else msgspec.json.encode(body)
        answer = self.calls.call(method, path, {"namespace": self.calls.namespace}, data, may_repeat=may_repeat)
        document: dict[str, Any] = msgspec.json.decode(answer) if answer else {}
        return document
