"""Messages that reached a reader and were not acknowledged: counted, and moved to the dead letters (promise G24).

Clients take messages in order: the first open one is what a client had when its connection ended. One that
acknowledges several at once may have failed on a later message. So a message that was counted is sent alone, for half a
minute, and only a connection that ends meanwhile makes it a dead letter. A webhook says itself which messages its
endpoint refused. Counting and moving are one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tamis.node.effects import Link
from tamis.node.node import Node, Transaction
from tamis.node.stream import CLIENT_EPOCH
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Bury, Fail, Shared
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.link_names import dead_letters_link

if TYPE_CHECKING:
    from tamis.runtime.broker.machine import BrokerMachine, Connection

__all__ = ["FailedDeliveries"]

#: Takes the place of a message that was removed meanwhile; it is decoded as a message other than a delivery.
_NO_DELIVERY = m.encode(m.Pause())


#: Seconds for which a client gets a message alone that it failed on. One that acknowledges several messages at once
#: waits for the next ones until then.
ALONE_SECONDS = 30.0


class FailedDeliveries:
    """Counts what reached readers of one broker in vain."""

    def __init__(self, machine: BrokerMachine) -> None:
        self._machine = machine
        self._is_stopping = False

    def stop(self) -> None:
        """Take note that the broker stops: readers that end now have not failed."""
        self._is_stopping = True

    def end_connection(self, connection: Connection) -> None:
        """Take note that a client has lost its connection; if the broker ended it, that says nothing of the client."""
        if connection.rights is not None and not connection.is_ended_here:
            self.end_reading(connection.link, connection.wire.written)

    def end_reading(self, link: Link, written: int) -> None:
        """Take note that a client has lost its connection, which was sent the messages up to ``written``."""
        machine = self._machine
        if machine.failure is None and not self._is_stopping and link in machine.node.ends:
            first = machine.node.core.backlogs.sharing.first_open(link)
            if first <= min(written, machine.committed(link).sent):
                self.count(link, [first], is_sure=written == first)

    def is_alone(self, connection: Connection, now: float) -> bool:
        """Whether a client gets only its first open message now, because it failed on that before."""
        sharing = self._machine.node.core.backlogs.sharing
        if not sharing.has_failed(connection.link):
            connection.alone = (0, 0.0)
            return False
        first = sharing.first_open(connection.link)
        if connection.alone[0] != first:
            connection.alone = (first, now)
        return now < connection.alone[1] + ALONE_SECONDS

    def count(
        self,
        link: Link,
        numbers: Iterable[int],
        done: Callable[[Any], None] = lambda worn: None,
        *,
        is_sure: bool = True,
    ) -> None:
        """Count messages once more; ``done`` gets the numbers of those that are dead letters now.

        Without ``is_sure`` the reader may have failed on another message: none becomes a dead letter.
        """
        limits: dict[int, list[int]] = {}
        registry = self._machine.node.core.registry
        for number in numbers:
            message = m.decode(self._body(link, number), link)
            most = registry.most_deliveries(link, message) if isinstance(message, m.Delivery) else 0
            limits.setdefault(most, []).append(number)
        limits.pop(0, None)
        if limits:
            self._machine.step(lambda node, now: self._fail(node, now, link, limits, is_sure), done)
        else:
            done(())

    def _fail(
        self, node: Node[EdgeCore], now: float, link: Link, limits: dict[int, list[int]], is_sure: bool
    ) -> Transaction:
        transaction, dead, buried = Transaction(), dead_letters_link(link), list[int]()
        for most, numbers in limits.items():
            failed = node.submit(Shared(Fail(link, tuple(numbers), most, is_sure)), sender="", now=now)
            worn = failed.answer.worn
            transaction.join(failed)
            if worn:
                letters = tuple((number, self._body(link, number)) for number in worn)
                transaction.join(node.attach([dead], now, epoch=CLIENT_EPOCH))
                moved = node.submit(Shared(Bury(link, dead, letters, most)), sender="", now=now)
                transaction.join(moved)
                for floor_link, floor in moved.answer.floors.items():
                    transaction.join(node.acknowledge(floor_link, floor, now))
                buried += worn
        transaction.answer = tuple(buried)
        return transaction

    def _body(self, link: Link, number: int) -> bytes:
        """Return a message that waits for a link, from memory or from disk."""
        body = self._machine.node.ends[link].outbox.find(number)
        if body is not None:
            return body
        messages = self._machine.read(link, number - 1, 1)
        return next((body for stored_number, body in messages if stored_number == number), _NO_DELIVERY)
