"""Limits of the number of connections, and deadlines for the head and the body of each request (promise S20).

A connection counts from the moment it is accepted, before any token is shown, until its socket closes. There is a limit
for each address and one for all together. Beyond the limits there is a small reserve for links and for admins with a
token, so that operators can connect while strangers keep the broker full.

The head and the body of a request have a deadline each. A connection that sends a byte now and then, or nothing at all,
is closed when the deadline has passed.
"""

from __future__ import annotations

import asyncio
import re
import resource
from collections import Counter
from typing import Any, Final

import h11

from tamis.routing.edge.limits import BODY_SECONDS, HEAD_SECONDS, MAX_SMALL_CHUNKS

__all__ = ["ALLOW_PACKETS", "MAX_HEAD", "ON_RESERVE", "Gate", "raise_file_limit", "with_limits", "with_small_packets"]

#: Connections beyond the limit, of all addresses and of one, for links and admins.
RESERVE, RESERVE_OF_ADDRESS = 64, 8

#: Open files that are not connections of clients: the store, pipes to workers, links that this broker dials.
OTHER_FILES = 256

#: What the state of a request says when its connection has a place of the reserve.
ON_RESERVE: Final = "on_reserve"

#: What the state of a WebSocket calls the function that changes the size of its packets.
ALLOW_PACKETS: Final = "allow_packets"

#: Bytes of a WebSocket that are parsed at once, and the most frames in them: a message of a client has 20 bytes or
#: more. After a piece with few frames the next one is twice as long.
PIECE, FRAMES_OF_PIECE, FEW_FRAMES = 2_048, 128, 4

#: Frames of one message.
MOST_FRAGMENTS = 1_024

#: Bytes of a chunked body that are parsed at once where more than `FEW_CHUNKS` of its chunks are small: 6 ms of chunks
#: of one byte.
CHUNKED_PIECE, FEW_CHUNKS = 2_048, 200

#: Bytes of the head of a request, or of the trailers of a body, before its end is there.
MAX_HEAD = 65_536

#: Bytes of anything else of a request that are parsed at once: h11 looks at the length of a head between two pieces,
#: and would take one of any length that arrives as a whole.
REQUEST_PIECE = 16_384

#: The head of a chunk of less than 256 bytes, behind the end of the one before. h11 reads 20 digits, and spaces behind.
_SMALL_CHUNK = re.compile(rb"\r\n0{0,18}[0-9a-fA-F]{1,2}(?=[ \t;\r])")

#: Codes with which a WebSocket is closed (RFC 6455, section 7.4.1).
NO_TEXT, POLICY_VIOLATION = 1007, 1008

#: The most files that are asked for: some systems allow a billion, and programs walk through all of them.
_MOST_FILES = 1 << 20

_BUSY_BODY = b'{"error":"too many connections; connect again later","status":503}'
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_BUSY_BODY), _BUSY_BODY)
)

_UNREADABLE_BODY = b'{"error":"the handshake of a WebSocket has a body, or too many or too long headers","status":400}'
_UNREADABLE = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_UNREADABLE_BODY), _UNREADABLE_BODY)
)


class Gate:
    """Counts connections by address.

    >>> gate = Gate(in_all=3, of_address=1)
    >>> [gate.admit(number, "10.0.0.1") for number in range(2)], gate.admit(9, "10.0.0.2")
    ([False, True], False)
    >>> gate.release(0) or len(gate)
    2
    """

    def __init__(self, in_all: int, of_address: int) -> None:
        self._in_all = in_all
        self._of_address = of_address
        #: ``{connection: (address, whether it has a place of the reserve)}``.
        self._open: dict[object, tuple[str, bool]] = {}
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._reserved = 0

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: object, address: str) -> bool | None:
        """Take a connection; return whether it has a place of the reserve, None when there is no place for it."""
        is_full = len(self._open) - self._reserved >= self._in_all
        on_reserve = is_full or self._counts[address, False] >= self._of_address
        if on_reserve and (self._reserved >= RESERVE or self._counts[address, True] >= RESERVE_OF_ADDRESS):
            return None
        self._open[connection] = (address, on_reserve)
        self._counts[address, on_reserve] += 1
        self._reserved += on_reserve
        return on_reserve

    def release(self, connection: object) -> None:
        """Forget a connection that has closed."""
        entry = self._open.pop(connection, None)
        if entry is not None:
            self._counts[entry] -= 1
            self._reserved -= entry[1]
            if not self._counts[entry]:
                del self._counts[entry]


def raise_file_limit(wanted: int) -> int:
    """Raise the limit of open files to what the system allows; return for how many connections it is enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return min(wanted, max(soft, most) - OTHER_FILES - RESERVE)


class _Deadlines:
    """Cuts a connection whose other end takes too long for the head or the body of a request."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._phase: object = None
        self._timer: asyncio.TimerHandle | None = None

    def look(self, phase: object) -> None:
        """Begin a deadline when the other end begins with a part of a request; bytes of the same part do not."""
        if phase is self._phase:
            return
        self.end()
        self._phase = phase
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS + HEAD_SECONDS}.get(phase)  # type: ignore[call-overload]
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._transport.abort)

    def end(self) -> None:
        """End the deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _with_short_heads(protocol: type[asyncio.Protocol]) -> Any:
    """Return a protocol of HTTP for which a head that arrives at once is as long as one that arrives in parts."""

    class Sliced(protocol):  # type: ignore[misc, valid-type]
        def data_received(self, data: bytes) -> None:
            for start in range(0, len(data), REQUEST_PIECE):
                piece = data[start : start + REQUEST_PIECE]
                if (current := self.transport.get_protocol()) is not self:  # a WebSocket took the connection over
                    current.data_received(piece)
                elif not self.transport.is_closing():
                    super().data_received(piece)

    return Sliced


def _with_few_chunks(protocol: type[asyncio.Protocol]) -> Any:
    """Return a protocol of HTTP that parses thousands of small chunks of a body in pieces, with pauses for others.

    90 KB in chunks of one byte would hold the event loop for 0.2 s. A request with too many of them is refused.
    """

    class Patient(protocol):  # type: ignore[misc, valid-type]
        #: Bytes that wait to be parsed, and the small chunks of the present body.
        _unparsed = b""
        _n_small = 0

        def data_received(self, data: bytes) -> None:
            if self._unparsed or (len(data) > CHUNKED_PIECE and len(_SMALL_CHUNK.findall(data)) > FEW_CHUNKS):
                is_parsing = bool(self._unparsed)
                self._unparsed += data
                self.transport.pause_reading()
                if not is_parsing:
                    self._parse_piece()
            else:
                super().data_received(data)

        def _parse_piece(self) -> None:
            if self.transport.is_closing():
                self._unparsed = b""
                return
            piece, self._unparsed = self._unparsed[:CHUNKED_PIECE], self._unparsed[CHUNKED_PIECE:]
            self._n_small += len(_SMALL_CHUNK.findall(piece))
            super().data_received(piece)
            if self.conn.their_state is not h11.SEND_BODY:
                self._n_small = 0
            elif self._n_small > MAX_SMALL_CHUNKS:
                _refuse_chunks(self)
            if (current := self.transport.get_protocol()) is not self:  # a WebSocket took the connection over
                current.data_received(self._unparsed)
            elif self._unparsed:
                asyncio.get_running_loop().call_soon(self._parse_piece)
            elif not self.flow.read_paused:
                self.transport.resume_reading()

    return Patient


def _refuse_chunks(connection: Any) -> None:
    """End a connection of uvicorn's protocol of HTTP because of its chunks, with an answer unless one was begun."""
    connection._unparsed = b""
    if connection.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
        connection.send_400_response("Too many small chunks.")
    else:
        connection.transport.close()


def with_limits(protocol: type[asyncio.Protocol], gate: Gate) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol of HTTP with a place at the gate and deadlines for each request."""

    class Limited(_with_few_chunks(_with_short_heads(protocol))):  # type: ignore[misc]
        app_state: dict[str, Any]
        _deadlines: _Deadlines | None = None

        def connection_made(self, transport: Any) -> None:
            peer = transport.get_extra_info("peername")
            on_reserve = gate.admit(transport, peer[0] if isinstance(peer, tuple) else "")
            if on_reserve is None:
                transport.write(_BUSY)
                transport.close()
                return
            if on_reserve:
                self.app_state = {**self.app_state, ON_RESERVE: True}
            super().connection_made(transport)
            self._deadlines = _Deadlines(transport)
            self._deadlines.look(self.conn.their_state)

        def data_received(self, data: bytes) -> None:
            if self._deadlines is not None:
                super().data_received(data)
                self._deadlines.look(self.conn.their_state)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._deadlines is not None:
                self._deadlines.end()
                gate.release(self.transport)
                super().connection_lost(exc)

    return Limited


def _with_answered_handshakes(protocol: type[asyncio.Protocol]) -> Any:
    """Return a protocol of WebSocket that refuses a handshake which it cannot read; uvicorn would not answer it."""

    class Answering(protocol):  # type: ignore[misc, valid-type]
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:
                self.transport.write(_UNREADABLE)
                self.transport.close()

    return Answering


def _with_few_frames(protocol: type[asyncio.Protocol]) -> Any:
    """Return a protocol of WebSocket that parses in pieces, and cuts off a client that sends thousands of tiny frames.

    256 KiB of empty frames would take a second.
    """

    class Frugal(protocol):  # type: ignore[misc, valid-type]
        def data_received(self, data: bytes) -> None:
            start, size = 0, PIECE
            while start < len(data) and not self.transport.is_closing():
                self._n_frames = 0
                super().data_received(data[start : start + size])
                start += size
                if self._n_frames > FRAMES_OF_PIECE or len(self.frames) > MOST_FRAGMENTS:
                    self._end_socket(POLICY_VIOLATION, "too many small frames")
                size = 2 * size if self._n_frames <= FEW_FRAMES else PIECE

        def handle_events(self) -> None:
            self._n_frames = len(self.conn.events)
            super().handle_events()

        def send_receive_event_to_app(self) -> None:
            try:
                b"".join(self.frames).decode() if self.curr_msg_data_type == "text" else None
            except UnicodeDecodeError:  # uvicorn would write a traceback
                self._end_socket(NO_TEXT, "the text is not UTF-8")
                return
            super().send_receive_event_to_app()

        def _end_socket(self, code: int, reason: str) -> None:
            if not self.close_sent and self.handshake_complete:
                self.conn.fail(code, reason)
                self.handle_parser_exception()

    return Frugal


def with_small_packets(protocol: type[asyncio.Protocol], gate: Gate) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol of WebSocket, which takes a connection over, with its place at the gate.

    Every connection begins with the packets of a client; ``state.allow_packets`` of the request lets a link have larger
    ones once its token was checked.
    """

    class Measured(_with_few_frames(_with_answered_handshakes(protocol))):  # type: ignore[misc]
        app_state: dict[str, Any]

        def connection_made(self, transport: Any) -> None:
            self.app_state = {**self.app_state, ALLOW_PACKETS: self._allow_packets}
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            gate.release(self.transport)
            super().connection_lost(exc)

        def _allow_packets(self, size: int) -> None:
            # websockets 15 renamed the attribute
            setattr(self.conn, "max_message_size" if hasattr(self.conn, "max_message_size") else "max_size", size)

    return Measured
