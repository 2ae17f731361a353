"""The overflow of a link: what finds no room in the outbox waits in order, and the oldest of too many is dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tamis.node import records
from tamis.node.core import Dropped, LinkFree, LinkFull, LinkRoom, LinkUp
from tamis.node.effects import Effect, Key, Link, Persist, Queue, Refill, Send
from tamis.node.frames import Frame, encode_frame
from tamis.node.node import Codec, Node, Transaction
from tamis.node.overflow import overflow_of, share
from tamis.node.stream import Quota
from tamis.runtime.simulation.disk import SimulatedDisk

CODEC = Codec(lambda text: str(text).encode(), lambda data, link: data.decode())

#: One message in the outbox, three behind it.
QUOTA = Quota(4, 1_000)


class Dropping:
    """A core that queues what it is told to, numbers it when there is room, and notes what is dropped."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self.is_skipped = False
        #: Sent before what has waited.
        self.gap = ""

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        if isinstance(message, LinkRoom):
            gap, self.gap = self.gap, ""
            return [] if self.is_skipped else [*([Send(sender, gap)] if gap else []), Refill(sender)]
        if isinstance(message, Dropped):
            self.dropped += message.messages
            self.gap = f"gap of {len(self.dropped)}"
            return [Persist(("received", "dropped"), " ".join(self.dropped).encode())]
        if isinstance(message, LinkUp):
            sent = [Send(sender, text) for text in message.unacknowledged]
            return [*sent, *(Queue(sender, text) for text in message.overflow)]
        if isinstance(message, LinkFull | LinkFree):
            return []
        if message == "resume":
            return [Refill("b")]
        if message.startswith("update"):
            return [Send("b", message)]
        return [Queue("b", message, is_held=self.is_skipped)]

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        self.dropped = stored.get(("received", "dropped"), b"").decode().split()
        return []

    def check_invariants(self) -> None: ...


class Broker:
    """A node with a disk, whose neighbour ``b`` is these tests."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self.disk = SimulatedDisk() if disk is None else disk
        self.core = Dropping()
        self.node = Node(
            self.core,
            ["b"],
            CODEC,
            7,
            self.disk.load(),
            QUOTA,
            backlogs=self.disk.backlogs(),
            read=self.disk.read_outbox,
        )
        self.commit(self.node.start(0.0))

    def commit(self, transaction: Transaction) -> None:
        self.disk.commit(transaction.changes)
        for name in transaction.links:
            stream = self.node.find(name)
            if stream is not None:
                stream.spill(stream.sent, keep_bytes=0)  # bodies are read from the disk

    def submit(self, *texts: str) -> None:
        for text in texts:
            self.commit(self.node.submit(text, sender="", now=0.0))

    def hear(self, ack: int, *, epoch: int = 1, seq: int = 0) -> None:
        """Receive an acknowledgement of ``b``."""
        frame = encode_frame(Frame(epoch, self.node.epoch, seq, ack))
        self.commit(self.node.receive(frame, link="b", now=0.0))

    def outbox(self) -> dict[int, str]:
        """Return the numbered messages that wait for ``b``."""
        first = self.node.ends["b"].acknowledged + 1
        return dict(enumerate(self.node.waiting("b")[0], first))

    def overflow(self) -> list[str]:
        return self.node.waiting("b")[1]


def words(*numbers: int) -> list[str]:
    return [f"e{number}" for number in numbers]


def broker_with(events: Iterable[str]) -> Broker:
    broker = Broker()
    broker.hear(0)
    broker.submit(*events)
    return broker


def test_the_newest_survive_and_the_oldest_are_dropped_with_the_gap_before_the_others() -> None:
    broker = broker_with(words(*range(1, 10)))
    assert share(QUOTA) == (Quota(1, 125), Quota(3, 875))
    assert (broker.outbox(), broker.overflow()) == ({1: "e1"}, words(7, 8, 9))
    assert broker.core.dropped == words(2, 3, 4, 5, 6)
    broker.hear(1)
    assert (broker.outbox(), broker.overflow()) == ({2: "gap of 5"}, words(7, 8, 9))
    seen = []
    while waiting := broker.outbox():
        seen += waiting.values()
        broker.hear(max(waiting))
    assert seen == ["gap of 5", *words(7, 8, 9)]
    assert (broker.node.overflows.due, broker.disk.backlogs()) == (set(), {})


def test_other_messages_overtake_what_waits() -> None:
    broker = broker_with(["e1", "e2", "update 1"])
    assert (broker.outbox(), broker.overflow()) == ({1: "e1", 2: "update 1"}, ["e2"])


def test_nothing_passes_what_waits() -> None:
    broker = broker_with(["update 1", "e1", "e2"])
    broker.core.is_skipped = True
    broker.hear(1)
    assert (broker.outbox(), broker.overflow()) == ({}, ["e1", "e2"])
    broker.core.is_skipped = False
    broker.submit("e3")
    assert (broker.outbox(), broker.overflow()) == ({2: "e1"}, ["e2", "e3"])


def test_what_is_held_waits_for_a_refill() -> None:
    broker = Broker()
    broker.core.is_skipped = True
    broker.submit("e1", "e2")
    assert (broker.outbox(), broker.overflow()) == ({}, ["e1", "e2"])
    broker.core.is_skipped = False
    broker.submit("resume")
    assert (broker.outbox(), broker.overflow()) == ({1: "e1"}, ["e2"])
    broker.hear(0)
    broker.hear(1)
    assert broker.outbox() == {2: "e2"}


def test_a_restart_goes_on_with_what_waits() -> None:
    broker = Broker(broker_with(words(*range(1, 6))).disk)
    assert (broker.outbox(), broker.overflow(), broker.core.dropped) == ({1: "e1"}, words(3, 4, 5), ["e2"])
    broker.hear(1)
    broker = Broker(broker.disk)
    assert (broker.outbox(), broker.overflow()) == ({2: "e3"}, ["e4", "e5"])
    broker.submit("e6", "e7")
    assert (broker.overflow(), broker.core.dropped) == (words(5, 6, 7), ["e2", "e4"])


def test_bytes_fill_an_overflow_and_its_newest_message_stays() -> None:
    large = [f"e{number}" + 400 * "x" for number in range(4)]
    broker = broker_with([large[0], *large[1:]])
    assert (list(broker.outbox().values()), broker.overflow(), broker.core.dropped) == (
        large[:1],
        large[2:],
        [large[1]],
    )
    huge = 2_000 * "y"
    broker.submit(huge)
    assert (broker.overflow(), broker.core.dropped) == ([huge], large[1:])


def test_a_gap_of_an_earlier_release_is_told_when_there_is_room() -> None:
    disk = SimulatedDisk()
    disk.commit([records.LINK_GAP.put("b", "x", value=b"")])  # with no overflow beside it
    assert Broker(disk).node.overflows.due == set()
    busy = broker_with(["e1"]).disk
    busy.commit([records.LINK_GAP.put("b", "x", value=b"")])
    broker = Broker(busy)
    assert broker.node.overflows.due == {"b"}
    broker.core.gap = "gap"
    broker.hear(1)
    assert broker.outbox() == {2: "gap"}


def test_a_new_life_of_the_other_end_gets_what_waited_in_order() -> None:
    broker = broker_with(["e1", "e2", "update 1", "e3"])
    broker.hear(0, epoch=2)
    assert (broker.outbox(), broker.overflow()) == ({1: "e1", 2: "update 1"}, ["e2", "e3"])


def test_what_waits_is_forgotten_with_the_link() -> None:
    broker = broker_with(words(1, 2, 3))
    broker.commit(broker.node.part("b", 0.0))
    assert not [key for key in broker.disk.state if key[0] in (records.OVERFLOW.name, records.OVERFLOW_END.name)]
    broker.commit(broker.node.join("b", 0.0))
    assert broker.node.waiting("b") == ([], [])


def restored(disk: SimulatedDisk) -> Broker:
    """Return a broker whose disk was restored from a backup."""
    former = records.Former(7, 1)
    disk.commit([records.FORMER.put("b", value=former), records.EPOCH.put(value=8)])
    return Broker(disk)


def test_what_waited_at_a_backup_is_sent_unless_the_other_end_may_have_it() -> None:
    backup = broker_with(words(1, 2, 3)).disk
    broker = restored(backup.copy())
    assert broker.overflow() == ["e2", "e3"]
    frame = Frame(1, 7, 0, 1)  # it has the one numbered message
    broker.commit(broker.node.receive(encode_frame(frame), link="b", now=0.0))
    assert (broker.outbox(), broker.overflow(), broker.core.dropped) == ({1: "e2"}, ["e3"], [])
    broker = restored(backup.copy())
    frame = Frame(1, 7, 0, 2)  # and one that was numbered after the backup
    broker.commit(broker.node.receive(encode_frame(frame), link="b", now=0.0))
    assert (broker.overflow(), broker.core.dropped) == ([], ["e2", "e3"])


def test_the_name_of_an_overflow_is_that_of_no_broker_or_client() -> None:
    assert overflow_of("b") == "o:b"
    assert Broker().node.find("o:b") is None
