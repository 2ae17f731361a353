"""What a bridge would do, without doing it: both sides are reached, some messages are shown, nothing is changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tamis.errors import ModelError
from tamis.runtime.bridges.content import event_of_message
from tamis.runtime.bridges.plan import BridgePlan
from tamis.runtime.bridges.system import IncomingMessage, System
from tamis.runtime.client.connecting import connect

__all__ = ["BridgeTrial", "try_bridge"]

#: Messages that are shown, and seconds that are waited for them: a group of Kafka takes some to admit a member.
MESSAGES, SECONDS = 10, 10.0

#: Seconds without a message after which those that have come are shown.
PAUSE = 0.5


@dataclass
class BridgeTrial:
    """Events that messages would become, and why others would be refused."""

    events: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


async def try_bridge(plan: BridgePlan, system: System) -> BridgeTrial:
    """Connect both sides, read some messages and acknowledge none; errors are those that the bridge would meet."""
    plan.check()
    try:
        async with connect(plan.broker, token=plan.token, insecure=plan.insecure):
            await system.open(lambda lane, default: default())
        messages = await _some(system) if plan.sources else []
    finally:
        await system.close()
    trial = BridgeTrial()
    for message in messages[:MESSAGES]:
        try:
            trial.events.append(event_of_message(message.source, message.payload, system.attribute))
        except ModelError as error:
            trial.refusals.append(str(error))
    return trial


async def _some(system: System) -> Sequence[IncomingMessage]:
    """Return the first messages: as many as are shown, or fewer when no more come for a moment."""
    messages: list[IncomingMessage] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SECONDS) as patience:
            while len(messages) < MESSAGES:
                messages += await system.read(MESSAGES - len(messages))
                patience.reschedule(asyncio.get_running_loop().time() + PAUSE)
    return messages
