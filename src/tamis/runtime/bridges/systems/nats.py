"""NATS JetStream as a system of a bridge: exactly once both ways.

In: each ``--in`` is a lane, numbered by the sequence of its stream. The bridge asks the broker how far it has come, and
makes a consumer that begins behind that. A consumer numbers what it delivers; where a number is missing, something was
lost on the way, and the consumer is made again. So a lost connection, a new leader or a consumer that is gone cost time
and no message. Messages are pulled, never pushed: NATS keeps what the broker cannot take yet.

Out: a message has the id of its match (``Nats-Msg-Id``), and JetStream drops an id that came before within the stream's
duplicate window (2 minutes unless the stream says more). A message that is not confirmed is sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tamis.errors import ConnectionLostError, MissingExtraError, ModelError, RefusedError
from tamis.runtime.bridges.content import destination_of
from tamis.runtime.bridges.plan import BridgePlan
from tamis.runtime.bridges.system import Find, IncomingMessage, Outcome, OutgoingMatch
from tamis.runtime.bridges.systems.nats_lane import SENDER, NatsLane, words_of_nats
from tamis.runtime.bridges.systems.nats_place import NatsPlace, check_subject

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["NatsSystem"]

#: Seconds for the first connection, and for the confirmation of messages that were sent.
CONNECT_SECONDS, CONFIRM_SECONDS = 10.0, 5.0


class NatsSystem:
    """One NATS server or cluster; ``is_trial`` leaves nothing behind there."""

    kind, attribute, reserved = "nats", "subject", ".*> "

    def __init__(self, place: NatsPlace, plan: BridgePlan, *, is_trial: bool = False) -> None:
        for subject in plan.sources:
            check_subject(subject)
        self._place = place
        self._plan = plan
        self._is_trial = is_trial
        self._client: Client | None = None
        self._lanes: dict[str, NatsLane] = {}
        self._news = asyncio.Event()
        self._replies = ""
        self._numbers = itertools.count(1)
        #: Batches under way; the subject of a confirmation ends with the number of the batch and the row in it.
        self._sending: dict[str, _Sending] = {}

    @property
    def client(self) -> Client:
        """The connection; there after `open`."""
        if self._client is None:
            raise ConnectionLostError(self._place.shown, "not connected yet")
        return self._client

    async def open(self, find: Find) -> None:
        """Connect, and make a consumer for each lane."""
        self._client = await self._connect()
        self._replies = self._client.new_inbox()
        await self._client.subscribe(f"{self._replies}.*.*", cb=self._confirm)
        for id in self._plan.subscriptions:
            await self._check_stream(destination_of(self._plan.out, id, {}, self.reserved))
        for subject in self._plan.sources:
            lane = NatsLane(self._client, self._plan.name, subject, self._place, self._news, is_trial=self._is_trial)
            await lane.open(find)
            self._lanes[lane.name] = lane

    async def read(self, most: int) -> Sequence[IncomingMessage]:
        """Return what has come of all lanes."""
        while True:
            self._news.clear()
            messages = [message for lane in self._lanes.values() for message in await lane.take(most)]
            if messages:
                return messages
            try:
                async with asyncio.timeout(1.0):
                    await self._news.wait()
            except TimeoutError:  # look whether a consumer must be made again
                pass

    async def settle(self, messages: Sequence[IncomingMessage]) -> None:
        """Acknowledge messages, so that JetStream shows how far the bridge is, and deletes what was work."""
        last: dict[str, list[IncomingMessage]] = {}
        for message in messages:
            last.setdefault(message.lane, []).append(message)
        for lane, part in last.items():
            await self._lanes[lane].settle(part)

    async def rewind(self, lane: str, number: int) -> None:
        """Read a lane again behind a number."""
        await self._lanes[lane].restart(number)

    async def send(self, batch: Sequence[OutgoingMatch]) -> list[Outcome]:
        """Publish messages, in order; returns when each is confirmed or refused, or after some seconds."""
        sending, number = _Sending(len(batch)), str(next(self._numbers))
        self._sending[number] = sending
        try:
            for row, outgoing in enumerate(batch):
                await self._publish(outgoing, sending, row, f"{self._replies}.{number}.{row}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONFIRM_SECONDS):
                    await sending.all_known.wait()
        finally:
            del self._sending[number]
        return [sending.outcomes.get(row, TimeoutError("not confirmed")) for row in range(len(batch))]

    async def close(self) -> None:
        """End the connection."""
        if self._client is not None and not self._client.is_closed:
            for lane in self._lanes.values():
                await lane.close()
            await self._client.close()

    # Inside

    async def _connect(self) -> Client:
        try:
            import nats
        except ImportError:
            raise MissingExtraError("tamis bridge nats", "nats") from None
        options: dict[str, Any] = {"user_credentials": self._place.credentials} if self._place.credentials else {}
        if self._place.user:
            options |= {"user": self._place.user, "password": os.environ.get(NatsPlace.PASSWORD_VARIABLE, "")}
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await nats.connect(
                    servers=list(self._place.servers),
                    name=f"tamis bridge {self._plan.name}",
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.25,
                    allow_reconnect=True,
                    error_cb=_ignore,  # the client restores a lost connection by itself
                    **options,
                )
        except (TimeoutError, OSError, nats.errors.Error) as error:
            problem = f"no NATS server could be used within {CONNECT_SECONDS:g} s"
            detail = f" ({error})" if str(error) else ""
            raise ConnectionLostError(self._place.shown, problem + detail) from None

    async def _check_stream(self, subject: str) -> None:
        """Raise `RefusedError` when no stream would keep what goes out."""
        from nats.errors import Error
        from nats.js.errors import NotFoundError

        try:
            await self.client.jsm().find_stream_name_by_subject(subject)
        except NotFoundError:
            problem = f"no stream keeps subject {subject!r}"
            raise RefusedError(404, f"--out: {problem}; make one whose subjects match, or change --out") from None
        except (Error, TimeoutError) as error:
            raise ConnectionLostError(self._place.shown, f"JetStream does not answer: {words_of_nats(error)}") from None

    async def _publish(self, outgoing: OutgoingMatch, sending: _Sending, row: int, reply: str) -> None:
        from nats.errors import Error

        client = self.client
        if len(outgoing.payload) > client.max_payload:
            limit = f"{len(outgoing.payload):,} bytes are more than the {client.max_payload:,} that NATS takes"
            sending.add(row, ModelError(f"subject {outgoing.destination!r}: {limit}"))
            return
        headers = {"Nats-Msg-Id": outgoing.id, SENDER: self._plan.name}
        try:
            await client.publish(outgoing.destination, outgoing.payload, reply=reply, headers=headers)
        except Error as error:  # the connection is away and its buffer is full, or the subject is none
            bad = "subject" in str(error)
            sending.add(row, ModelError(f"{outgoing.destination!r}: {error}") if bad else TimeoutError(str(error)))

    async def _confirm(self, reply: Any) -> None:
        number, row = reply.subject.split(".")[-2:]
        sending = self._sending.get(number)
        if sending is not None and row.isdecimal():  # other clients may publish to these subjects
            sending.add(int(row), _verdict(reply))


class _Sending:
    """A batch that is being sent: what became of its messages, as far as it is known."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.outcomes: dict[int, Outcome] = {}
        self.all_known = asyncio.Event()

    def add(self, row: int, outcome: Outcome) -> None:
        """Take note of what became of a message; what is known already stays."""
        if row < self._n and row not in self.outcomes:
            self.outcomes[row] = outcome
            if len(self.outcomes) == self._n:
                self.all_known.set()


def _verdict(reply: Any) -> Outcome:
    """Return what a confirmation says: None when the stream has the message, or had it before."""
    if reply.headers and reply.headers.get("Status") == "503":
        return RefusedError(503, "no stream takes this subject now")  # its cluster may be choosing a leader
    try:
        answer = msgspec.json.decode(reply.data)
        if "error" not in answer:
            return None
        error = answer["error"]
        code, text = int(error.get("code", 500)), f"NATS: {error.get('description', 'refused')}"
    except (ValueError, TypeError, AttributeError, RecursionError):  # another client may publish to the reply subject
        return RefusedError(503, "NATS: the confirmation cannot be read")
    return RefusedError(503 if code in (408, 429) or code >= 500 else code, text)


async def _ignore(error: Exception) -> None:
    """Take note of nothing: reading and sending notice by themselves."""
