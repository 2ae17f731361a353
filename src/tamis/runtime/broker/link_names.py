"""What a broker calls the links to its clients."""

from __future__ import annotations

import msgspec

from tamis.model.subscription import SubscriptionId
from tamis.node.effects import Link

__all__ = ["http_link"]


def http_link(namespace: str, id: SubscriptionId) -> Link:
    """Return the link of a subscription that is a client of its own, as those made over HTTP are.

    >>> http_link("default", "alice")
    's:default:"alice"'
    """
    return f"s:{namespace}:{msgspec.json.encode(id).decode()}"
