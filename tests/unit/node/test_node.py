"""A node: frames in, one transaction out, whatever the wire does."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from tamis.errors import RemoteProtocolError
from tamis.node import records
from tamis.node.core import LinkUp
from tamis.node.effects import Effect, Key, Link, Persist, Send
from tamis.node.frames import Frame, encode_frame
from tamis.node.node import Codec, Late, Node, Transaction
from tamis.node.outbox import Backlog, ReadOutbox
from tamis.node.stream import Window, Wire, read_nothing
from tests.effort import effort

CODEC = Codec(lambda text: str(text).encode(), lambda data, link: data.decode())


class Echo:
    """A core that notes what it receives, keeps it, and answers what ends with a question mark."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        if str(message).startswith("forbidden"):
            raise RemoteProtocolError(sender, message)
        self.received.append(message)
        if isinstance(message, LinkUp):
            return [Send(sender, pending) for pending in message.unacknowledged]
        kept: list[Effect] = [Persist(("received", str(len(self.received))), str(message).encode())]
        if sender == "":
            return [*kept, Send("b" if message.startswith("to b") else "a", message)]
        return [*kept, Send(sender, "yes")] if message.endswith("?") else kept

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        self.received = [stored[key].decode() for key in sorted(stored) if key[0] == "received"]
        return []

    def check_invariants(self) -> None: ...


class Pair:
    """Two nodes with disks, and a wire between them that can break."""

    def __init__(self) -> None:
        self.disks: dict[str, dict[Key, bytes]] = {"a": {}, "b": {}}
        self.nodes = {"a": Node(Echo(), ["b"], CODEC, 1), "b": Node(Echo(), ["a"], CODEC, 1)}
        self.wires: dict[str, Wire] = {}
        self.reads: dict[str, ReadOutbox] = dict.fromkeys(self.nodes, read_nothing)
        for name in self.nodes:
            self.commit(name, self.nodes[name].start(0.0))
        self.connect()

    def commit(self, name: str, transaction: Transaction) -> None:
        for change in transaction.changes:
            if change.value is None:
                self.disks[name].pop(change.key, None)
            else:
                self.disks[name][change.key] = change.value

    def connect(self) -> None:
        """Let a new wire take the place of the old one, and exchange what waits."""
        self.wires = {name: Wire.of(node.ends[other(name)]) for name, node in self.nodes.items()}
        self.exchange()

    def submit(self, name: str, text: str) -> None:
        self.commit(name, self.nodes[name].submit(text, sender="", now=0.0))

    def frames(self, name: str) -> list[Frame]:
        """Return what a node may send now."""
        end = self.nodes[name].ends[other(name)]
        return self.wires[name].take(end, end.mark, Window(), self.reads[name])

    def exchange(self) -> None:
        """Carry frames until neither node has any."""
        sent = {name: self.frames(name) for name in self.nodes}
        while any(sent.values()):
            for name, frames in sent.items():
                for frame in frames:
                    self.receive(other(name), frame)
            sent = {name: self.frames(name) for name in self.nodes}

    def receive(self, name: str, frame: Frame) -> Transaction:
        transaction = self.nodes[name].receive(encode_frame(frame), link=other(name), now=0.0)
        self.commit(name, transaction)
        self.wires[name].owes_answer |= bool(transaction.links)
        return transaction

    def received(self, name: str) -> list[str]:
        return [message for message in self.nodes[name].core.received if isinstance(message, str)]


def other(name: str) -> str:
    return "b" if name == "a" else "a"


def test_messages_arrive_in_order_and_answers_come_back() -> None:
    pair = Pair()
    for text in ("to b 1", "to b 2?", "to b 3"):
        pair.submit("a", text)
        pair.exchange()
    assert pair.received("b") == ["to b 1", "to b 2?", "to b 3"]
    assert "yes" in pair.received("a")
    assert not [key for disk in pair.disks.values() for key in disk if key[0] == "out"]


def test_what_a_wire_lost_is_sent_again_on_the_next_and_what_came_is_taken_once() -> None:
    pair = Pair()
    pair.submit("a", "to b lost")
    pair.frames("a")  # it breaks with this
    pair.connect()
    pair.submit("a", "to b came")
    for frame in pair.frames("a"):
        pair.nodes["b"].receive(encode_frame(frame), link="a", now=0.0)  # it breaks with the acknowledgement
    pair.connect()
    assert pair.received("b") == ["to b lost", "to b came"]
    assert not pair.nodes["a"].ends["b"].outbox


def test_a_refused_message_of_a_new_life_leaves_memory_and_disk_alike() -> None:
    pair = Pair()
    for n in range(3):
        pair.submit("a", f"to b {n}")
        pair.exchange()
    pair.submit("a", "to b late")  # it waits as number 4 of the stream to the former life of b
    node, disk = pair.nodes["a"], pair.disks["a"]
    transaction = pair.receive("a", Frame(2, 1, 1, 0, b"forbidden"))
    assert transaction.fault is not None
    end = node.ends["b"]
    assert (end.peer_epoch, end.received) == (2, 0)
    assert [int(key[2]) for key in disk if key[0] == "out"] == [end.sent] == [1]
    assert records.LINK.find(disk, "b") == records.LinkPosition(2, 0, 1)
    assert pair.receive("a", Frame(2, 1, 1, 0, b"well")).fault is None  # the same number again
    assert pair.received("a")[-1] == "well"


def test_an_acknowledgement_of_what_was_never_sent_breaks_the_protocol() -> None:
    pair = Pair()
    pair.submit("a", "to b late")
    transaction = pair.receive("a", Frame(1, 1, 0, 2**62))
    assert "it acknowledges message 4611686018427387904, the last one is 1" in str(transaction.fault)
    assert list(pair.nodes["a"].ends["b"].outbox.bodies("b", read_nothing)) == [b"to b late"]


def test_all_of_a_message_is_in_one_transaction() -> None:
    pair = Pair()
    pair.submit("a", "to b?")
    [frame] = pair.frames("a")
    transaction = pair.receive("b", frame)
    keys = {change.key for change in transaction.changes}
    assert {("received", "2"), ("out", "a", "1"), ("link", "a")} <= keys
    [answer] = pair.frames("b")
    assert (answer.seq, answer.ack, answer.body) == (1, 1, b"yes")


def test_a_restart_with_the_disk_loses_nothing() -> None:
    pair = Pair()
    pair.submit("a", "to b")
    disk = pair.disks["a"]
    backlog, body = Backlog(0, array("I", [4])), disk.pop(("out", "b", "1"))
    read = pair.reads["a"] = lambda link, after, limit: [(1, body)]
    pair.nodes["a"] = Node(Echo(), ["b"], CODEC, 99, disk, backlogs={"b": backlog}, read=read)
    pair.commit("a", pair.nodes["a"].start(5.0))
    pair.connect()
    assert pair.nodes["a"].epoch == 1
    assert pair.received("b") == ["to b"]


def test_a_restart_without_the_disk_is_a_new_life() -> None:
    pair = Pair()
    pair.submit("b", "a?")
    pair.disks["a"] = {}
    pair.nodes["a"] = Node(Echo(), ["b"], CODEC, 2)
    pair.commit("a", pair.nodes["a"].start(5.0))
    pair.connect()
    last = [message for message in pair.nodes["b"].core.received if isinstance(message, LinkUp)][-1]
    assert last.unacknowledged == ("a?",)
    assert pair.received("a") == ["a?"]


def test_a_frame_of_a_former_life_is_ignored_and_counted() -> None:
    pair = Pair()
    pair.submit("a", "to b old")
    [frame] = pair.frames("a")
    pair.nodes["a"] = Node(Echo(), ["b"], CODEC, 2)
    pair.commit("a", pair.nodes["a"].start(5.0))
    pair.connect()
    for count in (1, 2):
        late = Transaction(late=Late("a", life=1, current_life=2, count=count))
        assert pair.nodes["b"].receive(encode_frame(frame), link="a", now=6.0) == late
    assert pair.received("b") == []


def test_a_new_link_has_a_cursor_and_is_added_once() -> None:
    node = Node(Echo(), [], CODEC, 1)
    node.start(0.0)
    assert node.attach(["c"], 0.0).links == {"c"}
    assert node.attach(["c"], 0.0) == Transaction()


def test_a_restart_looks_at_each_record_once_however_many_links_there_are() -> None:
    def start(n: int) -> float:
        disk = {("link", f"c{i}"): b"\x93\x01\x00\x00" for i in range(n)}
        backlogs = {f"c{i}": Backlog(0, array("I", [1])) for i in range(n)}
        return effort(lambda: Node(Echo(), [], CODEC, 1, disk, backlogs=backlogs).start(0.0))

    few, many = start(500), start(4_000)
    assert many < 3 * 8 * few  # eight times the links; the square would be 64 times
