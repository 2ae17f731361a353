"""How messages are published at a broker: numbered ones exactly once, others at least once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tamis.errors import ConnectionLostError, RefusedError
from tamis.runtime.bridges.content import event_of_message
from tamis.runtime.bridges.lanes import Lane, halved, producer_of
from tamis.runtime.bridges.plan import BridgePlan
from tamis.runtime.bridges.system import IncomingMessage, Outcome, System, is_for_good, is_temporary
from tamis.runtime.client.http_calls import HttpCalls

__all__ = ["Intake", "NumberedIntake", "PlainIntake", "Publisher", "Repeated", "Stale"]

#: Seconds for which one call tries a broker that does not answer; afterwards the batch counts as refused for now.
PATIENCE = 20.0

#: Bytes of events in one request.
REQUEST_BYTES = 4 << 20


class Stale(Exception):
    """A message was read before its lane was rewound, and will be read again: it is dropped and not acknowledged."""


class Repeated(Exception):
    """The broker has this message already: it is acknowledged and not published."""


class Publisher(Protocol):
    """What `PlainIntake` needs of a client."""

    async def publish(self, event: Mapping[str, Any], /, *, namespace: str) -> None:
        """Publish an event; returns when the broker has it on disk."""


class Intake(Protocol):
    """Publishes messages."""

    async def publish(self, messages: Sequence[IncomingMessage]) -> list[Outcome]:
        """Publish messages; return the outcome of each."""


class PlainIntake:
    """Publishes messages without numbers through a client, each by itself."""

    def __init__(self, plan: BridgePlan, attribute: str, client: Publisher) -> None:
        self._namespace = plan.namespace
        self._attribute = attribute
        self._client = client

    async def publish(self, messages: Sequence[IncomingMessage]) -> list[Outcome]:
        """Publish messages together, in order; each has an outcome of its own."""
        return list(await asyncio.gather(*map(self._publish, messages), return_exceptions=True))

    async def _publish(self, message: IncomingMessage) -> None:
        event = event_of_message(message.source, message.payload, self._attribute)
        await self._client.publish(event, namespace=self._namespace)


class NumberedIntake:
    """Publishes numbered messages in batches that the broker takes once."""

    def __init__(self, plan: BridgePlan, system: System) -> None:
        self._calls = HttpCalls(plan.broker, plan.token or "", plan.namespace, PATIENCE, plan.insecure)
        self._name = plan.name
        self._system = system
        self._lanes: dict[str, Lane] = {}

    def find(self, lane: str, default: Callable[[], int]) -> int:
        """Return the number behind which a lane is to be read: the broker's, or the default of the system."""
        taken = self._calls.find_number(self._producer(lane))
        self._lanes[lane] = Lane(taken, default() if taken is None else taken)
        return self._lanes[lane].seen

    async def publish(self, messages: Sequence[IncomingMessage]) -> list[Outcome]:
        """Publish messages of any lanes; lanes do not wait for each other."""
        by_lane: dict[str, list[IncomingMessage]] = {}
        for message in messages:
            by_lane.setdefault(message.lane, []).append(message)
        parts = await asyncio.gather(*(self._publish_lane(lane, part) for lane, part in by_lane.items()))
        outcomes = {id(message): outcome for part in parts for message, outcome in part}
        return [outcomes[id(message)] for message in messages]

    async def _publish_lane(self, name: str, messages: list[IncomingMessage]) -> list[tuple[IncomingMessage, Outcome]]:
        """Publish messages of one lane in order, up to the first that is refused for now."""
        lane = self._lanes[name]
        chain = lane.following(messages)
        chained = set(map(id, chain))
        outcomes: list[tuple[IncomingMessage, Outcome]] = [
            (message, Stale()) for message in messages if id(message) not in chained
        ]
        old = [message for message in chain if lane.is_repeated(message)]
        outcomes += [(message, Repeated()) for message in old]
        lane.seen = old[-1].number if old else lane.seen
        stack: list[Sequence[IncomingMessage]] = [chain[len(old) :]] if len(chain) > len(old) else []
        while stack:
            part = stack.pop()
            problem = await self._post(name, lane, part)
            if problem is not None and len(part) > 1 and is_for_good(problem):
                stack += halved(part)
                continue
            outcomes += [(message, problem) for message in part]
            if problem is not None and not is_for_good(problem):
                return outcomes + [(message, problem) for rest in reversed(stack) for message in rest]
            lane.seen = part[-1].number
        return outcomes

    async def _post(self, name: str, lane: Lane, part: Sequence[IncomingMessage]) -> Outcome:
        """Publish some messages as one batch; return None, or why the broker took none of them."""
        try:
            attribute = self._system.attribute
            events = (event_of_message(message.source, message.payload, attribute) for message in part)
            lines = [msgspec.json.encode(event) for event in events]
            if len(part) > 1 and sum(map(len, lines)) > REQUEST_BYTES:
                return RefusedError(413, "more bytes than one request should have")  # the halves are smaller
            await asyncio.to_thread(self._call, name, lane, b"\n".join(lines), part[-1].number)
        except RefusedError as error:
            return await self._out_of_step(name) if error.code == 409 else error
        except ConnectionLostError as error:
            return RefusedError(503, str(error))
        except Exception as error:
            if is_for_good(error) or is_temporary(error):
                return error
            raise
        lane.taken = part[-1].number
        return None

    def _call(self, name: str, lane: Lane, body: bytes, number: int) -> None:
        self._calls.publish_once(body, producer=self._producer(name), number=number, after=lane.taken)

    async def _out_of_step(self, name: str) -> Outcome:
        """Rewind the lane to the last number that the broker has."""
        seen = self._lanes[name].seen
        number = await asyncio.to_thread(self.find, name, lambda: seen)
        await self._system.rewind(name, number)
        return Stale()

    def _producer(self, lane: str) -> str:
        return producer_of(self._system.kind, self._name, lane)
