"""What a neighbour sends, taken frame by frame; others are served in between (promise S26).

Filters in a message of a neighbour are compiled before the step that takes it, in a thread if they are many or long:
the step finds them in the cache. A message whose filters are costly to enter into the routing table enters it in slices
(`tamis.routing.early_entries`), one per turn of the event loop. Linked brokers have a configured schema, so all
namespaces read filters alike. A neighbour's next message is read when this one is
taken, so each link has one thread at most, and its messages keep their order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tamis.errors import RemoteProtocolError
from tamis.node.content import Content, adopt, alternatives_of, copy_apart, make_room, unread
from tamis.node.effects import Link
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.routing import messages as m
from tamis.routing.early_entries import slices_of, weight_of
from tamis.routing.edge.limits import LONG_FILTER
from tamis.routing.neighbour_checks import check_message
from tamis.runtime.broker.beside import run_beside
from tamis.runtime.broker.machine import BrokerMachine, Connection
from tamis.runtime.packets import join_frames

if TYPE_CHECKING:
    from tamis.runtime.broker.driver import Driver

__all__ = ["early_steps", "take_frame"]

#: Filters that are read before the others are tried as columns: those of equal shape are not compiled one by one.
FIRST = 4

#: Filters, and their bytes, whose shapes are compared in one turn of the event loop.
COMPARED, COMPARED_BYTES = 256, 128 * 1024

#: The tags of messages that have filters: the second byte of a message.
_ANNOUNCING = frozenset(m.encode(message)[1:2] for message in (m.Update(1), m.TablePart(1, 0)))


async def take_frame(
    driver: Driver, connection: Connection, data: bytes, breathe: Callable[[], Awaitable[None]]
) -> None:
    """Take one frame of a neighbour; ``breathe`` lets others run. `RemoteProtocolError`: the wire must be cut."""
    if len(data) > LONG_FILTER:
        await _compile(driver, data, connection.link, breathe)
        for step in early_steps(driver.machine, connection, data):
            driver.demand_room()
            step()
            await breathe()
    if not connection.closed:
        driver.receive(connection, join_frames([data]))


def early_steps(machine: BrokerMachine, connection: Connection, data: bytes) -> Iterator[Callable[[], None]]:
    """Yield the steps to take before a frame of a neighbour, if its message is costly. Others may come in between.

    The frame is first received without its message: what it acknowledges, and a new life of the neighbour, come first.
    """
    link = connection.link
    message = _announced(data, link)
    if message is None:
        return
    frame = decode_frame(data, link)
    core = machine.node.core
    broker, content = core.broker, core.checks.content
    held, is_announced = broker.table.interests(link), any(other != link for other in broker.flow.neighbours)

    def weight_in(namespace: str, document: bytes) -> int:
        space = content.spaces.get(namespace, content)
        return weight_of(document, alternatives_of(space, document), is_announced=is_announced)

    def weight(entry: m.Entry) -> int:
        former, own_weight = held.get(entry.key), weight_in(entry.namespace, entry.filter)
        return own_weight if former is None else own_weight + weight_in(former.namespace, former.document)

    slices = list(slices_of(message, weight))
    if slices:
        bare = join_frames([encode_frame(Frame(frame.epoch, frame.to, 0, frame.ack))])
        yield lambda: machine.receive(connection, bare)
    for early in slices:
        if connection.closed or not machine.is_neighbour(link) or not machine.node.ends[link].is_next(frame):
            return
        yield lambda early=early: machine.submit(early, link)  # type: ignore[misc]


def _announced(data: bytes, link: Link) -> m.Update | m.TablePart | None:
    """Return the message of a frame if it has entries."""
    body = decode_frame(data, link).body
    message = m.decode(body, link) if body[1:2] in _ANNOUNCING else None
    return message if isinstance(message, m.Update | m.TablePart) else None


async def _compile(driver: Driver, data: bytes, link: Link, breathe: Callable[[], Awaitable[None]]) -> None:
    """Compile the filters of a frame, and those that they replace; raise `RemoteProtocolError` for a wrong one."""
    message = _announced(data, link)
    if message is None:
        return
    check_message(message, link, driver.view.name)
    content = driver.view.checks.content
    held = driver.machine.node.core.broker.table.interests(link)
    keys = {entry.filter: entry.key for entry in reversed(message.announce)}
    for entry in message.announce:
        if entry.key in held:
            keys.setdefault(held[entry.key].document, entry.key)
    documents = list(keys)
    make_room(content, documents)
    for group in _groups(documents):
        try:
            await _compile_group(content, group, breathe)
        except _WrongFilterError as wrong:
            raise RemoteProtocolError(link, f"entry {keys[wrong.document]!r}: {wrong.__cause__}") from None


class _WrongFilterError(Exception):
    """A document is not a filter; the cause says why."""

    def __init__(self, document: bytes) -> None:
        super().__init__()
        self.document = document


async def _compile_group(content: Content, documents: Sequence[bytes], breathe: Callable[[], Awaitable[None]]) -> None:
    """Compile some documents; of those that are alike only the first ones."""
    count = FIRST
    while documents := unread(content, documents):
        first, documents = documents[:count], documents[count:]
        if len(first) == 1 and len(first[0]) <= LONG_FILTER:
            _read_all(content, first)
        else:
            apart = copy_apart(content)
            await run_beside(lambda apart=apart, first=first: _read_all(apart, first))  # type: ignore[misc]
            adopt(content, apart)
        await breathe()
        count *= FIRST


def _read_all(content: Content, documents: Sequence[bytes]) -> None:
    for document in documents:
        try:
            content.read_filter(document)
        except Exception as error:  # whatever it is, this document is at fault
            raise _WrongFilterError(document) from error


def _groups(documents: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield documents in groups whose shapes are compared in a few milliseconds."""
    start = size = 0
    for n, document in enumerate(documents):
        size += len(document)
        if n > start and (n - start == COMPARED or size > COMPARED_BYTES):
            yield documents[start:n]
            start, size = n, len(document)
    if start < len(documents):
        yield documents[start:]
