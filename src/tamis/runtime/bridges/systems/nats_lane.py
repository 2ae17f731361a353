"""One subject of a JetStream stream, read in order: see `tamis.runtime.bridges.systems.nats`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tamis.errors import ConnectionLostError, RefusedError
from tamis.runtime.bridges.system import Find, IncomingMessage
from tamis.runtime.bridges.systems.nats_place import NatsPlace

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["SENDER", "NatsLane", "Numbers", "Reading", "words_of_nats"]

#: Messages that are requested at once, and messages in memory beyond which no more are requested.
PULL, HELD = 2_000, 4_000

#: Seconds for which NATS keeps a request for messages, and of silence after which the consumer is checked.
PULL_SECONDS, SILENCE_SECONDS = 5.0, 8.0

#: The header with the name of the bridge that sent a message, so that a bridge ignores its own.
SENDER = "Tamis-Bridge"

#: Seconds before a consumer is made again that could not be made.
PAUSE = 0.5


class Numbers:
    """The numbers in the reply subject of a message: its place in the stream, and in what the consumer delivered.

    >>> numbers = Numbers("$JS.ACK.EVENTS.tamis-bridge.1.17.3.1700000000000000000.4")
    >>> numbers.stream, numbers.consumer
    (17, 3)
    """

    __slots__ = ("consumer", "stream")

    def __init__(self, reply: str) -> None:
        # Newer servers put a domain and an account hash behind $JS.ACK, and a random token at the end.
        parts = reply.split(".")
        first = 4 if len(parts) < 11 else 6
        self.stream, self.consumer = int(parts[first + 1]), int(parts[first + 2])


class Reading:
    """The messages that a consumer has delivered, in order; needs no connection."""

    def __init__(self, bridge: str) -> None:
        self._bridge = bridge
        self.waiting: deque[IncomingMessage] = deque()
        #: The last message that came in the stream, the last one that was queued, and the last one of the consumer.
        self.last, self.queued, self.delivered = 0, 0, 0
        #: How many messages were requested and have not come.
        self.n_requested = 0
        #: Whether a message was lost: no message is taken before the consumer is made again.
        self.must_restart = False
        #: When the last message came, by the clock of the caller.
        self.last_news = 0.0

    @property
    def wants_more(self) -> bool:
        """Whether there is room for messages that were not requested yet."""
        return not self.must_restart and self.n_requested < PULL // 2 and len(self.waiting) + self.n_requested < HELD

    def begin(self, number: int) -> None:
        """Drop what waits, and begin behind a number."""
        self.waiting.clear()
        self.last = self.queued = number
        self.start_over()

    def start_over(self) -> None:
        """Reset the counts for a new consumer, which begins behind the last message that came."""
        self.delivered = self.n_requested = 0

    def take(self, most: int) -> list[IncomingMessage]:
        """Return up to ``most`` of the messages that wait."""
        return [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]

    def receive(self, message: Any, lane: str) -> None:
        """Queue a message if it is the next one; a status message means that a request has ended."""
        if message.headers and "Status" in message.headers and not message.data:
            self.n_requested = 0
            self.must_restart = self.must_restart or message.headers["Status"] not in ("404", "408", "100")
            return
        numbers = Numbers(message.reply)
        self.n_requested = max(0, self.n_requested - 1)
        if numbers.consumer != self.delivered + 1:
            self.must_restart = True
        if self.must_restart:
            return
        self.delivered = numbers.consumer
        is_own = bool(message.headers) and message.headers.get(SENDER) == self._bridge
        if numbers.stream > self.last and not is_own:
            queued = IncomingMessage(message.subject, message.data, lane, numbers.stream, self.queued, message)
            self.queued = numbers.stream
            self.waiting.append(queued)
        self.last = max(self.last, numbers.stream)


class NatsLane:
    """A lane: a consumer that begins behind the last message that the broker has."""

    def __init__(
        self, client: Client, bridge: str, subject: str, place: NatsPlace, news: asyncio.Event, *, is_trial: bool
    ) -> None:
        self._client = client
        self._subject = subject
        self._place = place
        self._news = news
        self._consumer = f"tamis-{secrets.token_hex(4)}" if is_trial else f"tamis-{_plain(bridge)}-{_plain(subject)}"
        self._stream = place.stream
        self._is_work = False
        self._is_trial = is_trial
        self._reading = Reading(bridge)
        self._inbox: Any = None
        self._problem = ""
        self.name = ""

    async def open(self, find: Find) -> None:
        """Find the stream, and begin behind the last message of it that the broker has."""
        from nats.errors import Error
        from nats.js.errors import NotFoundError

        manager = self._client.jsm()
        try:
            self._stream = self._stream or await manager.find_stream_name_by_subject(self._subject)
            info = await manager.stream_info(self._stream)
        except NotFoundError:
            problem = f"--in: no stream has subject {self._subject!r}; make one whose subjects match, or change --in"
            if self._stream:
                problem = f"--stream: there is no stream {self._stream!r}"
            raise RefusedError(404, problem) from None
        except (Error, TimeoutError) as error:
            raise ConnectionLostError(self._place.shown, f"JetStream does not answer: {words_of_nats(error)}") from None
        retention = str(info.config.retention or "limits").rpartition(".")[2].lower()
        if retention == "interest":
            problem = "keeps messages by interest, and would drop what waits for a bridge that starts again"
            raise RefusedError(409, f"stream {self._stream} {problem}; use a stream with limits or a work queue")
        self._is_work = retention == "workqueue"
        # A stream that was deleted and created again numbers from 1 again: it is another lane.
        born = round(info.created.timestamp() * 1e6) if info.created else 0
        self.name = f"{self._stream}:{born}:{self._subject}"
        state = info.state
        default = max(0, state.first_seq - 1) if self._place.from_beginning else state.last_seq
        number = await asyncio.to_thread(find, self.name, lambda: default)
        await self.restart(number)
        if self._reading.must_restart:
            raise ConnectionLostError(self._place.shown, f"stream {self._stream}: {self._problem}")

    async def restart(self, number: int) -> None:
        """Drop what waits, and read behind a number."""
        self._reading.begin(number)
        self._reading.must_restart = not await self._make(number)
        self._reading.last_news = time.monotonic()

    async def take(self, most: int) -> list[IncomingMessage]:
        """Return the messages that have come, in order, and request more."""
        if self._reading.must_restart or time.monotonic() - self._reading.last_news > SILENCE_SECONDS:
            await self._mend()
        taken = self._reading.take(most)
        if self._reading.wants_more:
            await self._pull()
        return taken

    async def settle(self, messages: Sequence[IncomingMessage]) -> None:
        """Acknowledge messages: each of a work queue, only the last one where that acknowledges all before it."""
        from nats.errors import Error

        if self._is_trial:
            return
        try:
            for message in messages if self._is_work else messages[-1:]:
                await self._client.publish(message.handle.reply, b"+ACK")
        except (
            Error
        ):  # not connected: a restart begins behind the broker's number, and later messages acknowledge these
            self._reading.must_restart = self._reading.must_restart or self._is_work

    async def close(self) -> None:
        """Leave the consumer as it is, but delete the consumer of a trial."""
        if self._is_trial:
            await self._client.jsm().delete_consumer(self._stream, self._consumer)

    # Inside

    async def _make(self, number: int) -> bool:
        """Make the consumer, in place of an earlier one; return whether that was possible."""
        from nats.errors import Error
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
        from nats.js.errors import NotFoundError

        manager = self._client.jsm()
        config = ConsumerConfig(
            durable_name=self._consumer,
            ack_policy=AckPolicy.EXPLICIT if self._is_work else AckPolicy.ALL,
            ack_wait=3_600.0,
            max_ack_pending=50_000,
            filter_subject=self._subject,
        )
        if not self._is_work:  # a work queue gives all it has; what the broker has already is then acknowledged
            config.deliver_policy, config.opt_start_seq = DeliverPolicy.BY_START_SEQUENCE, number + 1
        await self._listen()
        try:
            with contextlib.suppress(NotFoundError):
                await manager.delete_consumer(self._stream, self._consumer)
            await manager.add_consumer(self._stream, config)
        except (Error, TimeoutError) as error:  # no leader yet, or no connection: it is tried again
            self._problem = words_of_nats(error)
            return False
        return True

    async def _listen(self) -> None:
        """Give each consumer an inbox of its own: messages still under way to a former consumer are ignored."""
        if self._inbox is not None:
            await self._inbox.unsubscribe()
        subject = self._client.new_inbox()

        async def receive(message: Any) -> None:
            if self._inbox.subject == subject:
                self._reading.last_news = time.monotonic()
                self._reading.receive(message, self.name)
                self._news.set()

        self._inbox = await self._client.subscribe(subject, cb=receive)

    async def _mend(self) -> None:
        """Make the consumer again after a gap or a long silence, behind the last message that came in order."""
        from nats.errors import Error

        if not self._reading.must_restart:
            try:
                info = await self._client.jsm().consumer_info(self._stream, self._consumer)
                delivered = 0 if info.delivered is None else info.delivered.consumer_seq
                self._reading.must_restart = delivered != self._reading.delivered
                self._reading.n_requested = 0  # the requests have expired
                self._reading.last_news = time.monotonic()
            except (Error, TimeoutError):
                self._reading.must_restart = True
        if self._reading.must_restart:
            self._reading.must_restart = not await self._make(self._reading.last)
            self._reading.start_over()
            self._reading.last_news = time.monotonic()
            if self._reading.must_restart:
                await asyncio.sleep(PAUSE)

    async def _pull(self) -> None:
        """Request more messages."""
        request = json.dumps({"batch": PULL, "expires": int(PULL_SECONDS * 1e9)}).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        from nats.errors import Error

        try:
            await self._client.publish(subject, request, reply=self._inbox.subject)
            self._reading.n_requested += PULL
        except Error:
            self._reading.must_restart = True


def words_of_nats(error: Exception) -> str:
    """Return what a server says, without the codes that its client puts around it."""
    return getattr(error, "description", None) or str(error).removeprefix("nats: ") or "no answer"


def _plain(text: str) -> str:
    """Return a text as a part of a consumer's name, which may have no dots, blanks and wildcards.

    >>> _plain("sensors.>")
    'sensors_2e_3e'
    """
    return "".join(letter if letter.isalnum() or letter in "-" else f"_{ord(letter):02x}" for letter in text)
