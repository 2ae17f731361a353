"""The names of links to clients: only this module builds and parses them."""

from __future__ import annotations

import msgspec

from tamis.model.subscription import SubscriptionId
from tamis.node.effects import Link

__all__ = ["client_link", "client_of", "dead_letters_link", "http_link", "is_http_link", "queue_of"]


def client_link(principal: str, client: str) -> Link:
    """Return the link of a client that connects by name.

    >>> client_link("alice", "laptop")
    'c:alice:laptop'
    """
    return f"c:{principal}:{client}"


def client_of(link: Link) -> tuple[str, str] | None:
    """Return the principal and the name of the client behind a link; None for a link of another kind.

    >>> client_of("c:alice:lap:top"), client_of('s:default:"strong"')
    (('alice', 'lap:top'), None)
    """
    kind, _, name = link.partition(":")
    principal, _, client = name.partition(":")
    return (principal, client) if kind == "c" else None


def http_link(namespace: str, id: SubscriptionId) -> Link:
    """Return the link of a subscription that is a client of its own, as those made over HTTP are.

    >>> http_link("default", "alice")
    's:default:"alice"'
    """
    return f"s:{namespace}:{msgspec.json.encode(id).decode()}"


def is_http_link(link: Link) -> bool:
    """Whether a link is that of a subscription that is a client of its own.

    >>> is_http_link('s:default:"alice"'), is_http_link("c:alice:laptop")
    (True, False)
    """
    return link.startswith("s:")


def dead_letters_link(link: Link) -> Link:
    """Return the link that keeps the dead letters of a subscription.

    >>> dead_letters_link('s:default:"alice"')
    'd:s:default:"alice"'
    """
    return f"d:{link}"


def queue_of(link: Link) -> Link:
    """Return the link whose dead letters a link keeps; any other link itself.

    >>> queue_of('d:s:default:"alice"'), queue_of("c:alice:laptop")
    ('s:default:"alice"', 'c:alice:laptop')
    """
    return link.removeprefix("d:") if link.startswith(("d:s:", "d:c:")) else link
