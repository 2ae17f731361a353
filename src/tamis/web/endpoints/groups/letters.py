"""Which subscriptions each dead letter of a client is for.

The subscriptions of a client share a queue, and its dead letters name their subscriptions in their bodies. Ten thousand
bodies may have gigabytes: each is read once, with pauses for others, and only its subscriptions are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from tamis.model.subscription import SubscriptionId
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.runtime.broker.view import StreamView
from tamis.web.work.pacing import Pace

__all__ = ["LetterBook", "Owners", "bodies_of", "owners_of"]

#: Queues of dead letters whose owners are remembered; those that were asked for last.
MAX_QUEUES = 16

#: A namespace and the ids of subscriptions in it; None: every subscription of the client.
Owners = tuple[str, tuple[SubscriptionId, ...]] | None


class LetterBook:
    """The owners of dead letters, by queue."""

    def __init__(self) -> None:
        #: ``{link: (the stream, {number: owners})}``; the stream is another one if the queue was made again.
        self._queues: OrderedDict[Link, tuple[object, dict[int, Owners]]] = OrderedDict()

    async def read(self, queue: StreamView, numbers: Sequence[int], pace: Pace) -> dict[int, Owners]:
        """Return the owners of letters that are in a queue, by number."""
        stream, remembered = self._queues.pop(queue.link, (None, dict[int, Owners]()))
        if stream is not queue.stream:
            remembered = {}
        self._queues[queue.link] = (queue.stream, remembered)
        if len(self._queues) > MAX_QUEUES:
            self._queues.popitem(last=False)
        for acknowledged in [number for number in remembered if number <= queue.acknowledged]:
            del remembered[acknowledged]
        pace.begin_small()
        owners = {number: remembered[number] for number in numbers if number in remembered}
        for number, body in bodies_of(queue, [number for number in numbers if number not in owners]):
            owners[number] = remembered[number] = owners_of(body, queue.link)
            await pace.breathe()
        return owners


def owners_of(body: bytes, link: Link) -> Owners:
    """Return the subscriptions that a message is for."""
    message = m.decode(body, link)
    return (message.event.namespace, message.subscriptions) if isinstance(message, m.Delivery) else None


def bodies_of(queue: StreamView, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield messages of a queue with their numbers, from disk; no others are read."""
    for run in _runs(sorted(numbers)):
        position = run.start - 1
        while position < run[-1] and (page := queue.read(position, run[-1] - position, run[-1])):
            yield from page
            position = page[-1][0]


def _runs(numbers: Sequence[int]) -> Iterator[range]:
    """Yield ranges of consecutive numbers.

    >>> list(_runs([1, 2, 3, 7, 8]))
    [range(1, 4), range(7, 9)]
    """
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[end - 1] + 1:
            yield range(numbers[start], numbers[end - 1] + 1)
            start = end
