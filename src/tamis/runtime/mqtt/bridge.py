"""A bridge between MQTT and a broker: topics in as events, matches out to topics.

In: a message whose payload is a JSON object becomes an event of its attributes, and ``topic`` says where it came from.
Any other JSON value becomes the attribute ``value``. Out: each of the bridge's subscriptions publishes what matches it,
as JSON, to a topic made from a template.

Both ways at least once (QoS 1): a message is acknowledged to one side when the other side has it, or has refused it for
good (400, 413): it is no event, or too large. Those are counted, with the last reason, and do not come again. What the
broker refuses for now (5xx: a link is full, a disk is full) is published again, with growing pauses, and a bridge that
has no right to publish (401, 403: its token was revoked) stops with an error. In both cases the MQTT broker keeps the
messages.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tamis.errors import ConnectionLostError, DiskFullError, ModelError, RefusedError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.routing.edge.admission import MAX_EVENT
from tamis.runtime.client.client import Client
from tamis.runtime.client.connecting import connect
from tamis.runtime.client.deliveries import ClientSubscription, Delivery
from tamis.runtime.mqtt.connection import MqttLink, MqttMessage, MqttPlace

__all__ = ["BridgeCounts", "BridgePlan", "event_of_message", "run_bridge", "topic_of"]

#: The attributes that a message gets: where it came from, and its payload if that is no object.
TOPIC, VALUE = "topic", "value"

#: Messages that are taken together, and deliveries whose publishing is under way.
BATCH, WINDOW = 256, 256

#: Messages that wait to become events before those with QoS 0 are dropped, as their senders allow.
MAX_QUEUE = 10_000

#: Seconds for the first connection to the MQTT broker; later it is tried for ever.
CONNECT_SECONDS = 30.0

#: Seconds before what was refused for now is published again, at first and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

_FIELD = re.compile(r"\{(\w+)\}")

#: What would be a level, a wildcard or no character of a topic.
_UNSAFE = {ord(one): f"%{ord(one):02X}" for one in "/+#%\0"}


@dataclass(frozen=True)
class BridgePlan:
    """What a bridge does; ``subscriptions`` are filters by id, and their matches go to the template ``out``."""

    mqtt: str
    broker: str
    name: str = "bridge"
    topics: tuple[str, ...] = ()
    subscriptions: Mapping[str, str] = field(default_factory=dict)
    out: str = ""
    namespace: str = DEFAULT_NAMESPACE
    token: str | None = field(default=None, repr=False)
    #: Whether the token may be sent unencrypted to another machine.
    insecure: bool = False

    def check(self) -> BridgePlan:
        """Return this plan; `ModelError` says what is missing or wrong."""
        MqttPlace.parse(self.mqtt)
        if not self.topics and not self.subscriptions:
            raise ModelError("a bridge without topics in and without subscriptions out has nothing to do")
        if bool(self.subscriptions) != bool(self.out):
            raise ModelError("subscriptions and the topic they go out to belong together")
        if set(_FIELD.sub("", self.out)) & set("+#{}\0"):
            raise ModelError(f"topic {self.out!r}: expected names and fields such as 'alerts/{{id}}', no wildcards")
        return self


@dataclass
class BridgeCounts:
    """Messages that came in, that became events, that were refused for good or only for now, and that went out."""

    received: int = 0
    published: int = 0
    refused: int = 0
    retried: int = 0
    sent: int = 0
    last_refusal: str = ""


def event_of_message(topic: str, payload: bytes) -> dict[str, Any]:
    """Return the event that a message means; `ModelError` when it means none.

    >>> event_of_message("sensors/7", b'{"celsius": 21.5}'), event_of_message("sensors/7/celsius", b"21.5")
    ({'celsius': 21.5, 'topic': 'sensors/7'}, {'value': 21.5, 'topic': 'sensors/7/celsius'})
    """
    if len(payload) > MAX_EVENT:
        raise ModelError(f"topic {topic!r}: {len(payload):,} bytes are more than the {MAX_EVENT:,} of an event")
    try:
        found = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"topic {topic!r}: not JSON ({error})") from None
    return (found if isinstance(found, dict) else {VALUE: found}) | {TOPIC: topic}


def topic_of(template: str, id: object, event: Mapping[str, Any]) -> str:
    """Return the topic of a match: ``{id}`` is the subscription, any other field an attribute of the event.

    >>> topic_of("alerts/{id}/{place}", "strong", {"place": "Fiji/Tonga"})
    'alerts/strong/Fiji%2FTonga'
    """
    values = {**event, "id": id}
    return _FIELD.sub(lambda found: str(values.get(found[1], "null")).translate(_UNSAFE), template)


async def run_bridge(plan: BridgePlan, counts: BridgeCounts, ready: Callable[[], None] = lambda: None) -> None:
    """Run a bridge until it is cancelled; ``ready`` is called when both sides are there."""
    plan.check()
    async with connect(plan.broker, token=plan.token, client=f"mqtt:{plan.name}", insecure=plan.insecure) as client:
        await _Bridge(plan, counts, client).run(ready)


def _is_temporary(problem: BaseException) -> bool:
    """Whether the same event may be accepted later."""
    return isinstance(problem, DiskFullError) or (isinstance(problem, RefusedError) and problem.code >= 500)


def _is_for_good(problem: BaseException) -> bool:
    """Whether a message can never become an event, while others can: it is not JSON, unfit or too large."""
    if isinstance(problem, RefusedError):
        return problem.code in (400, 413)
    return isinstance(problem, ModelError)


class _Bridge:
    """A bridge that runs."""

    def __init__(self, plan: BridgePlan, counts: BridgeCounts, client: Client) -> None:
        self._plan = plan
        self._counts = counts
        self._client = client
        self._incoming: asyncio.Queue[MqttMessage] = asyncio.Queue()
        place = MqttPlace.parse(plan.mqtt)
        self._mqtt = MqttLink(place, f"tamis-{plan.name}", plan.topics, self._receive)

    async def run(self, ready: Callable[[], None]) -> None:
        self._mqtt.start()
        try:
            await self._connect()
            namespace = self._plan.namespace
            asked = [
                await self._client.subscribe(filter, id=id, namespace=namespace, durable=True)
                for id, filter in self._plan.subscriptions.items()
            ]
            ready()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._take_in())
                tasks.create_task(self._client.until_ended())  # a bridge without messages must notice it, too
                for one in asked:
                    tasks.create_task(self._send_out(one))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            await self._mqtt.stop()

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._mqtt.ready
        except TimeoutError:
            problem = f"no MQTT 5 broker answered within {CONNECT_SECONDS:g} s"
            raise ConnectionLostError(self._plan.mqtt, problem) from None

    def _receive(self, message: MqttMessage) -> None:
        """Queue a message. With QoS 1 the MQTT broker waits for us; with QoS 0 it does not, so that is bounded here."""
        if message.qos == 0 and self._incoming.qsize() >= MAX_QUEUE:
            self._counts.refused += 1
            self._counts.last_refusal = f"topic {message.topic!r}: {MAX_QUEUE:,} messages wait, and this one has QoS 0"
        else:
            self._incoming.put_nowait(message)

    async def _take_in(self) -> None:
        while True:
            batch = [await self._incoming.get()]
            while len(batch) < BATCH and not self._incoming.empty():
                batch.append(self._incoming.get_nowait())
            await self._publish(batch)

    async def _publish(self, batch: Sequence[MqttMessage]) -> None:
        """Publish messages until each was accepted or refused for good; raises what concerns all of them."""
        self._counts.received += len(batch)
        pause = FIRST_PAUSE
        while batch := await self._try(batch):
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _try(self, batch: Sequence[MqttMessage]) -> list[MqttMessage]:
        """Publish messages once; return those that were refused for now, or raise what concerns all of them."""
        # All at once: they travel together, in order, and each hears for itself whether it was refused.
        outcomes = await asyncio.gather(*map(self._publish_one, batch), return_exceptions=True)
        later: list[MqttMessage] = []
        fatal: BaseException | None = None
        for message, problem in zip(batch, outcomes, strict=True):
            if problem is None:
                self._counts.published += 1
            elif _is_for_good(problem):
                self._counts.refused += 1
                self._counts.last_refusal = str(problem)
            elif _is_temporary(problem):
                self._counts.retried += 1
                later.append(message)
                continue
            else:
                fatal = fatal or problem
                continue
            self._mqtt.acknowledge(message)
        if fatal is not None:
            raise fatal
        return later

    async def _publish_one(self, message: MqttMessage) -> None:
        event = event_of_message(message.topic, message.payload)
        await self._client.publish(event, namespace=self._plan.namespace)

    async def _send_out(self, subscription: ClientSubscription) -> None:
        under_way: set[asyncio.Task[None]] = set()
        async for delivery in subscription:
            topic = topic_of(self._plan.out, subscription.id, delivery.event)
            sent = self._mqtt.publish(topic, msgspec.json.encode(delivery.event))
            under_way.add(asyncio.create_task(self._settle(sent, delivery)))
            if len(under_way) >= WINDOW:
                _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        raise RefusedError(409, f"subscription {subscription.id!r} was ended by somebody else")

    async def _settle(self, sent: asyncio.Future[None], delivery: Delivery) -> None:
        await sent
        self._counts.sent += 1
        await delivery.ack()
