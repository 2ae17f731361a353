"""Attack: frames and messages on which a parser raises something else than its own error.

Arrays nested beyond the recursion limit, in fields that no message has; a map as the key of a map; text that is not
UTF-8, in a filter and in what is said about a subscription; text that JSON can write and UTF-8 cannot. Any client can
send them. Each must end the connection or be refused as that one message; the broker and all others go on.
"""

from __future__ import annotations

import json

import msgspec
import pytest

from tamis.errors import RemoteProtocolError
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.routing import messages as m
from tests.attacks.wire import assert_serves, dialled, frames_of, packed, run
from tests.server.processes import BrokerProcess

DEEP = b"\x91" * 200_000 + b"\xc0"

#: What follows the version byte of a frame: its five fields, then one that frames do not have.
FRAMES = {
    "a sixth field that is deep": b"\x01\x96\x01\x00\x00\x00\xc4\x00" + DEEP,
    "a body that is deep": b"\x01\x95\x01\x00\x00\x00" + DEEP,
    "a sixth field": b"\x01\x96\x01\x00\x00\x00\xc4\x00\x01",
    "a map": b"\x01\x81\xa5epoch\x01",
    "an epoch that is text": b"\x01\x95\xa1\xff\x00\x00\x00\xc4\x00",
    "an array without an end": b"\x01\xdd\xff\xff\xff\xff\x01\x00\x00\x00",
    "a body without an end": b"\x01\x95\x01\x00\x00\x00\xc6\xff\xff\xff\xff",
}

MESSAGES = {
    "a field too many that is deep": b"\x01\x97\x01\xa1x\xc4\x02{}\xa7default\xc0\xc4\x00" + DEEP,
    "a field too many": b"\x01\x97\x01\xa1x\xc4\x02{}\xa7default\xc0\xc4\x00\x01",
    "an id that is deep": b"\x01\x93\x01" + DEEP + b"\xc4\x02{}",
    "an id that is not UTF-8": b"\x01\x93\x01\xa1\xff\xc4\x02{}",
    "an event with a field too many": b"\x01\x92\x03\x94\x93\xa0\x01\x01\xa7default\xc4\x01\x80" + DEEP,
    "an event id with a field too many": b"\x01\x92\x03\x93\x94\xa0\x01\x01" + DEEP + b"\xa7default\xc4\x01\x80",
    "a kind that does not exist": b"\x01\x91\xcd\x0f\xff",
}

#: Subscriptions and events that are good messages; what they carry is not.
CONTENTS = {
    "a filter that is not UTF-8": m.Subscribe("x", b'"\xff"'),
    "a filter that is deep": m.Subscribe("x", b"[" * 100_000),
    "a filter that is deep and closed": m.Subscribe("x", b"[" * 900 + b"]" * 900),
    "a filter of half a character": m.Subscribe("x", rb'{"op":"=","args":[{"property":"\ud800"},1]}'),
    "a filter with half a character": m.Subscribe("x", rb'{"op":"\udfff","args":[1]}'),
    "a filter with a long number": m.Subscribe("x", b'{"op":"=","args":[{"property":"a"},' + b"1" * 5_000 + b"]}"),
    "a filter that is null": m.Subscribe("x", b"null"),
    "a filter that is empty": m.Subscribe("x", b""),
    "a remark that is not UTF-8": m.Subscribe("x", b'"a = 1"', about=b'{"text":"\xff"}'),
    "a remark that is deep": m.Subscribe("x", b'"a = 1"', about=b'{"metadata":' + b"[" * 100_000),
    "a remark of half a character": m.Subscribe("x", b'"a = 1"', about=rb'{"text":"\ud800","metadata":{"a":"\ud800"}}'),
    "a remark that is not an object": m.Subscribe("x", b'"a = 1"', about=b"[]"),
    "a map as the key of a map": b"\x81\xa1a\x81\x80\x01",
    "a list as the key of a map": b"\x81\xa1a\x81\x90\x01",
    "an event that is deep": b"\x81\xa1a" + DEEP,
    "an event that is deep and short": b"\x81\xa1a" + b"\x91" * 900 + b"\xc0",
    "a name that is not UTF-8": b"\x81\xa1\xff\x01",
    "a value that is not UTF-8": b"\x81\xa1a\xa1\xff",
    "a name that is a number": b"\x81\x01\x01",
    "a list without an end": b"\x81\xa1a\xdd\xff\xff\xff\xff",
    "a map without an end": b"\xdf\xff\xff\xff\xff",
    "a moment that does not exist": b"\x81\xa1a\xc7\x0c\xff" + b"\xff" * 12,
    "an extension": b"\x81\xa1a\xd4\x05\x00",
    "a byte that means nothing": b"\x81\xa1a\xc1",
    "nothing": b"",
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_that_is_none_ends_its_connection_alone(broker: BrokerProcess, name: str) -> None:
    async def story() -> None:
        async with dialled(broker) as wire:
            await wire.socket.send(packed(FRAMES[name]))
            assert "not a frame" in await wire.closing()
        await assert_serves(broker)

    run(story())


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_is_none_ends_its_connection_alone(broker: BrokerProcess, name: str) -> None:
    async def story() -> None:
        async with dialled(broker) as wire:
            await wire.say(MESSAGES[name])
            assert "not a message" in await wire.closing()
        await assert_serves(broker)

    run(story())


@pytest.mark.parametrize("name", CONTENTS)
def test_hostile_content_is_refused_as_that_one_message(broker: BrokerProcess, name: str) -> None:
    content = CONTENTS[name]
    if isinstance(content, bytes):
        content = m.Publish(m.Published(m.EventId("", 1, 1), "default", content))

    async def story() -> None:
        async with dialled(broker) as wire:
            await wire.say(m.encode(content))
            refusal = await wire.refusal()
            assert refusal.reason
            assert len(refusal.reason) < 2_000
            await wire.say(m.encode(m.Subscribe("y", b'"\xff"')))  # the connection goes on
            assert (await wire.refusal()).subject == "subscription 'y'"
        await assert_serves(broker)

    run(story())


def test_one_bad_message_of_a_batch_is_refused_alone(broker: BrokerProcess) -> None:
    good = json.dumps({"op": ">=", "args": [{"property": "batched"}, 0]}).encode()
    many = m.SubscribeBatch((m.Subscribe("bad", b'"\xff"'), m.Subscribe("good", good)))
    payloads = [b"\x81\xa1a\x81\x80\x01", msgspec.msgpack.encode({"batched": 7})]
    events = [m.Published(m.EventId("", 1, n), "default", payload) for n, payload in enumerate(payloads)]

    async def story() -> None:
        async with dialled(broker, "client=batches") as wire:
            await wire.say(m.encode(many))
            assert (await wire.refusal()).subject == "subscription 'bad'"
            await wire.say(m.encode(m.PublishBatch(tuple(events))))
            seen: list[m.Message] = []
            while sum(isinstance(message, m.Delivery | m.Refusal) for message in seen) < 2:
                seen += [m.decode(frame.body, "x") for frame in frames_of(await wire.socket.recv()) if frame.body]
            [refusal] = [message for message in seen if isinstance(message, m.Refusal)]
            [delivery] = [message for message in seen if isinstance(message, m.Delivery)]
            assert refusal.event == events[0].id
            assert delivery.event.payload == payloads[1]

    run(story())


def test_decoding_raises_nothing_but_a_protocol_error() -> None:
    for data in FRAMES.values():
        with pytest.raises(RemoteProtocolError, match="not a frame"):
            decode_frame(data, "x")
    for data in MESSAGES.values():
        with pytest.raises(RemoteProtocolError, match="not a message"):
            m.decode(data, "x")
    assert decode_frame(encode_frame(Frame(1, 2, 3, 4, b"x")), "x").body == b"x"
