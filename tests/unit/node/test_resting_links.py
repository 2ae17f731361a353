"""Links that were sent nothing have no stream and no record; the first message gives them both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tamis.node import records
from tamis.node.effects import Attach, Effect, Key, Send
from tamis.node.node import Codec, Node, Transaction
from tamis.node.stream import CLIENT_EPOCH

CODEC = Codec(lambda message: str(message).encode(), lambda data, link: data.decode())


class Queues:
    """Attaches links when it is given a list, and sends to a link when it is given its name."""

    def handle(self, message: Any, *, sender: str, now: float) -> list[Effect]:
        return [Attach(message)] if isinstance(message, list) else [Send(message, "hello")]

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        return [Attach(["s:a", "s:b"])]

    def check_invariants(self) -> None:
        """It has no state."""


def keys(transaction: Transaction) -> list[Key]:
    return [change.key for change in transaction.changes]


def test_a_link_begins_on_disk_with_its_first_message() -> None:
    node = Node(Queues(), [], CODEC, 5)
    node.start(0.0)
    assert not keys(node.submit(["s:c"], sender="", now=0.0))
    assert (list(node.ends), list(node.ends.links())) == ([], ["s:a", "s:b", "s:c"])
    sent = node.submit("s:b", sender="", now=0.0)
    assert keys(sent) == [("out", "s:b", "1"), ("link", "s:b")]
    assert records.LINK.find(
        {change.key: change.value or b"" for change in sent.changes}, "s:b"
    ) == records.LinkPosition(CLIENT_EPOCH, 0, 1)
    assert (list(node.ends), sorted(node.ends.links())) == (["s:b"], ["s:a", "s:b", "s:c"])
    node.submit(["s:b"], sender="", now=0.0)  # it stays what it is
    assert (node.ends["s:b"].sent, sorted(node.ends.links())) == (1, ["s:a", "s:b", "s:c"])


def test_a_restart_keeps_what_was_sent_and_rests_the_others() -> None:
    first = Node(Queues(), [], CODEC, 5)
    stored = {change.key: change.value for change in first.start(0.0).changes}
    stored |= {change.key: change.value for change in first.submit("s:b", sender="", now=0.0).changes}
    again = Node(Queues(), [], CODEC, 9, {key: value for key, value in stored.items() if value and key[0] != "out"})
    again.start(0.0)
    assert (list(again.ends), again.ends["s:b"].sent, again.ends["s:a"].sent) == (["s:b"], 1, 0)
    assert again.ends["s:a"].epoch == 5


def test_a_link_that_rests_can_be_removed_and_one_that_is_not_there_is_missing() -> None:
    node = Node(Queues(), [], CODEC, 5)
    node.start(0.0)
    assert not keys(node.detach("s:a", 0.0))
    assert "s:a" not in node.ends
    assert node.ends.get("s:a") is None
    with pytest.raises(KeyError):
        node.ends["s:a"]


def test_looking_for_what_waits_wakes_no_link() -> None:
    node = Node(Queues(), [], CODEC, 5)
    node.start(0.0)
    assert (node.ends.get("s:a"), "s:a" in node.ends, len(node.ends)) == (None, True, 0)
