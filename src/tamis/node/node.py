"""A node: a core behind reliable streams. Frames in, one transaction out.

`Node` is to a driver what a core is to `Node`: it takes frames and messages and returns a `Transaction`. The driver
commits its changes in one step and then sends the frames of the streams (`tamis.node.stream.Wire`); it makes no
decisions. Table changes, the outbox and the cursors of the links are in the same transaction (promise G11), so that a
crash at any point leaves either all of a message's effects or none of them, and a message without effects is sent
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tamis.errors import RemoteProtocolError
from tamis.node import records
from tamis.node.core import Core, Dropped, LinkRoom, LinkUp, Word
from tamis.node.effects import (
    Again,
    Answer,
    Attach,
    Deliver,
    Effect,
    Key,
    Leave,
    Link,
    Persist,
    Queue,
    Refill,
    Send,
    Tell,
)
from tamis.node.frames import Frame, decode_frame
from tamis.node.outbox import Backlog, ReadOutbox
from tamis.node.overflow import Overflows, overflow_of
from tamis.node.stream import Ends, Quota, StreamEnd, read_nothing

__all__ = ["Codec", "Late", "Node", "Transaction"]

AnyCore = TypeVar("AnyCore", bound=Core)


@dataclass(frozen=True)
class Codec:
    """Encodes messages as bytes and decodes them; ``decode`` gets the link, which its errors name."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes, Link], Any]


@dataclass(frozen=True, slots=True)
class Late:
    """A frame of a former life of the other end of a link: it was ignored, as ``count`` of the link were in all."""

    link: Link
    life: int
    current_life: int
    count: int


@dataclass
class Transaction:
    """The result of one call: commit ``changes`` in one step, then send the rest."""

    changes: list[Persist] = field(default_factory=list)
    #: The links whose streams have something to send or to acknowledge.
    links: set[Link] = field(default_factory=set)
    #: Unnumbered messages for the current connections of links.
    words: list[tuple[Link, Any]] = field(default_factory=list)
    #: The answer to the caller in this process.
    answer: Any = None
    #: Whether the core wants a `Tick` soon.
    again: bool = False
    #: ``{link: reason}`` of the streams that have ended: their connections must be closed.
    left: dict[Link, str] = field(default_factory=dict)
    #: Why the other end broke the protocol with its message, which was not applied: raise it after the commit.
    fault: RemoteProtocolError | None = None
    #: The frame of the other end that was ignored.
    late: Late | None = None

    def join(self, other: Transaction) -> Transaction:
        """Add the result of another call, to be committed in the same step; the first answer counts."""
        self.changes += other.changes
        self.links |= other.links
        self.words += other.words
        self.again |= other.again
        self.left |= other.left
        self.answer = other.answer if self.answer is None else self.answer
        return self


class Node(Generic[AnyCore]):
    """A core and its link ends.

    A call that raises has changed nothing on disk, but the node must no longer be used: start it again from its disk.
    `RemoteProtocolError` is the exception: nothing changed in memory either, and the other end broke the protocol. If
    its frame was in order and its message was not, the transaction has that error as its ``fault``: acknowledgements
    and a new life count, the message does not. The other end will send the same again, so close its connection.

    ``epoch`` is the number of this life, above that of every earlier one; with ``stored``, what an earlier life
    persisted, the node continues that life instead. With a ``quota`` the core is notified when the outbox of a link
    becomes full (`LinkFull`) and when it is free again (`LinkFree`), in the transaction that makes it so. What a core
    queues (`Queue`) may also wait behind the outbox; the core is told when that moves on, and what of it is dropped.

    ``backlogs`` are the messages that wait for links since an earlier life, and ``read`` reads messages from disk.
    """

    def __init__(
        self,
        core: AnyCore,
        links: Iterable[Link],
        codec: Codec,
        epoch: int,
        stored: Mapping[Key, bytes] | None = None,
        quota: Quota | None = None,
        ends: Ends | None = None,
        *,
        backlogs: Mapping[Link, Backlog] | None = None,
        read: ReadOutbox = read_nothing,
    ) -> None:
        self.core = core
        self.quota = quota
        self._codec = codec
        self._stored = stored or {}
        self._backlogs = backlogs or {}
        self._read = read
        life = records.EPOCH.find(self._stored)
        self.epoch = epoch if life is None else life
        #: ``{link: life}`` of links that were removed and added again; on all others it is `epoch`.
        self._lives = {link: life for (link,), life in records.LIFE.items(self._stored)}
        self._removed = {link: removed for (link,), removed in records.REMOVED.items(self._stored)}
        #: A core that must know the outboxes of its links shares this mapping, and only reads it.
        self.ends = Ends() if ends is None else ends
        self.ends.update((link, StreamEnd(link, self.life_on(link))) for link in links)
        self.overflows = Overflows(quota, read)

    def life_on(self, link: Link) -> int:
        """Return the life of this node on a link: a link that was added again has a later life than the others."""
        return self._lives.get(link, self.epoch)

    def start(self, now: float) -> Transaction:
        """Start: restore what was persisted, and greet the other end of every link."""
        stored, self._stored = self._stored, {}
        backlogs, self._backlogs = self._backlogs, {}
        for (link,), _ in records.LINK.items(stored):
            self.ends.setdefault(link, StreamEnd(link, self.life_on(link)))
        for link, end in self.ends.items():
            end.restore(records.LINK.find(stored, link), backlogs.get(link))
            end.before = self._removed.get(link)
            if (former := records.FORMER.find(stored, link)) is not None:
                end.wait_restored(former)
        self.overflows.restore(stored, backlogs, self.ends)
        step = _Step(self, now)
        step.transaction.changes.append(records.EPOCH.put(value=self.epoch))
        step.follow(self.core.restore(stored, now=now))
        step.transaction.links.update(self.ends)
        step.resized.update(self.ends)
        return step.done()

    def find(self, name: Link) -> StreamEnd | None:
        """Return the stream of a link, or the overflow of that name; None: there is no such."""
        return self.ends[name] if name in self.ends else self.overflows.find(name)

    def attach(self, links: Iterable[Link], now: float, *, epoch: int | None = None) -> Transaction:
        """Add new links; with ``epoch`` their other ends always have that life."""
        step = _Step(self, now)
        for link in links:
            if link not in self.ends:
                end = self.ends[link] = StreamEnd(link, self.life_on(link))
                step.moved.add(link)
                if epoch is not None:  # nothing was sent before, so the core need not send anything again
                    end.peer_epoch = epoch
        return step.done()

    def detach(self, link: Link, now: float) -> Transaction:
        """Remove a link that is no longer used, with all that waits for it; does nothing if there is no such link."""
        step = _Step(self, now)
        end = self.ends.pop(link, None)
        if end is not None:
            step.transaction.changes += [*end.acknowledge(end.sent), records.LINK.drop(link)]
            step.transaction.changes += self.overflows.forget(link)
        return step.done()

    def join(self, link: Link, now: float) -> Transaction:
        """Add a link to a neighbour. If it was removed before, its stream begins a new life.

        The other end is first told what this end received in the former life, so that nothing is received twice.
        """
        step = _Step(self, now)
        removed = self._removed.get(link)
        if removed is not None:
            self._lives[link] = max(self.life_on(link), removed.epoch) + 1
            step.transaction.changes.append(records.LIFE.put(link, value=self._lives[link]))
        end = self.ends[link] = StreamEnd(link, self.life_on(link))
        end.before = removed
        step.moved.add(link)
        return step.done()

    def part(self, link: Link, now: float) -> Transaction:
        """Remove the link to a neighbour, with all that waits for it, and remember where its stream ended."""
        end = self.ends[link]
        parted = self.detach(link, now)
        parted.changes += [records.FORMER.drop(link)] if end.former is not None else []
        if end.peer_epoch and end.before is None:
            removed = self._removed[link] = records.Removed(end.epoch, end.peer_epoch, end.received)
            parted.changes.append(records.REMOVED.put(link, value=removed))
        return parted

    def waiting(self, link: Link) -> tuple[list[Any], list[Any]]:
        """Return the messages that wait for a link: in its outbox, and in its overflow."""
        outbox = self.ends[link].outbox.bodies(link, self._read)
        overflow = self.overflows.waiting(link).bodies(overflow_of(link), self._read)
        in_outbox, behind = ([self._codec.decode(body, link) for body in bodies] for bodies in (outbox, overflow))
        return in_outbox, behind

    def acknowledge(self, link: Link, number: int, now: float) -> Transaction:
        """Note that the other end of a link, which this process acts for, has read up to a number."""
        step = _Step(self, now)
        step.acknowledge(self.ends[link], number)
        return step.done()

    def receive(self, data: bytes, *, link: Link, now: float, only_epoch: int | None = None) -> Transaction:
        """Handle a frame from the wire; with ``only_epoch`` the other end always has that life."""
        frame, end, step = decode_frame(data, link), self.ends[link], _Step(self, now)
        if only_epoch is not None and frame.epoch != only_epoch:
            raise RemoteProtocolError(link, f"expected epoch {only_epoch} of a client, got {frame.epoch}")
        message = self._codec.decode(frame.body, link) if frame.seq else None  # before anything changes: it may raise
        word = self._find_word(frame, link) if only_epoch is None else None
        if frame.epoch < end.peer_epoch:
            return Transaction(late=_late(end, frame.epoch))
        if end.former is not None:
            step.go_on_restored(end, frame, is_client=only_epoch is not None)
        elif frame.epoch > end.peer_epoch:
            step.meet(end, frame.epoch)
        if not end.is_for_me(frame):  # it is for a former life of ours: the other end must learn of this one
            step.transaction.links.add(link)
            return step.done()
        if end.before is not None:  # it knows this life, so it was told the end of the one before
            end.before = None
            del self._removed[link]
            step.transaction.changes.append(records.REMOVED.drop(link))
        try:
            if only_epoch is None:
                end.demand_no_hole(frame)
            step.acknowledge(end, frame.ack)
            if word is not None:
                self._handle(step, word, link)
            if frame.seq:
                step.transaction.links.add(link)
                self._take(step, message, frame, end)
        except RemoteProtocolError as error:
            step.transaction.fault = error
        return step.done()

    def submit(self, message: Any, *, sender: Link, now: float) -> Transaction:
        """Pass the core a message from this process: of a user, a timer, or a client that it acts for."""
        step = _Step(self, now)
        self._handle(step, message, sender)
        return step.done()

    def _take(self, step: _Step, message: Any, frame: Frame, end: StreamEnd) -> None:
        """Pass the core a message if it is the next one; it counts as received only if the core applies it."""
        if not end.accept(frame):
            return
        step.moved.add(end.link)
        try:
            self._handle(step, message, end.link)
        except RemoteProtocolError:
            end.received -= 1
            raise

    def _find_word(self, frame: Frame, link: Link) -> Word | None:
        """Return the unnumbered message of a neighbour's frame; one of a later release is ignored."""
        if frame.seq or not frame.body:
            return None
        try:
            return Word(self._codec.decode(frame.body, link))
        except RemoteProtocolError:
            return None

    def _handle(self, step: _Step, message: Any, link: Link) -> None:
        step.follow(self.core.handle(message, sender=link, now=step.now))


def _late(end: StreamEnd, life: int) -> Late:
    end.n_late += 1
    return Late(end.link, life, end.peer_epoch, end.n_late)


class _Step:
    """The transaction of one call while it grows."""

    def __init__(self, node: Node[Any], now: float) -> None:
        self.node = node
        self.now = now
        self.transaction = Transaction()
        #: Links whose cursor moved.
        self.moved: set[Link] = set()
        #: Links whose outbox changed its size since the core was told.
        self.resized: set[Link] = set()
        #: Links whose overflow grew since its excess was dropped.
        self.overflown: set[Link] = set()

    def meet(self, end: StreamEnd, epoch: int) -> None:
        waiting, forgotten = end.meet(epoch, self.node._read)
        self.transaction.changes += forgotten
        self.moved.add(end.link)
        self.resized.add(end.link)
        overflow, moved = self.node.overflows.take_all(end.link)
        self.transaction.changes += moved
        self.node._handle(self, LinkUp(self._decoded(waiting, end.link), self._decoded(overflow, end.link)), end.link)

    def go_on_restored(self, end: StreamEnd, frame: Frame, *, is_client: bool) -> None:
        """Begin the new life of a restored disk on a link whose other end has answered.

        If the other end knows the former life, its acknowledgement tells which of the restored messages it has. A
        client continues the numbers of its stream; with a neighbour everything starts over. Messages behind the
        restored ones may have come from the overflow, so that is dropped if the other end has any of them.
        """
        former, end.former, end.epoch = end.former, None, self.node.life_on(end.link)
        self.transaction.changes.append(records.FORMER.drop(end.link))
        self.transaction.links.add(end.link)
        if former is not None and (frame.to, frame.epoch) == (former.epoch, end.peer_epoch):
            self.acknowledge(end, min(frame.ack, former.sent))
            if frame.ack > former.sent:
                self._drop(end.link, *self.node.overflows.take_all(end.link))
        if not is_client or frame.epoch != end.peer_epoch:  # the first contact with a client
            self.meet(end, frame.epoch)

    def acknowledge(self, end: StreamEnd, number: int) -> None:
        self.transaction.changes += end.acknowledge(number)
        self.resized.add(end.link)

    def follow(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                self.transaction.changes.append(effect)
            elif isinstance(effect, Send | Deliver):
                self.moved.add(effect.link)
                self.resized.add(effect.link)
                self.transaction.changes += self.node.ends[effect.link].append(self.node._codec.encode(effect.message))
            elif isinstance(effect, Queue):
                self._queue(effect)
            elif isinstance(effect, Refill):
                end = self.node.ends[effect.link]
                if changes := self.node.overflows.refill(end, is_all=effect.is_all):
                    self.transaction.changes += changes
                    self.moved.add(effect.link)
                    self.resized.add(effect.link)
            elif isinstance(effect, Tell):
                self.transaction.words.append((effect.link, effect.message))
            elif isinstance(effect, Answer):
                self.transaction.answer = effect.value
            elif isinstance(effect, Attach):
                self.node.ends.rest(effect.links, epoch=self.node.epoch)
            elif isinstance(effect, Leave):
                self._leave(effect)
            elif isinstance(effect, Again):
                self.transaction.again = True

    def _queue(self, effect: Queue) -> None:
        link, overflows = effect.link, self.node.overflows
        if not effect.is_held and overflows.may_pass(self.node.ends[link]):
            self.follow([Send(link, effect.message)])
            return
        body = self.node._codec.encode(effect.message)
        name, changes = overflows.append(link, body, is_held=effect.is_held)
        self.transaction.changes += changes
        self.moved.add(name)
        self.overflown.add(link)

    def _drop(self, link: Link, bodies: list[bytes], changes: list[Persist]) -> None:
        """Tell the core which messages of an overflow were dropped."""
        if bodies:
            self.transaction.changes += changes
            self.node._handle(self, Dropped(self._decoded(bodies, link)), link)

    def _decoded(self, bodies: Iterable[bytes], link: Link) -> tuple[Any, ...]:
        return tuple(self.node._codec.decode(body, link) for body in bodies)

    def _leave(self, effect: Leave) -> None:
        self.transaction.join(self.node.part(effect.link, self.now))
        self.transaction.left[effect.link] = effect.reason
        for links in (self.moved, self.resized, self.overflown):
            links.discard(effect.link)
        self.moved.discard(overflow_of(effect.link))

    def done(self) -> Transaction:
        """Complete the transaction with the cursors of all links that moved."""
        self._offer_room()
        while self.overflown or self.resized:
            overflown, self.overflown = sorted(self.overflown), set()
            for link in overflown:
                self._drop(link, *self.node.overflows.take_excess(link))
            self._report_sizes()
        for name in sorted(self.moved):
            stream = self.node.find(name)
            self.transaction.changes += [] if stream is None else [stream.cursor()]
        self.transaction.links |= self.moved
        return self.transaction

    def _offer_room(self) -> None:
        """Tell the core which outboxes have room for what waits behind them."""
        overflows = self.node.overflows
        for link in sorted(link for link in overflows.due if overflows.has_half(self.node.ends[link])):
            overflows.due.discard(link)
            self.node._handle(self, LinkRoom(), link)

    def _report_sizes(self) -> None:
        """Tell the core which outboxes became full or free; its effects may fill others."""
        quota = self.node.quota
        while self.resized:
            links, self.resized = sorted(self.resized), set()
            for link in links:
                crossing = None if quota is None else self.node.ends[link].take_crossing(quota)
                if crossing is not None:
                    self.node._handle(self, crossing, link)
