"""Kafka as a system of a bridge: in exactly once, out at least once, and once within the life of a bridge.

In: a partition is a lane, numbered by its offsets. The bridge asks the broker how far it has come, and seeks behind
that. Offsets are committed to the consumer group after the broker has the events; they are for monitoring, and for a
broker that lost its disk. Out: an idempotent producer, so retries of the library neither repeat nor reorder messages.

The client library blocks, so it runs in threads; it fetches ahead by itself, within bounds that are set here.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tamis.errors import ConnectionLostError, MissingExtraError, ModelError, RefusedError
from tamis.runtime.bridges.plan import BridgePlan
from tamis.runtime.bridges.system import Find, IncomingMessage, Outcome, OutgoingMatch

__all__ = ["KafkaPlace", "KafkaSystem"]

#: Where the password of SASL is looked for: a command line is not a place for one.
PASSWORD_VARIABLE = "TAMIS_KAFKA_PASSWORD"

#: Seconds for the first answer, for one call of the library, and for the confirmation of messages that were sent.
CONNECT_SECONDS, POLL_SECONDS, CONFIRM_SECONDS = 20.0, 0.5, 30.0

#: Errors of librdkafka that say only that there was no answer.
_SILENT = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"})

#: Says which bridge sent a message, so that it does not read its own; and the id of its match.
SENDER, MATCH = "tamis-bridge", "tamis-id"

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")

#: What fell out of Kafka's retention is passed over.
_READING = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "queued.max.messages.kbytes": 65_536,
    "session.timeout.ms": 10_000,  # until the partitions of a bridge that was killed go to another
}

#: A message is given up before `CONFIRM_SECONDS` are over, so none is sent again while it is still under way.
_WRITING = {"enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": 25_000}

#: What the bridge relies on: other settings of the library are the user's.
_OURS = (
    "bootstrap.servers",
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "acks",
)


@dataclass(frozen=True)
class KafkaPlace:
    """Brokers of one cluster, settings of the client library, and where a new bridge begins."""

    servers: str
    options: Mapping[str, str] = field(default_factory=dict)
    from_beginning: bool = True

    @classmethod
    def parse(cls, servers: str, options: Sequence[str] = (), *, from_beginning: bool = True) -> KafkaPlace:
        """Read ``host:port,host:port`` and settings ``name=value``.

        >>> KafkaPlace.parse("127.0.0.1:9092", ["security.protocol=SASL_SSL"]).options["security.protocol"]
        'SASL_SSL'
        """
        if not servers or any(
            not re.fullmatch(r"[^\s:/,]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}", server) for server in servers.split(",")
        ):
            raise ModelError(f"--kafka: expected host:port, or several with commas between, got {servers!r}")
        settings: dict[str, str] = {}
        for text in options:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise ModelError(f"--option: expected NAME=VALUE, such as security.protocol=SSL; got {text!r}")
            if name in _OURS:
                raise ModelError(f"--option: {name} is set by the bridge")
            if name == "sasl.password":
                raise ModelError(f"no password on a command line: set {PASSWORD_VARIABLE}")
            settings[name] = value
        if PASSWORD_VARIABLE in os.environ:
            settings["sasl.password"] = os.environ[PASSWORD_VARIABLE]
        return cls(servers, settings, from_beginning)


class KafkaSystem:
    """One Kafka cluster; ``is_trial`` commits nothing."""

    kind, attribute, reserved = "kafka", "topic", "/"

    def __init__(self, place: KafkaPlace, plan: BridgePlan, *, is_trial: bool = False) -> None:
        self._place = place
        self._plan = plan
        self._is_trial = is_trial
        self._consumer: Any = None
        self._producer: Any = None
        self._find: Find = lambda lane, default: default()
        #: ``{lane: number}`` of the last message that was handed out; exactly the partitions that are ours.
        self._queued: dict[str, int] = {}
        self._trouble: BaseException | None = None
        self._reading = threading.Lock()

    async def open(self, find: Find) -> None:
        """Connect, and join the group of the bridge."""
        self._find = find
        await asyncio.to_thread(self._open)

    async def read(self, most: int) -> Sequence[IncomingMessage]:
        """Return the next messages of all partitions that are ours."""
        while True:
            batch = await asyncio.to_thread(self._consume, most)
            if self._trouble is not None:
                raise self._trouble
            if messages := [message for record in batch if (message := self._message(record)) is not None]:
                return messages

    async def settle(self, messages: Sequence[IncomingMessage]) -> None:
        """Commit offsets. If that fails, the next commit includes them: a restart begins behind the broker's number."""
        if self._is_trial:
            return
        from confluent_kafka import KafkaException, TopicPartition

        last = {message.lane: message for message in messages if message.lane in self._queued}
        offsets = [TopicPartition(message.source, message.handle, message.number + 1) for message in last.values()]
        try:
            if offsets:
                await asyncio.to_thread(self._consumer.commit, offsets=offsets, asynchronous=True)
        except KafkaException:
            pass

    async def rewind(self, lane: str, number: int) -> None:
        """Read a partition again after an offset; a partition that is no longer ours is left to another bridge."""
        from confluent_kafka import TopicPartition

        if lane in self._queued:
            topic, _, partition = lane.rpartition("/")
            self._queued[lane] = number
            await asyncio.to_thread(self._consumer.seek, TopicPartition(topic, int(partition), number + 1))

    async def send(self, batch: Sequence[OutgoingMatch]) -> list[Outcome]:
        """Produce messages, in order; returns when each is confirmed by all replicas, or refused."""
        return await asyncio.to_thread(self._send, batch)

    async def close(self) -> None:
        """Leave the group."""
        if self._producer is not None:
            await asyncio.to_thread(self._producer.flush, 5.0)
        if self._consumer is not None:
            await asyncio.to_thread(self._leave)

    # Inside: these run in threads

    def _open(self) -> None:
        try:
            from confluent_kafka import Consumer, KafkaException, Producer
        except ImportError:
            raise MissingExtraError("tamis bridge kafka", "kafka") from None
        shared = {"bootstrap.servers": self._place.servers, "log_level": 2, **self._place.options}
        group = f"tamis-{self._plan.name}" + (f"-trial-{time.time_ns()}" if self._is_trial else "")
        reading = {**_READING, **shared, "group.id": group}
        try:
            self._producer = Producer({**_WRITING, **shared})
            topics = self._producer.list_topics(timeout=CONNECT_SECONDS).topics
            if self._plan.sources:
                self._check_topics(topics)
                self._consumer = Consumer(reading)
                self._consumer.subscribe(list(self._plan.sources), on_assign=self._assign, on_revoke=self._revoke)
        except KafkaException as error:
            problem, silence = error.args[0], f"no Kafka broker answered within {CONNECT_SECONDS:g} s"
            raise ConnectionLostError(
                self._place.servers, silence if problem.name() in _SILENT else problem.str()
            ) from None

    def _consume(self, most: int) -> list[Any]:
        with self._reading:
            return [] if self._consumer is None else list(self._consumer.consume(most, POLL_SECONDS))

    def _leave(self) -> None:
        with self._reading:  # a read that was cancelled is still under way in its thread
            self._consumer.close()
            self._consumer = None

    def _check_topics(self, topics: Mapping[str, object]) -> None:
        missing = [name for name in self._plan.sources if not name.startswith("^") and name not in topics]
        if missing:
            raise RefusedError(404, f"there is no topic {missing[0]!r} at {self._place.servers}")

    def _assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Begin each partition behind what the broker has of it."""
        try:
            for partition in partitions:
                lane = f"{partition.topic}/{partition.partition}"
                number = self._find(lane, partial(self._default, partition))
                _, end = consumer.get_watermark_offsets(partition, timeout=CONNECT_SECONDS)
                if number >= end:
                    text = f"{lane} ends at {end - 1}, and the broker has up to {number}: it was created again"
                    raise RefusedError(409, f"{text}; use another --name")
                self._queued[lane] = number
                partition.offset = number + 1
            consumer.assign(partitions)
        except Exception as error:  # the library would drop it
            self._trouble = error

    def _default(self, partition: Any) -> int:
        """Return the offset before the first one to read when the broker does not know a partition."""
        committed = self._consumer.committed([partition], timeout=CONNECT_SECONDS)[0].offset
        low, high = self._consumer.get_watermark_offsets(partition, timeout=CONNECT_SECONDS)
        if committed >= 0:
            return int(committed) - 1
        return int(low if self._place.from_beginning else high) - 1

    def _revoke(self, consumer: Any, partitions: Sequence[Any]) -> None:
        for partition in partitions:
            self._queued.pop(f"{partition.topic}/{partition.partition}", None)

    def _message(self, record: Any) -> IncomingMessage | None:
        """Return a record as a message; None for one of this bridge, and for news of the library."""
        if (error := record.error()) is not None:
            if error.fatal() or "AUTHORIZATION" in error.name():
                raise RefusedError(403, f"Kafka: {error.str()}")
            return None
        lane = f"{record.topic()}/{record.partition()}"
        sender = dict(record.headers() or ()).get(SENDER)
        if lane not in self._queued or sender == self._plan.name.encode():
            return None
        after, self._queued[lane] = self._queued[lane], record.offset()
        return IncomingMessage(record.topic(), record.value() or b"", lane, record.offset(), after, record.partition())

    def _send(self, batch: Sequence[OutgoingMatch]) -> list[Outcome]:
        from confluent_kafka import KafkaException

        outcomes: list[Outcome] = [TimeoutError("not confirmed")] * len(batch)
        name = self._plan.name.encode()
        for row, outgoing in enumerate(batch):
            if not _TOPIC.fullmatch(outgoing.destination):
                problem = "a topic has at most 249 letters, digits, dots, underscores and hyphens"
                outcomes[row] = ModelError(f"topic {outgoing.destination!r}: {problem}")
                continue
            try:
                self._producer.produce(
                    outgoing.destination,
                    outgoing.payload,
                    headers={SENDER: name, MATCH: outgoing.id.encode()},
                    on_delivery=lambda error, record, row=row: _note(outcomes, row, error),
                )
            except BufferError as error:
                outcomes[row] = TimeoutError(str(error))
            except KafkaException as error:
                _note(outcomes, row, error.args[0])
        self._producer.flush(CONFIRM_SECONDS)
        return outcomes


def _note(outcomes: list[Outcome], row: int, error: Any) -> None:
    """Set the outcome of a message that was produced."""
    if error is None:
        outcomes[row] = None
        return
    text = f"Kafka: {error.str()}"
    if error.name() in ("MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "_BAD_MSG", "TOPIC_EXCEPTION"):
        outcomes[row] = ModelError(text)
    elif error.fatal() or "AUTHORIZATION" in error.name():
        outcomes[row] = RefusedError(403, text)
    else:
        outcomes[row] = RefusedError(503, text)
