"""The names of links to clients: only this module builds and parses them, and counts them by principal."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tamis.errors import LimitError
from tamis.model.subscription import SubscriptionId
from tamis.node.effects import Link
from tamis.routing.edge.limits import MAX_CLIENTS_OF_PRINCIPAL

__all__ = ["ClientNames", "client_link", "client_of", "dead_letters_link", "http_link", "is_http_link", "queue_of"]


class ClientNames:
    """The clients that a broker keeps a stream for, by principal.

    >>> names = ClientNames(2)
    >>> names.add(["c:alice:laptop", "c:alice:phone", "c:bob:phone", 's:default:"alice"'])
    >>> names.demand_room("c:alice:phone"), names.demand_room("c:bob:laptop")
    (None, None)
    >>> names.demand_room("c:alice:desk")
    Traceback (most recent call last):
    tamis.errors.LimitError: clients of 'alice': 3 is more than the 2 accepted
    """

    def __init__(self, most: int = MAX_CLIENTS_OF_PRINCIPAL) -> None:
        self._most = most
        self._names: dict[str, set[str]] = {}

    def add(self, links: Iterable[Link]) -> None:
        """Add the clients among some links."""
        for principal, name in filter(None, map(client_of, links)):
            self._names.setdefault(principal, set()).add(name)

    def drop(self, link: Link) -> None:
        """Remove a client whose stream is forgotten."""
        principal, name = client_of(link) or ("", "")
        names = self._names.get(principal, set())
        names.discard(name)
        if not names:
            self._names.pop(principal, None)

    def demand_room(self, link: Link) -> None:
        """Raise `LimitError` if a client is new and its principal has as many as it may have."""
        principal, name = client_of(link) or ("", "")
        names = self._names.get(principal, set())
        if name not in names and len(names) >= self._most:
            raise LimitError(f"clients of {principal!r}", len(names) + 1, self._most)


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
