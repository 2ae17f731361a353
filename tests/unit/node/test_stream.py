"""One end of a link: order, once, and what survives."""

from __future__ import annotations

from array import array

import pytest

from tamis.errors import ModelError, RemoteProtocolError
from tamis.node import records, stream
from tamis.node.core import LinkFree, LinkFull
from tamis.node.effects import Persist
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.node.outbox import Backlog
from tamis.node.stream import Mark, Quota, StreamEnd, Window, Wire

WIDE = Window()


def met(epoch: int = 1, peer: int = 7) -> StreamEnd:
    end = StreamEnd("east", epoch)
    end.meet(peer)
    return end


def nothing(link: str, after: int, limit: int) -> list[tuple[int, bytes]]:
    raise AssertionError("everything is in memory")


def sent(wire: Wire, end: StreamEnd, mark: Mark | None = None, window: Window = WIDE) -> list[int]:
    """Return the numbers of the frames that may leave now."""
    return [frame.seq for frame in wire.take(end, end.mark if mark is None else mark, window, nothing)]


def test_messages_wait_until_they_are_acknowledged() -> None:
    end = met()
    assert end.append(b"a") == [Persist(("out", "east", "1"), b"a")]
    end.append(b"b")
    wire = Wire.of(end)
    assert sent(wire, end) == [1, 2]
    assert sent(wire, end) == []  # nothing is sent twice on one wire
    assert end.acknowledge(1) == [Persist(("out", "east", "1"), None)]
    assert sent(Wire.of(end), end) == [2]
    end.acknowledge(2)
    assert (end.acknowledged, sent(Wire.of(end), end)) == (2, [0])  # a greeting


def test_only_the_next_message_is_taken() -> None:
    end = met()
    assert not end.accept(Frame(7, 1, 2, 0))
    assert end.accept(Frame(7, 1, 1, 0))
    assert not end.accept(Frame(7, 1, 1, 0))
    assert end.received == 1


def test_nothing_is_sent_before_the_other_end_has_spoken() -> None:
    end, wire = StreamEnd("east", 1), Wire()
    end.append(b"a")
    wire.words.append(b"word")
    assert wire.take(end, end.mark, WIDE, nothing) == [Frame(1, 0, 0, 0)]
    end.meet(7)
    end.append(b"b")
    assert [frame.body for frame in wire.take(end, end.mark, WIDE, nothing)] == [b"word", b"b"]


def test_nothing_is_sent_that_is_not_committed() -> None:
    end = met()
    mark, wire = end.mark, Wire.of(end)
    end.append(b"a")
    end.received = 3
    assert wire.take(end, mark, WIDE, nothing) == [Frame(1, 7, 0, 0)]
    assert [(frame.seq, frame.ack) for frame in wire.take(end, end.mark, WIDE, nothing)] == [(1, 3)]


def test_a_new_life_starts_the_stream_over() -> None:
    end = met()
    end.append(b"a")
    end.received = 5
    waiting, forgotten = end.meet(8)
    assert waiting == [b"a"]
    assert forgotten == [Persist(("out", "east", "1"), None)]
    assert (end.peer_epoch, end.received, end.sent) == (8, 0, 0)


def test_a_frame_belongs_to_two_lives() -> None:
    end = met(epoch=3, peer=7)
    assert end.is_for_me(Frame(7, 3, 1, 0))
    assert not end.is_for_me(Frame(7, 2, 1, 0))
    assert not end.is_for_me(Frame(6, 3, 1, 0))


def test_a_restart_goes_on_where_it_was() -> None:
    end = met()
    for number in range(12):
        end.append(b"%d" % number)
    end.acknowledge(3)
    end.received = 4
    again = StreamEnd("east", 1)
    again.restore(
        records.LINK.find({end.cursor().key: end.cursor().value or b""}, "east"), Backlog(3, array("I", [1] * 9))
    )
    assert (again.peer_epoch, again.received, again.acknowledged, again.sent) == (7, 4, 3, 12)


def test_a_restart_with_nothing_that_waits_goes_on_behind_the_last_message() -> None:
    again = StreamEnd("east", 1)
    again.restore(records.LinkPosition(7, 4, 12), None)
    assert (again.acknowledged, again.sent, again.append(b"x")[0].key) == (12, 12, ("out", "east", "13"))


def test_the_window_bounds_messages_and_bytes_under_way() -> None:
    for window, most in ((Window(3), 3), (Window(bytes=25), 2), (Window(bytes=5), 1)):
        end = met()
        for _ in range(8):
            end.append(b"0123456789")
        wire = Wire.of(end)
        assert sent(wire, end, window=window) == list(range(1, most + 1))
        assert sent(wire, end, window=window) == []
        end.acknowledge(1)
        assert sent(wire, end, window=window) == [most + 1]


def test_a_packet_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PACKET_BYTES", 10)
    end = met()
    for body in (b"123456", b"1234", b"1", b"more than ten", b"1"):
        end.append(body)
    wire = Wire.of(end)
    assert [sent(wire, end) for _ in range(4)] == [[1, 2], [3], [4], [5]]


def test_old_messages_are_left_to_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "KEPT", 2)
    end, disk = met(), {number: b"%d" % number for number in range(1, 7)}
    for body in disk.values():
        end.append(body)
    end.spill(5)
    assert [number for number in disk if end.outbox.find(number)] == [4, 5, 6]
    assert (end.outbox.bytes, end.outbox.bytes_in_memory) == (6, 3)

    def read(link: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        return [pair for pair in disk.items() if pair[0] > after][:limit]

    wire, frames = Wire.of(end), list[Frame]()
    while packet := wire.take(end, end.mark, WIDE, read):
        frames += packet
    assert [(frame.seq, frame.body) for frame in frames] == list(disk.items())


def test_large_messages_are_left_to_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "KEPT_BYTES", 10)
    end = met()
    for _ in range(5):
        end.append(b"12345")
    end.spill(4)
    assert [end.outbox.find(number) is None for number in range(1, 6)] == [True, True, True, False, False]
    end.spill(5, keep_bytes=0)
    assert end.outbox.bytes_in_memory == 0
    disk = [(number, b"%d" % number) for number in range(1, 6)]
    assert end.meet(8, lambda link, after, limit: [pair for pair in disk if pair[0] > after][:2])[0] == [
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
    ]


def test_a_replay_begins_with_what_is_acknowledged() -> None:
    end = met()
    for body in (b"a", b"b", b"c"):
        end.append(body)
    end.acknowledge(2)
    disk = [(1, b"a"), (2, b"b"), (3, b"c")]
    wire = Wire.of(end, replay_after=1)
    frames = wire.take(end, end.mark, WIDE, lambda link, after, limit: [pair for pair in disk if pair[0] > after])
    assert [frame.seq for frame in frames] == [2, 3]
    assert sent(Wire.of(end), end) == [3]


def test_a_stream_goes_on_where_the_other_end_stands() -> None:
    end = StreamEnd("east", 1)
    end.append(b"a")
    end.append(b"b")
    assert end.resume(7, 5) == {}  # it has five messages of a life that is forgotten here
    end.append(b"c")
    assert (end.acknowledged, end.sent, end.outbox.find(6)) == (5, 6, b"c")
    assert end.resume(7, 5) == {6: 6}


@pytest.mark.parametrize("data", [b"", b"\x02abc", b"\x01", b"\x01\x90", encode_frame(Frame(1, 1, 1, 1))[:-1]])
def test_what_is_not_a_frame_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_frame(data, "east")
    assert caught.value.link == "east"


def test_the_bytes_of_a_frame_stay_what_they_are() -> None:
    assert encode_frame(Frame(1, 2, 3, 4, b"x")) == b"\x01\x95\x01\x02\x03\x04\xc4\x01x"


def test_an_outbox_is_full_at_its_quota_and_free_at_half_of_it() -> None:
    end, quota = met(), Quota(messages=4)
    for body in (b"a", b"b", b"c"):
        end.append(body)
        assert end.take_crossing(quota) is None
    end.append(b"d")
    assert end.take_crossing(quota) == LinkFull(messages=4, bytes=4)
    end.append(b"e")
    assert end.take_crossing(quota) is None
    end.acknowledge(2)
    assert end.take_crossing(quota) is None
    end.acknowledge(3)
    assert end.take_crossing(quota) == LinkFree()
    assert end.take_crossing(quota) is None


def test_bytes_fill_an_outbox_as_messages_do() -> None:
    end, quota = met(), Quota(bytes=10)
    end.append(b"123456")
    assert end.take_crossing(quota) is None
    end.append(b"1234")
    assert end.take_crossing(quota) == LinkFull(messages=2, bytes=10)
    again = StreamEnd("east", 1)
    again.restore(None, Backlog(0, array("I", [6, 4])))
    assert again.take_crossing(quota) == LinkFull(messages=2, bytes=10)
    end.meet(8)
    assert (end.take_crossing(quota), end.outbox.bytes) == (LinkFree(), 0)


@pytest.mark.parametrize("wrong", [{"messages": 0}, {"bytes": 0}])
def test_a_quota_lets_something_through(wrong: dict[str, int]) -> None:
    with pytest.raises(ModelError, match="at least one message and one byte"):
        Quota(**wrong)
