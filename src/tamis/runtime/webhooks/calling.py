"""HTTP/1.1 to one endpoint: over addresses that were checked, without redirects or proxies, with bounded answers.

A host is resolved once for a connection. Every address must be allowed (`tamis.routing.webhooks.rules`), and the
connection goes to one of these addresses, so that a name server cannot change its mind in between. The certificate
must be for the host. Connections are kept for the next request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import h11

from tamis.errors import RefusedError
from tamis.routing.webhooks.rules import Target, WebhookRules
from tamis.runtime.dialling import words_of_failure
from tamis.runtime.webhooks.documents import Request

__all__ = ["CallError", "Endpoint", "Reply", "Resolve", "resolve"]

#: Bytes of an answer that are read: of its head, and of all of it. A longer answer ends the connection.
MAX_HEAD, MAX_ANSWER = 16 * 1024, 64 * 1024

#: Returns the addresses of a host.
Resolve = Callable[[str, int], Awaitable[list[str]]]


class CallError(Exception):
    """A request got no answer; the text has no part of the URL but the host."""


@dataclass(frozen=True)
class Reply:
    """The status of an answer, and the seconds that it asks to wait."""

    status: int
    pause: float = 0.0


@dataclass
class _Wire:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT, MAX_HEAD))

    def close(self) -> None:
        self.writer.transport.abort()

    @property
    def is_usable(self) -> bool:
        return not (self.reader.at_eof() or self.writer.is_closing())


class Endpoint:
    """The connections of one webhook."""

    def __init__(self, target: Target, rules: WebhookRules, tls: ssl.SSLContext | None, resolve: Resolve) -> None:
        self._target = target
        self._rules = rules
        self._tls = tls if target.is_encrypted else None
        self._resolve = resolve
        self._idle: list[_Wire] = []

    async def post(self, request: Request, seconds: float) -> Reply:
        """Return the answer to a request; `CallError` when there is none in time."""
        host = self._target.host
        try:
            async with asyncio.timeout(seconds):
                return await self._post(request)
        except TimeoutError:
            raise CallError(f"{host} did not answer within {seconds:g} s") from None
        except RefusedError as error:
            raise CallError(error.reason) from None
        except ssl.SSLError as error:
            raise CallError(f"{host}: TLS: {error.reason or type(error).__name__}") from None
        except OSError as error:
            raise CallError(f"{host}: {words_of_failure(error)}") from None
        except h11.RemoteProtocolError as error:
            raise CallError(f"{host} does not speak HTTP/1.1: {error}") from None

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()

    async def _post(self, request: Request) -> Reply:
        while self._idle:
            wire = self._idle.pop()
            if wire.is_usable:
                try:
                    return await self._exchange(wire, request)
                except (OSError, h11.RemoteProtocolError):
                    continue  # the endpoint closed a connection that was kept: a new one says whether it is there
            wire.close()
        return await self._exchange(await self._connect(), request)

    async def _connect(self) -> _Wire:
        target = self._target
        addresses = await self._resolve(target.host, target.port)
        for address in addresses:
            self._rules.demand_address(address, target)
        problem: OSError = OSError(None, "the host has no address")
        for address in addresses:
            try:
                name = target.host if self._tls else None
                reader, writer = await asyncio.open_connection(
                    address, target.port, ssl=self._tls, server_hostname=name, limit=MAX_ANSWER
                )
                return _Wire(reader, writer)
            except OSError as error:
                problem = error
        raise problem

    async def _exchange(self, wire: _Wire, request: Request) -> Reply:
        is_kept = False
        try:
            head = h11.Request(method="POST", target=self._target.path, headers=self._headers(request))
            data = wire.http.send(head) or b""
            data += (wire.http.send(h11.Data(data=request.body)) or b"") + (wire.http.send(h11.EndOfMessage()) or b"")
            wire.writer.write(data)
            await wire.writer.drain()
            reply, is_whole = await _read(wire)
            if is_whole and wire.http.our_state is h11.DONE and wire.http.their_state is h11.DONE:
                wire.http.start_next_cycle()
                is_kept = True
                self._idle.append(wire)
            return reply
        finally:
            if not is_kept:
                wire.close()

    def _headers(self, request: Request) -> list[tuple[str, str]]:
        return [
            ("host", self._target.authority),
            ("user-agent", "tamis"),
            ("content-length", str(len(request.body))),
            *request.headers,
        ]


async def _read(wire: _Wire) -> tuple[Reply, bool]:
    """Return the answer, and whether all of it was read."""
    reply, size = None, 0
    while True:
        event = wire.http.next_event()
        if event is h11.NEED_DATA:
            if size > MAX_ANSWER and reply is not None:
                return reply, False
            if size > MAX_ANSWER:
                raise h11.RemoteProtocolError("the head of its answer is too long")
            chunk = await wire.reader.read(MAX_HEAD)
            size += len(chunk)
            wire.http.receive_data(chunk)
        elif isinstance(event, h11.Response):
            reply = Reply(event.status_code, _pause(event, time.time()))
        elif isinstance(event, h11.EndOfMessage) and reply is not None:
            return reply, True
        elif isinstance(event, h11.ConnectionClosed):
            raise ConnectionResetError(None, "the endpoint closed the connection")


def _pause(response: h11.Response, now: float) -> float:
    """Return the seconds of ``Retry-After``; 0 without one.

    A moment counts from the ``Date`` of the answer, so that the clocks may differ; without one from ``now``.
    """
    headers = {name: value.decode("latin-1") for name, value in response.headers}
    text = headers.get(b"retry-after", "")
    if text.isascii() and text.isdecimal() and len(text) < 8:
        return float(text)
    end, start = _moment(text), _moment(headers.get(b"date", ""))
    return 0.0 if end is None else max(0.0, end - (now if start is None else start))


def _moment(text: str) -> float | None:
    """Return the seconds since 1970 of a moment in a header; None for any other text."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


async def resolve(host: str, port: int, run: Callable[[Callable[[], list[str]]], Awaitable[list[str]]]) -> list[str]:
    """Return the addresses of a host, each once; ``run`` calls the resolver outside the event loop."""

    def ask() -> list[str]:
        results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in results))

    with contextlib.suppress(UnicodeError):
        return await run(ask)
    raise OSError(None, "its name cannot be resolved")
