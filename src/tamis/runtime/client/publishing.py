"""What a client publishes, until it is known what became of it: on the broker's disk, refused, or given up.

The events of one call have one outcome. A message is confirmed by its number on the link; a refusal names its event and
comes before the confirmation of its message, again on every new connection for as long as it could have been missed
(`tamis.routing.edge.refusals`). So an event whose message is confirmed and that was not refused is accepted.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tamis.errors import TamisError
from tamis.routing import messages as m
from tamis.runtime.client.client_link import Outgoing

__all__ = ["BATCH_BYTES", "BATCH_EVENTS", "Publishing"]

#: Events and bytes of one message.
BATCH_EVENTS, BATCH_BYTES = 256, 512 * 1024


@dataclass(eq=False)
class _Call:
    """One call of `publish`: how many of its events are open, and what to call with the first error or None."""

    left: int
    done: Callable[[TamisError | None], None]
    error: TamisError | None = None
    #: The span that publishes the events.
    traceparent: str = ""

    def close_one(self, error: TamisError | None = None) -> None:
        """Take note of what became of one event; the first error is the call's."""
        self.error = self.error or error
        self.left -= 1
        if not self.left:
            self.done(self.error)


class Publishing:
    """The events that a client has published and knows nothing of yet, by number."""

    def __init__(self, epoch: int) -> None:
        #: The life of this publisher; its events count from 1.
        self.epoch = epoch
        self._numbers = itertools.count(1)
        #: Not in a message yet, in order.
        self._waiting: deque[m.Published] = deque()
        #: ``{number: call}``: exactly the events that are neither confirmed nor refused.
        self._open: dict[int, _Call] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(
        self,
        namespace: str,
        payloads: Sequence[bytes],
        done: Callable[[TamisError | None], None],
        traceparent: str = "",
    ) -> list[m.EventId]:
        """Queue the events of one call; ``done`` is called when all of them are confirmed or refused."""
        call = _Call(len(payloads), done, traceparent=traceparent)
        ids: list[m.EventId] = []
        for payload in payloads:
            number = next(self._numbers)
            self._open[number] = call
            ids.append(m.EventId("", self.epoch, number))
            self._waiting.append(m.Published(ids[-1], namespace, payload))
        if not payloads:
            done(None)
        return ids

    def pack(self) -> Outgoing | None:
        """Return a message with the next events that wait; None when none do."""
        batch: list[m.Published] = []
        size = 0
        while self._waiting and len(batch) < BATCH_EVENTS:
            size += len(self._waiting[0].payload)
            if batch and size > BATCH_BYTES:
                break
            batch.append(self._waiting.popleft())
        if not batch:
            return None
        numbers = range(batch[0].id.seq, batch[-1].id.seq + 1)
        return Outgoing(m.encode(m.PublishBatch(tuple(batch))), partial(self._confirm, numbers), self._origins(numbers))

    def refuse(self, event: m.EventId, error: TamisError) -> None:
        """Take note that an event was refused; one of a former life, or known already, says nothing."""
        call = self._open.pop(event.seq, None) if event.epoch == self.epoch else None
        if call is not None:
            call.close_one(error)

    def give_up(self, error: TamisError) -> None:
        """Let every open call end with an error."""
        calls, self._open = list(self._open.values()), {}
        for call in calls:
            call.close_one(error)

    def _origins(self, numbers: range) -> bytes:
        """Return the word that names the spans which publish events; empty when none are traced."""
        spans: list[tuple[int, int, str]] = []
        former: _Call | None = None
        for number in numbers:
            call = self._open.get(number)
            if call is not None and call.traceparent:
                first, count, _ = spans.pop() if call is former else (number, 0, "")
                spans.append((first, count + 1, call.traceparent))
            former = call
        return m.encode(m.Origins(self.epoch, tuple(spans))) if spans else b""

    def _confirm(self, numbers: range) -> None:
        for number in numbers:
            call = self._open.pop(number, None)
            if call is not None:
                call.close_one()
