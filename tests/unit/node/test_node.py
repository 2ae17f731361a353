"""A node: frames in, one transaction out, whatever the wire does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tamis.node.core import LinkUp
from tamis.node.effects import Effect, Key, Link, Persist, Send
from tamis.node.frames import decode_frame
from tamis.node.node import RETRY_SECONDS, Codec, Node, Transaction
from tests.effort import effort

CODEC = Codec(lambda text: str(text).encode(), lambda data, link: data.decode())


class Echo:
    """A core that notes what it hears, keeps it, and answers what ends with a question mark."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        self.heard.append(message)
        if isinstance(message, LinkUp):
            return [Send(sender, one) for one in message.unacknowledged]
        kept: list[Effect] = [Persist(("heard", str(len(self.heard))), str(message).encode())]
        if sender == "":
            return [*kept, Send("b" if message.startswith("to b") else "a", message)]
        return [*kept, Send(sender, "yes")] if message.endswith("?") else kept

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        self.heard = [stored[key].decode() for key in sorted(stored) if key[0] == "heard"]
        return []

    def check_invariants(self) -> None: ...


class Pair:
    """Two nodes with a wire that can be listened to, and disks."""

    def __init__(self) -> None:
        self.disks: dict[str, dict[Key, bytes]] = {"a": {}, "b": {}}
        self.nodes = {"a": Node(Echo(), ["b"], CODEC, 1), "b": Node(Echo(), ["a"], CODEC, 1)}
        for name in self.nodes:
            self.exchange(name, self.nodes[name].start(0.0))

    def commit(self, name: str, transaction: Transaction) -> None:
        for change in transaction.changes:
            if change.value is None:
                self.disks[name].pop(change.key, None)
            else:
                self.disks[name][change.key] = change.value

    def exchange(self, name: str, transaction: Transaction, now: float = 0.0) -> None:
        self.commit(name, transaction)
        for link, data in transaction.frames:
            if link in self.nodes:
                self.exchange(link, self.nodes[link].receive(data, link=name, now=now), now)

    def heard(self, name: str) -> list[str]:
        return [one for one in self.nodes[name].core.heard if isinstance(one, str)]


def test_messages_arrive_in_order_and_answers_come_back() -> None:
    pair = Pair()
    for text in ("to b 1", "to b 2?", "to b 3"):
        pair.exchange("a", pair.nodes["a"].submit(text, sender="", now=0.0))
    assert pair.heard("b") == ["to b 1", "to b 2?", "to b 3"]
    assert "yes" in pair.heard("a")
    assert not pair.nodes["a"].is_waiting
    assert not pair.nodes["b"].is_waiting
    assert not [key for disk in pair.disks.values() for key in disk if key[0] == "out"]


def test_a_lost_frame_is_sent_again_and_a_doubled_one_is_taken_once() -> None:
    pair = Pair()
    lost = pair.nodes["a"].submit("to b", sender="", now=0.0)
    pair.commit("a", lost)
    assert pair.nodes["a"].tick(RETRY_SECONDS / 2).frames == []
    again = pair.nodes["a"].tick(RETRY_SECONDS)
    pair.exchange("a", again, RETRY_SECONDS)
    pair.exchange("a", again, RETRY_SECONDS)
    assert pair.heard("b") == ["to b"]


def test_all_of_a_message_is_in_one_transaction() -> None:
    pair = Pair()
    [(_, data)] = pair.nodes["a"].submit("to b?", sender="", now=0.0).frames
    transaction = pair.nodes["b"].receive(data, link="a", now=0.0)
    keys = {change.key for change in transaction.changes}
    assert {("heard", "1"), ("out", "a", "1"), ("link", "a")} <= keys
    [(link, answer)] = transaction.frames
    assert (link, decode_frame(answer, "b").ack, decode_frame(answer, "b").body) == ("a", 1, b"yes")


def test_a_restart_with_the_disk_loses_nothing() -> None:
    pair = Pair()
    pair.commit("a", pair.nodes["a"].submit("to b", sender="", now=0.0))
    pair.nodes["a"] = Node(Echo(), ["b"], CODEC, 99, pair.disks["a"])
    pair.exchange("a", pair.nodes["a"].start(5.0), 5.0)
    pair.exchange("a", pair.nodes["a"].tick(6.0), 6.0)
    assert pair.nodes["a"].epoch == 1
    assert pair.heard("b") == ["to b"]


def test_a_restart_without_the_disk_is_a_new_life() -> None:
    pair = Pair()
    pair.commit("b", pair.nodes["b"].submit("a?", sender="", now=0.0))
    pair.disks["a"] = {}
    pair.nodes["a"] = Node(Echo(), ["b"], CODEC, 2)
    pair.exchange("a", pair.nodes["a"].start(5.0), 5.0)
    pair.exchange("b", pair.nodes["b"].tick(6.0), 6.0)
    last = [one for one in pair.nodes["b"].core.heard if isinstance(one, LinkUp)][-1]
    assert last.unacknowledged == ("a?",)
    assert pair.heard("a") == ["a?"]


def test_a_frame_of_a_former_life_is_ignored() -> None:
    pair = Pair()
    old = pair.nodes["a"].submit("to b old", sender="", now=0.0)
    pair.nodes["a"] = Node(Echo(), ["b"], CODEC, 2)
    pair.exchange("a", pair.nodes["a"].start(5.0), 5.0)
    [(_, data)] = old.frames
    assert pair.nodes["b"].receive(data, link="a", now=6.0) == Transaction()
    assert pair.heard("b") == []


def test_a_new_link_is_greeted_once() -> None:
    node = Node(Echo(), [], CODEC, 1)
    node.start(0.0)
    assert [link for link, _ in node.attach("c", 0.0).frames] == ["c"]
    assert node.attach("c", 0.0).frames == []


def test_a_restart_looks_at_each_record_once_however_many_links_there_are() -> None:
    def start(n: int) -> float:
        disk = {("link", f"c{i}"): b"\x93\x01\x00\x00" for i in range(n)}
        disk |= {("out", f"c{i}", "1"): b"x" for i in range(n)}
        return effort(lambda: Node(Echo(), [], CODEC, 1, disk).start(0.0))

    few, many = start(500), start(4_000)
    assert many < 3 * 8 * few  # eight times the links; the square would be 64 times
