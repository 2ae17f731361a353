"""A client's end of its link: what to send, what was received, how far its reader is. No socket, no clock.

Every client uses the same epoch, so that it continues the stream of its name even when it has no state: the broker's
greeting has the number of the last message that it received, and the first message that comes has the number at which
the other direction continues. Only a broker that lost its disk begins again; then everything that was not acknowledged
is sent again.

A message counts as read when every subscription that it was handed to has acknowledged it, and all before it. That
number is the *cursor*: it is sent to the broker, and a client may keep it in a file to continue after a crash.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tamis.errors import InvariantError, RemoteProtocolError
from tamis.node.cursor import Cursor
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.node.stream import CLIENT_EPOCH, Mark, StreamEnd, Window, Wire
from tamis.routing import messages as m
from tamis.routing.edge.refusals import MESSAGES
from tamis.runtime.packets import join_frames, split_frames

__all__ = ["ClientLink", "Outgoing"]

#: What may be under way without an acknowledgement; the broker keeps refusals for as many messages.
WINDOW = Window(MESSAGES)


@dataclass
class Outgoing:
    """A message for the broker, and what to call when it is durable there."""

    body: bytes
    confirmed: Callable[[], None] = lambda: None
    #: An unnumbered message that is sent before it, each time that it is sent.
    word: bytes = b""


class ClientLink:
    """The state of a client's end."""

    def __init__(self, name: str, cursor: Cursor | None = None) -> None:
        self.name = name
        self.cursor = Cursor() if cursor is None else cursor
        #: Whether the broker has greeted on the present wire.
        self.is_up = False
        #: Messages without a number yet.
        self.unsent: list[Outgoing] = []
        #: ``{number: handles}``: the messages that readers still have to acknowledge, in order. The first one of a dict
        #: would be found behind the slots of all that were deleted.
        self.unread: OrderedDict[int, int] = OrderedDict()
        self._end = StreamEnd(name, CLIENT_EPOCH)
        self._wire = Wire()
        #: What was sent and not acknowledged, by number.
        self._sent: dict[int, Outgoing] = {}
        #: Whether a message of the present wire has given the position of the broker's stream.
        self._is_placed = False
        #: The cursor that was sent to the broker, and the last message that the broker has acknowledged.
        self._sent_cursor = 0
        self._last_acknowledged = 0
        #: Acknowledged by the first frame of a wire; confirmed when the words beside it were dealt with.
        self._acknowledged: list[Outgoing] = []

    @property
    def broker(self) -> int:
        """The broker's life; 0 until it has greeted."""
        return self._end.peer_epoch

    @property
    def waiting(self) -> set[bytes]:
        """The messages that the broker has not acknowledged."""
        return {outgoing.body for outgoing in (*self._sent.values(), *self.unsent)}

    def lost(self) -> None:
        """Note that the wire is lost."""
        self.is_up = False

    def greeting(self) -> bytes:
        """Return the first packet on a new wire."""
        return join_frames([encode_frame(Frame(CLIENT_EPOCH, self.broker or self.cursor.epoch, 0, self.cursor.number))])

    def take(self, packet: bytes) -> list[tuple[int, m.Message]]:
        """Take a packet; return its new messages, words under number 0. Handle them, then call `settle`."""
        messages: list[tuple[int, m.Message]] = []
        for data in split_frames(packet, self.name):
            frame = decode_frame(data, self.name)
            if frame.to != CLIENT_EPOCH or frame.epoch < self.broker:
                continue
            if frame.epoch != self.broker:
                self._meet(frame)
            elif not self.is_up:
                self._go_on(frame)
            if frame.body:
                messages += self._message(frame)
            self._last_acknowledged = max(self._last_acknowledged, frame.ack)
        return messages

    def settle(self) -> None:
        """Confirm what the broker has acknowledged, after words are handled: refusals come with acknowledgements."""
        acknowledged, self._acknowledged = self._acknowledged, []
        self._end.acknowledge(self._last_acknowledged)
        acknowledged += [self._sent.pop(number) for number in list(self._sent) if number <= self._last_acknowledged]
        for outgoing in acknowledged:
            outgoing.confirmed()

    def packet(self) -> bytes | None:
        """Return the packet to send now, None when there is nothing to send."""
        if not self.is_up:
            return None
        while self.unsent and len(self._sent) < WINDOW.messages:
            self._end.append(self.unsent[0].body)
            self._sent[self._end.sent] = self.unsent.pop(0)
        self._wire.owes_answer = self._sent_cursor != self.cursor.number
        mark = Mark(self.broker, self.cursor.number, self._end.sent, CLIENT_EPOCH)
        frames = self._wire.take(self._end, mark, WINDOW, lambda link, after, limit: [])
        self._sent_cursor = self.cursor.number if frames else self._sent_cursor
        return join_frames(map(encode_frame, self._with_words(frames))) if frames else None

    def hand_out(self, number: int, handles: int) -> None:
        """Take note of how many readers a message was handed to."""
        self.unread[number] = handles
        if not handles:
            self._move()

    def acknowledge(self, number: int) -> bool:
        """Take note that one reader is done with a message; returns whether the cursor moved."""
        if not self.unread.get(number):
            return False
        self.unread[number] -= 1
        return self._move()

    # Inside

    def _with_words(self, frames: Sequence[Frame]) -> Iterator[Frame]:
        """Yield frames, each message after its word."""
        for frame in frames:
            outgoing = self._sent.get(frame.seq)
            if outgoing is not None and outgoing.word:
                yield Frame(frame.epoch, frame.to, 0, frame.ack, outgoing.word)
            yield frame

    def _meet(self, frame: Frame) -> None:
        """Begin with a life of the broker: the first life, or the next one of a broker that lost its disk."""
        is_first = not self.broker
        self.unsent = [*self._sent.values(), *self.unsent]
        self._sent, self._end = {}, StreamEnd(self.name, CLIENT_EPOCH)
        self._end.resume(frame.epoch, frame.ack)
        if not is_first or self.cursor.epoch != frame.epoch:
            self.unread.clear()
            self.cursor = Cursor(frame.epoch, 0)
        self._come_up(frame)
        self._sent_cursor = 0

    def _go_on(self, frame: Frame) -> None:
        """Continue on a new wire: what the broker has is confirmed, the rest is sent again under the same numbers."""
        self._acknowledged += [self._sent.pop(number) for number in list(self._sent) if number <= frame.ack]
        numbers = self._end.resume(frame.epoch, frame.ack)
        if dropped := sorted(self._sent.keys() - numbers.keys()):
            raise InvariantError(
                f"{self.name}: messages {dropped} are not confirmed, and the stream does not have them"
            )
        self._sent = {numbers[old]: outgoing for old, outgoing in self._sent.items()}
        self._come_up(frame)

    def _come_up(self, frame: Frame) -> None:
        self._last_acknowledged, self.is_up, self._wire = frame.ack, True, Wire.of(self._end)
        self._is_placed = False

    def _message(self, frame: Frame) -> list[tuple[int, m.Message]]:
        message = m.decode(frame.body, self.name)
        if not frame.seq:
            return [(0, message)]
        end = self._end
        # The first message of a wire may be beyond the next one: an acknowledgement that an earlier life of this
        # client sent has arrived since, and the broker has dropped what it covers.
        if not self._is_placed and frame.seq > end.received:
            end.received = frame.seq - 1
            if self.cursor.number < end.received and not self.unread:
                self.cursor = Cursor(self.broker, end.received)
        self._is_placed = True
        if frame.seq <= end.received:
            return []
        if not end.accept(frame):
            raise RemoteProtocolError(self.name, f"message {frame.seq} came after {end.received}")
        return [] if frame.seq <= self.cursor.number else [(frame.seq, message)]

    def _move(self) -> bool:
        """Move the cursor over what was read, up to the first message that was not; returns whether it moved."""
        last = 0
        while self.unread and not self.unread[first := next(iter(self.unread))]:
            del self.unread[first]
            last = first
        if last:
            self.cursor = Cursor(self.broker, last)
        return bool(last)
