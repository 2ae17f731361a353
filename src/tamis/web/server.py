"""The object that all endpoints share: the driver of the broker, access, queues; and events as JSON."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from starlette.requests import HTTPConnection

from tamis.routing import messages as m
from tamis.routing.edge.audit import deed
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.view import BrokerView
from tamis.runtime.webhooks.delivering import Deliveries
from tamis.web.access import Access, address_of
from tamis.web.covering import CoverFinder
from tamis.web.endpoints.groups.letters import LetterBook
from tamis.web.intake import BodyIntake
from tamis.web.views import View
from tamis.web.visitors import Visitors
from tamis.web.work.fair_queue import FairQueue
from tamis.web.work.pacing import Pace, Shares
from tamis.web.work.pool import Pool

__all__ = ["Server", "event_id", "server_of", "shown_event"]


#: Searches for the readers of an event that run at the same time, each of another principal.
MOST_SEARCHES = 8

#: Bytes of events, and of filters, that a worker process is given.
MAX_TO_WORKER = 16 * 1024 * 1024

Thing = TypeVar("Thing")


@dataclass
class Server:
    """One broker behind one port."""

    config: BrokerConfig
    driver: Driver
    access: Access

    def __post_init__(self) -> None:
        self.covering = CoverFinder(self.driver.view)
        self.visitors = Visitors(self.access)
        self.intake = BodyIntake()
        self.pool = Pool()
        self.shares = Shares()
        self.webhooks = Deliveries(self.driver, self.config.webhooks, self.access.may_go_on)
        #: Searches for the readers of an event, in threads.
        self.searches = FairQueue(MOST_SEARCHES)
        self.links = self.driver.links
        self.letters = LetterBook()

    def rights(self, connection: HTTPConnection) -> Rights:
        """Return the rights of a client; an endpoint that shows something asks for a `view` instead."""
        return self.access.rights(connection)

    def view(self, connection: HTTPConnection) -> View:
        """Return what a client may see; `RefusedError` for one that may only publish."""
        return View(self.driver.view, self.access.rights(connection))

    def pace(self, principal: str, *, is_neighbour: bool = False) -> Pace:
        """Return a `Pace`, which lets others run while a long computation for a principal goes on."""
        return Pace(self.shares, principal, is_neighbour=is_neighbour)

    def note_refusal(self, connection: HTTPConnection, subject: str, reason: str) -> None:
        """Note a refused request in the audit; a client without a valid token is a ``stranger``."""
        by = getattr(connection.state, "rights", None) or Rights("stranger", address=address_of(connection))
        namespace = connection.query_params.get("namespace", "")
        self.driver.note(deed(time.time(), by, "refuse", subject=subject, namespace=namespace, detail=reason))

    def content_for_worker(self, namespace: str) -> dict[str, Any]:
        """Return what a worker process must know to read filters and events of a namespace as this broker does."""
        return {"schema": self.broker.schema_of(namespace).to_json(), "learns": self.broker.learns}

    def recent_payloads(self, events: Sequence[m.Published]) -> list[bytes]:
        """Return the payloads of the newest of some events, in their order: at most `MAX_TO_WORKER` bytes."""
        return [event.payload for event in self.newest_for_worker(events, lambda event: len(event.payload))]

    def newest_for_worker(self, things: Sequence[Thing], size: Callable[[Thing], int]) -> Sequence[Thing]:
        """Return the newest of some things, which come last: at most `MAX_TO_WORKER` bytes."""
        sizes = itertools.accumulate(map(size, reversed(things)))
        count = sum(1 for total in sizes if total <= MAX_TO_WORKER)
        return things[len(things) - count :]

    @property
    def broker(self) -> BrokerView:
        """What may be read of the broker."""
        return self.driver.view


def shown_event(server: Server, at: float, published: m.Published) -> dict[str, Any]:
    """Return an event that came by, with the moment in microseconds."""
    return {
        "id": event_id(published.id),
        "namespace": published.namespace,
        "at": round(at * 1e6),
        "event": server.broker.event_as_json(published),
    }


def server_of(connection: HTTPConnection) -> Server:
    """Return the server that a request came to."""
    return cast("Server", connection.app.state.server)


def event_id(id: m.EventId) -> str:
    """Return the id of an event as text.

    >>> event_id(m.EventId("c:local:alice", 7, 12))
    'c:local:alice:7:12'
    """
    return f"{id.publisher}:{id.epoch}:{id.seq}"
