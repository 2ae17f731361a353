"""MQTT 5 as a system of a bridge: at least once both ways (QoS 1), a session that outlives the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tamis.errors import ConnectionLostError
from tamis.runtime.bridges.plan import BridgeCounts, BridgePlan
from tamis.runtime.bridges.system import Find, IncomingMessage, Outcome, OutgoingMatch
from tamis.runtime.bridges.systems.mqtt_connection import MqttLink, MqttMessage, MqttPlace, check_topic_filter

__all__ = ["MqttSystem"]

#: Messages that wait to become events before those with QoS 0 are dropped, as their senders allow.
MAX_QUEUE = 10_000

#: Seconds for the first connection to the MQTT broker; later it is tried for ever.
CONNECT_SECONDS = 30.0


class MqttSystem:
    """One MQTT broker; it numbers nothing that survives a connection, so its messages have no lanes."""

    kind, attribute, reserved = "mqtt", "topic", "/+#"

    def __init__(self, url: str, plan: BridgePlan, counts: BridgeCounts, *, keeps_session: bool = True) -> None:
        self._place = MqttPlace.parse(url)
        for topics in plan.sources:
            check_topic_filter(topics)
        self._url = url
        self._plan = plan
        self._counts = counts
        self._keeps_session = keeps_session
        self._incoming: asyncio.Queue[MqttMessage] = asyncio.Queue()
        self._link: MqttLink | None = None

    @property
    def link(self) -> MqttLink:
        """The connection; there after `open`."""
        if self._link is None:
            raise ConnectionLostError(self._url, "not connected yet")
        return self._link

    async def open(self, find: Find) -> None:
        """Connect, and subscribe to the topics."""
        self._link = MqttLink(self._place, f"tamis-{self._plan.name}", self._plan.sources, self.receive)
        self._link.start(keeps_session=self._keeps_session)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._link.ready
        except TimeoutError:
            problem = f"no MQTT 5 broker answered within {CONNECT_SECONDS:g} s"
            raise ConnectionLostError(self._url, problem) from None

    def receive(self, message: MqttMessage) -> None:
        """Queue a message. With QoS 1 the MQTT broker waits for us; with QoS 0 it does not, so that is bounded here."""
        if message.qos == 0 and self._incoming.qsize() >= MAX_QUEUE:
            self._counts.refused += 1
            self._counts.last_refusal = f"topic {message.topic!r}: {MAX_QUEUE:,} messages wait, and this one has QoS 0"
        else:
            self._incoming.put_nowait(message)

    async def read(self, most: int) -> Sequence[IncomingMessage]:
        """Return what has come, at least one message."""
        batch = [await self._incoming.get()]
        while len(batch) < most and not self._incoming.empty():
            batch.append(self._incoming.get_nowait())
        return [IncomingMessage(message.topic, message.payload, handle=message) for message in batch]

    async def settle(self, messages: Sequence[IncomingMessage]) -> None:
        """Acknowledge messages; those of a former connection come again anyway."""
        for message in messages:
            self.link.acknowledge(message.handle)

    async def rewind(self, lane: str, number: int) -> None:
        """Do nothing: there are no lanes."""

    async def send(self, batch: Sequence[OutgoingMatch]) -> list[Outcome]:
        """Publish with QoS 1; return when the MQTT broker has all messages, after as many attempts as that takes."""
        await asyncio.gather(*(self.link.publish(outgoing.destination, outgoing.payload) for outgoing in batch))
        return [None] * len(batch)

    async def close(self) -> None:
        """End the connection; the session stays."""
        if self._link is not None:
            await self._link.stop()
