"""A node: a core behind reliable links. Frames in, one transaction out.

`Node` is to a driver what a core is to `Node`: it takes frames and ticks and returns a `Transaction`. The driver
commits its changes in one step and then lets its frames leave; it decides nothing. Table changes, the outbox and the
cursors of the links are in the same transaction (promise G11), so that a crash at any point leaves either all
of a message's effects or none of them, and a message without effects is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tamis.errors import RemoteProtocolError
from tamis.node import records
from tamis.node.core import Core, LinkUp
from tamis.node.effects import Again, Deliver, Effect, Key, Link, Persist, Send
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.node.link_end import LinkEnd, Quota

__all__ = ["RETRY_SECONDS", "Codec", "Node", "Transaction"]

#: After so long without an acknowledgement the outbox of a link is sent again.
RETRY_SECONDS = 1.0

AnyCore = TypeVar("AnyCore", bound=Core)


@dataclass(frozen=True)
class Codec:
    """How messages become bytes and bytes become messages; ``decode`` is told the link for its errors."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes, Link], Any]


@dataclass
class Transaction:
    """What follows from one call: commit ``changes`` in one step, then send ``frames``."""

    changes: list[Persist] = field(default_factory=list)
    frames: list[tuple[Link, bytes]] = field(default_factory=list)
    #: Whether the core wants a `Tick` soon.
    again: bool = False


class Node(Generic[AnyCore]):
    """A core and its link ends.

    A call that raises has changed nothing that lasts, but the node is not to be used any more: start it again from
    its disk. A neighbour that breaks the protocol (`RemoteProtocolError`) will send the same again, so cut it off.

    ``epoch`` is the number of this life, above that of every earlier one; with ``stored``, what an earlier life
    persisted, the node goes on with that life instead. With a ``quota`` the core hears when the outbox of a link
    becomes full (`LinkFull`) and when it is free again (`LinkFree`), in the transaction that makes it so.
    """

    def __init__(
        self,
        core: AnyCore,
        links: Iterable[Link],
        codec: Codec,
        epoch: int,
        stored: Mapping[Key, bytes] | None = None,
        quota: Quota | None = None,
    ) -> None:
        self.core = core
        self.quota = quota
        self._codec = codec
        self._stored = stored or {}
        life = records.EPOCH.find(self._stored)
        self.epoch = epoch if life is None else life
        self.ends = {link: LinkEnd(link, self.epoch) for link in links}

    def start(self, now: float) -> Transaction:
        """Take up life: restore what was persisted and greet everybody."""
        stored, self._stored = self._stored, {}
        of_link: dict[Link, dict[Key, bytes]] = {}  # sorted out once: there may be a link for each subscription
        for key, value in stored.items():
            if key[0] in (records.LINK.name, records.OUT.name):
                of_link.setdefault(key[1], {})[key] = value
        for (link,), _ in records.LINK.items(stored):
            self.ends.setdefault(link, LinkEnd(link, self.epoch))
        for link, end in self.ends.items():
            end.restore(of_link.get(link, {}))
        step = _Step(self, now)
        step.transaction.changes.append(records.EPOCH.put(value=self.epoch))
        step.follow(self.core.restore(stored, now=now))
        step.answers.update(self.ends)
        step.resized.update(self.ends)
        return step.done()

    def attach(self, link: Link, now: float) -> Transaction:
        """Add a link to somebody new; nothing happens when it is there already."""
        step = _Step(self, now)
        if link not in self.ends:
            self.ends[link] = LinkEnd(link, self.epoch)
            step.answers.add(link)
            step.moved.add(link)
        return step.done()

    def detach(self, link: Link, now: float) -> Transaction:
        """Forget a link that nobody uses any more, with all that waits for it; it need not be there."""
        step = _Step(self, now)
        end = self.ends.pop(link, None)
        if end is not None:
            step.transaction.changes += [*end.acknowledge(end.sent), records.LINK.drop(link)]
        return step.done()

    def receive(self, data: bytes, *, link: Link, now: float, only_epoch: int | None = None) -> Transaction:
        """Take a frame from the wire; with ``only_epoch`` the other end has that life and never begins another."""
        frame, end, step = decode_frame(data, link), self.ends[link], _Step(self, now)
        if only_epoch is not None and frame.epoch != only_epoch:
            raise RemoteProtocolError(link, f"expected epoch {only_epoch} of a client, got {frame.epoch}")
        message = self._codec.decode(frame.body, link) if frame.seq else None  # before anything changes: it may raise
        if frame.epoch < end.peer_epoch:  # the voice of a former life
            return step.transaction
        if frame.epoch > end.peer_epoch:
            step.meet(end, frame.epoch)
        if not end.is_for_me(frame):  # it speaks to a former life of ours: it must learn of this one
            step.answers.add(link)
            return step.done()
        step.transaction.changes += end.acknowledge(frame.ack)
        step.resized.add(link)
        if frame.seq:
            step.answers.add(link)
            if end.accept(frame):
                step.moved.add(link)
                self._handle(step, message, link)
        return step.done()

    def submit(self, message: Any, *, sender: Link, now: float) -> Transaction:
        """Give the core a message of somebody in this process: a user, a timer."""
        step = _Step(self, now)
        self._handle(step, message, sender)
        return step.done()

    def tick(self, now: float) -> Transaction:
        """Send again what was not acknowledged for long."""
        step = _Step(self, now)
        for end in self.ends.values():
            if end.is_waiting and now - end.tried >= RETRY_SECONDS:
                end.tried = now
                frames = list(end.frames()) or [end.greeting()]
                step.transaction.frames += [(end.link, encode_frame(one)) for one in frames]
        return step.transaction

    @property
    def is_waiting(self) -> bool:
        """Whether some link owes something, so that a tick will be needed."""
        return any(end.is_waiting for end in self.ends.values())

    def _handle(self, step: _Step, message: Any, link: Link) -> None:
        step.follow(self.core.handle(message, sender=link, now=step.now))


class _Step:
    """The transaction of one call while it grows."""

    def __init__(self, node: Node[Any], now: float) -> None:
        self.node = node
        self.now = now
        self.transaction = Transaction()
        #: ``{link: number}``: where the outbox of a link ended before this call.
        self.starts: dict[Link, int] = {}
        #: Links whose cursor moved, and links that expect a word.
        self.moved: set[Link] = set()
        self.answers: set[Link] = set()
        #: Links whose outbox has another size than the core knows of.
        self.resized: set[Link] = set()

    def meet(self, end: LinkEnd, epoch: int) -> None:
        waiting, forgotten = end.meet(epoch)
        self.transaction.changes += forgotten
        self.moved.add(end.link)
        self.answers.add(end.link)
        self.resized.add(end.link)
        unacknowledged = tuple(self.node._codec.decode(body, end.link) for body in waiting)
        self.node._handle(self, LinkUp(unacknowledged), end.link)

    def follow(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                self.transaction.changes.append(effect)
            elif isinstance(effect, Again):
                self.transaction.again = True
            elif isinstance(effect, Send | Deliver):
                end = self.node.ends[effect.link]
                self.starts.setdefault(effect.link, end.sent)
                self.moved.add(effect.link)
                self.resized.add(effect.link)
                self.transaction.changes += end.append(self.node._codec.encode(effect.message))

    def done(self) -> Transaction:
        """Close the transaction: cursors to the disk, new messages and acknowledgements to the wire."""
        self._report_sizes()
        for link in sorted(self.moved):
            self.transaction.changes.append(self.node.ends[link].cursor())
        for link in sorted(self.answers | self.starts.keys()):
            self.transaction.frames += [(link, encode_frame(one)) for one in self._frames(link)]
        return self.transaction

    def _report_sizes(self) -> None:
        """Tell the core which outboxes became full or free; what it says to that may fill others."""
        quota = self.node.quota
        while quota is not None and self.resized:
            links, self.resized = sorted(self.resized), set()
            for link in links:
                crossing = self.node.ends[link].take_crossing(quota)
                if crossing is not None:
                    self.node._handle(self, crossing, link)

    def _frames(self, link: Link) -> list[Frame]:
        end = self.node.ends[link]
        frames = list(end.frames(after=self.starts[link])) if link in self.starts else []
        if frames:
            end.tried = self.now
        elif link in self.answers or not end.peer_epoch:
            frames = [end.greeting()]
        return frames
