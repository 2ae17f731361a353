"""A bridge that runs: messages in as events, matches out as messages.

In: a message is acknowledged when the broker has it on disk, or when it can never be an event (400, 413): it is not
JSON, unfit or too large. Those go to the dead letters. What the broker refuses for now (5xx: a link or a disk is full)
is published again with growing pauses, and nothing more is read meanwhile, so messages wait in the system that keeps
them. A bridge that has no right to publish (401, 403: its token was revoked) stops with an error.

Out: a delivery is acknowledged to the broker when the system has it, or when it can never be sent.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import msgspec

from tamis.errors import ModelError, RefusedError
from tamis.runtime.bridges.content import destination_of
from tamis.runtime.bridges.dead_letters import DeadLetters, letter
from tamis.runtime.bridges.intake import Intake, NumberedIntake, PlainIntake, Repeated, Stale
from tamis.runtime.bridges.plan import BridgeCounts, BridgePlan
from tamis.runtime.bridges.system import IncomingMessage, Outcome, OutgoingMatch, System, is_for_good, is_temporary
from tamis.runtime.client.client import Client
from tamis.runtime.client.connecting import connect
from tamis.runtime.client.deliveries import ClientDelivery, ClientSubscription

__all__ = ["Bridge", "run_bridge"]

#: Messages that are published together, and deliveries that are sent together.
BATCH, WINDOW = 2_000, 1_024

#: Seconds before what was refused for now is tried again, at first and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


async def run_bridge(
    plan: BridgePlan,
    system: System,
    counts: BridgeCounts,
    ready: Callable[[], None] = lambda: None,
    *,
    has_numbers: bool = True,
) -> None:
    """Run a bridge until it is cancelled; ``ready`` is called when both sides are there."""
    plan.check()
    name = f"{system.kind}:{plan.name}"
    async with connect(plan.broker, token=plan.token, client=name, insecure=plan.insecure) as client:
        numbered = NumberedIntake(plan, system) if has_numbers else None
        intake = numbered or PlainIntake(plan, system.attribute, client)
        try:
            await system.open(numbered.find if numbered else lambda lane, default: default())
            await Bridge(plan, system, counts, intake).run(client, ready)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            await system.close()


class _Pauses:
    """Growing pauses between two tries."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE

    async def wait(self) -> None:
        """Wait, longer each time, never twice the same."""
        await asyncio.sleep(self._next * random.uniform(0.5, 1.0))
        self._next = min(2 * self._next, LONGEST_PAUSE)


class Bridge:
    """The two directions of one bridge."""

    def __init__(self, plan: BridgePlan, system: System, counts: BridgeCounts, intake: Intake) -> None:
        self._plan = plan
        self._system = system
        self._counts = counts
        self._intake = intake
        self._dead = DeadLetters(plan.dead_letters)

    async def run(self, client: Client, ready: Callable[[], None]) -> None:
        """Run until something ends it for good."""
        namespace, filters = self._plan.namespace, self._plan.subscriptions
        subscriptions = [
            await client.subscribe(filter, id=id, namespace=namespace, durable=True) for id, filter in filters.items()
        ]
        ready()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.until_ended())  # a bridge without messages must notice it, too
            if self._plan.sources:
                tasks.create_task(self._take_in())
            for subscription in subscriptions:
                tasks.create_task(self._send_out(subscription, tasks))

    # In

    async def _take_in(self) -> None:
        """Read the next messages while the last ones are being published; no more than that is in memory."""
        ahead = asyncio.create_task(_read(self._system))
        try:
            while True:
                batch = await ahead
                ahead = asyncio.create_task(_read(self._system))
                await self.publish(batch)
        finally:
            ahead.cancel()

    async def publish(self, batch: Sequence[IncomingMessage]) -> None:
        """Publish messages until each was accepted or refused for good; raise an error that concerns all of them."""
        self._counts.received += len(batch)
        pauses = _Pauses()
        while batch := await self._try(batch):
            await pauses.wait()

    async def _try(self, batch: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Publish messages once; return those that were refused for now; raise an error that concerns all."""
        outcomes = await self._intake.publish(batch)
        done: list[IncomingMessage] = []
        later: list[IncomingMessage] = []
        refused: list[tuple[IncomingMessage, BaseException]] = []
        fatal: BaseException | None = None
        for message, problem in zip(batch, outcomes, strict=True):
            if problem is None or isinstance(problem, Repeated):
                self._counts.published += problem is None
                self._counts.repeated += problem is not None
                done.append(message)
            elif is_for_good(problem):
                refused.append((message, problem))
                done.append(message)
            elif is_temporary(problem):
                later.append(message)
            elif not isinstance(problem, Stale):
                fatal = fatal or problem
        self._counts.retried += len(later)
        self._refuse(refused)
        if done:
            await self._system.settle(done)
        if fatal is not None:
            raise fatal
        return later

    def _refuse(self, refused: Sequence[tuple[IncomingMessage, BaseException]]) -> None:
        self._dead.add(
            letter("in", message.source, message.payload, str(problem), number=message.number)
            for message, problem in refused
        )
        self._counts.refused += len(refused)
        if refused:
            self._counts.last_refusal = str(refused[-1][1])

    # Out

    async def _send_out(self, subscription: ClientSubscription, tasks: asyncio.TaskGroup) -> None:
        """Prepare the next deliveries while the last ones are being sent; no more than that is in memory."""
        sending = tasks.create_task(self._send([]))
        async for delivery in subscription:
            batch = [(self._outgoing(subscription, delivery), delivery)]
            while subscription.waiting and len(batch) < WINDOW:
                delivery = await anext(subscription)
                batch.append((self._outgoing(subscription, delivery), delivery))
            await sending
            sending = tasks.create_task(self._send(batch))
            await asyncio.sleep(0)  # it is sent before more is prepared
        raise RefusedError(409, f"subscription {subscription.id!r} was ended by another client of the broker")

    async def _send(self, waiting: list[tuple[OutgoingMatch, ClientDelivery]]) -> None:
        """Send deliveries until the system has each of them, or can never have it; then acknowledge them."""
        pauses = _Pauses()
        while waiting:
            outcomes = await self._system.send([outgoing for outgoing, _ in waiting])
            later: list[tuple[OutgoingMatch, ClientDelivery]] = []
            for pair, problem in zip(waiting, outcomes, strict=True):
                if problem is None or is_for_good(problem):
                    self._sent(pair[0], problem)
                    await pair[1].ack()
                elif is_temporary(problem):
                    later.append(pair)
                else:
                    raise problem
            waiting = later
            self._counts.retried += len(later)
            if later:
                await pauses.wait()

    def _outgoing(self, subscription: ClientSubscription, delivery: ClientDelivery) -> OutgoingMatch:
        destination = destination_of(self._plan.out, subscription.id, delivery.event, self._system.reserved)
        id = f"{self._plan.name}:{subscription.id}:{delivery.id}"
        return OutgoingMatch(destination, msgspec.json.encode(delivery.event), id)

    def _sent(self, outgoing: OutgoingMatch, problem: Outcome) -> None:
        if problem is None:
            self._counts.sent += 1
            return
        reason = str(problem)
        self._dead.add([letter("out", outgoing.destination, outgoing.payload, reason, id=outgoing.id)])
        self._counts.refused += 1
        self._counts.last_refusal = reason


async def _read(system: System) -> Sequence[IncomingMessage]:
    messages = await system.read(BATCH)
    if not messages:
        raise ModelError(f"{system.kind}: no messages came")
    return messages
