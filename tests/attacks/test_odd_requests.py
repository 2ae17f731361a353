"""Attack: requests that no client sends, byte by byte: each is refused or answered by itself, and the broker goes on.

JSON with duplicate keys, NaN and endless digits; invalid UTF-8 in every place; ids and namespaces that look like
paths; methods, versions and lengths of no protocol; WebSockets of other versions and frames that lie.
"""

from __future__ import annotations

import base64
import gzip
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import websockets.exceptions
import websockets.sync.client

from tests.attacks.callers import guarded_broker
from tests.attacks.wire import assert_serves, run
from tests.server.processes import HANGS, BrokerProcess, ask, running

EVENTS, SUBSCRIPTIONS, LOG = "/v1/events", "/v1/subscriptions", "/v1/subscriptions/x/log?after="

#: ``{name: (path, body)}``: posted, and refused with 400, 413 or 422.
REFUSED_BODIES = {
    "a key twice": (EVENTS, b'{"a":1,"a":2}'),
    "NaN": (EVENTS, b'{"a":NaN}'),
    "infinity": (EVENTS, b'{"a":-Infinity}'),
    "a number beyond float64": (EVENTS, b'{"a":1e999}'),
    "deep arrays": (EVENTS, b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "lists without number": (EVENTS, b'{"a":[' + b"[]," * 600_000 + b"[]]}"),
    "endless digits": (EVENTS, b'{"a":' + b"9" * 1_000_000 + b"}"),
    "399 digits": (EVENTS, b'{"a":' + b"9" * 399 + b"}"),
    "half a pair as value": (EVENTS, b'{"a":"\\ud800"}'),
    "half a pair as name": (EVENTS, b'{"\\udfff":1}'),
    "half a pair in UTF-8": (EVENTS, b'{"a":"\xed\xa0\x80"}'),
    "overlong UTF-8": (EVENTS, b'{"a":"\xc0\x80"}'),
    "UTF-16": (EVENTS, '{"a":1}'.encode("utf-16")),
    "a byte order mark": (EVENTS, b'\xef\xbb\xbf{"a":1}'),
    "a control character": (EVENTS, b'{"a\x00":1}'),
    "nothing": (EVENTS, b""),
    "lists of lists": (EVENTS, b"[[{}]]"),
    "a namespace of NUL": (f"{EVENTS}?namespace=%00", b'{"a":1}'),
    "every namespace": (f"{EVENTS}?namespace=*", b'{"a":1}'),
    "a long namespace": (f"{EVENTS}?namespace={'x' * 5_000}", b'{"a":1}'),
    "a number in other digits": (f"{EVENTS}?producer=x&number=%D9%A3", b'{"a":1}'),
    "a filter that is a number": (SUBSCRIPTIONS, b'{"filter":5}'),
    "a filter of nothing": (SUBSCRIPTIONS, b'{"filter":{}}'),
    "an id that is half a pair": (SUBSCRIPTIONS, b'{"filter":"a > 1","id":"\\ud800"}'),
    "an end beyond all time": (SUBSCRIPTIONS, b'{"filter":"a > 1","expires":1e308}'),
    "an end in the year 99999": (SUBSCRIPTIONS, b'{"filter":"a > 1","expires":"99999-01-01T00:00:00Z"}'),
    "an end of NaN": (SUBSCRIPTIONS, b'{"filter":"a > 1","expires":NaN}'),
    "nested metadata": (SUBSCRIPTIONS, b'{"filter":"a > 1","metadata":{"a":{"b":1}}}'),
}

#: Request lines and headers, answered below 500 or by the end of the connection.
ODD_HEADS = {
    **{f"{method} of events": f"{method} {EVENTS}" for method in ("TRACE", "CONNECT", "OPTIONS", "PROPFIND", "get")},
    "CONNECT to another host": "CONNECT example.com:443",
    "OPTIONS of everything": "OPTIONS *",
    "an address of another host": "GET http://evil/healthz",
    "a path upwards": f"GET {SUBSCRIPTIONS}/../../etc/passwd",
    "a hidden path upwards": f"GET {SUBSCRIPTIONS}/%2e%2e%2f%2e%2e%2fetc",
    "an id of NUL": f"GET {SUBSCRIPTIONS}/%00",
    "an id of dashes": f"GET {SUBSCRIPTIONS}/--5",
    "an id of dashes alone": f"GET {SUBSCRIPTIONS}/---",
    "an id of dashes to change": f"PUT {SUBSCRIPTIONS}/--5\r\nContent-Length: 0",
    "an id of dashes to remove": f"DELETE {SUBSCRIPTIONS}/--5",
    "a stream of dashes": f"GET {SUBSCRIPTIONS}/--5/events",
    "an id that is not UTF-8": f"GET {SUBSCRIPTIONS}/%ed%a0%80",
    "a cursor of 400 digits": f"GET {LOG}{'9' * 400}",
    "a cursor in other digits": f"GET {LOG}%D9%A3-1",
    "a limit below zero": f"GET {SUBSCRIPTIONS}?limit=-1",
    "a stream after no event": f"GET {SUBSCRIPTIONS}/x/events\r\nLast-Event-ID: {'9' * 500}",
    "a stream after \xff": f"GET {SUBSCRIPTIONS}/x/events\r\nLast-Event-ID: \xff\xfe",
    "a long header": f"GET /healthz\r\nX: {'y' * 300_000}",
    "many headers": "GET /healthz" + "".join(f"\r\nX{n}: y" for n in range(5_000)),
    "NUL in a header": "GET /healthz\r\nX: a\0b",
    "a length below zero": f"POST {EVENTS}\r\nContent-Length: -5",
    "a length of 30 digits": f"POST {EVENTS}\r\nContent-Length: {'9' * 30}",
    "two lengths": f"POST {EVENTS}\r\nContent-Length: 7\r\nContent-Length: 8",
}


def talk(port: int, data: bytes, *, until: bytes = b"no end") -> bytes:
    """Send bytes; return what comes until the broker closes, or has said ``until``."""
    response = b""
    with socket.create_connection(("127.0.0.1", port), timeout=HANGS) as connection:
        try:
            connection.sendall(data)
            while until not in response and (piece := connection.recv(65536)):
                response += piece
        except OSError:  # it hung up, or has nothing more to say
            return response
    return response


def head(line: str) -> bytes:
    first, _, others = line.partition("\r\n")
    others = f"\r\n{others}" if others else ""
    return f"{first} HTTP/1.1\r\nHost: 127.0.0.1{others}\r\nConnection: close\r\n\r\n".encode("latin-1")


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def test_bodies_that_no_client_sends(broker: BrokerProcess) -> None:
    json = "application/json"
    statuses = {
        name: ask(broker.url + path, "POST", body, **{"Content-Type": json}).status
        for name, (path, body) in REFUSED_BODIES.items()
    }
    assert {name: status for name, status in statuses.items() if status not in (400, 413, 422)} == {}
    bomb = gzip.compress(bytes(50_000_000))
    assert ask(f"{broker.url}{EVENTS}", "POST", bomb, **{"Content-Encoding": "gzip"}).status == 415
    run(assert_serves(broker))


def test_heads_that_no_client_sends(broker: BrokerProcess) -> None:
    ask(f"{broker.url}{SUBSCRIPTIONS}", "POST", {"filter": "a > 1", "id": "x"})
    statuses = {name: status_of(talk(broker.port, head(line))) for name, line in ODD_HEADS.items()}
    assert {name: status for name, status in statuses.items() if status >= 500} == {}
    for limit in ("-1", "zz", "1e3", "", "9" * 30):
        assert status_of(talk(broker.port, head(f"GET {SUBSCRIPTIONS}/x/events?limit={limit}"))) == 400, limit
    pipelined = head("GET /healthz").replace(b"Connection: close\r\n", b"") * 200 + head("GET /healthz")
    assert talk(broker.port, pipelined).count(b"HTTP/1.1 200") == 201
    for noise in (
        b"\r\n" * 2_000 + b"x\r\n\r\n",
        b"\x16\x03\x01\x00\xa5" + bytes(180),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        assert status_of(talk(broker.port, noise)) < 500
    run(assert_serves(broker))


def test_ids_that_look_like_paths_and_headers_are_names(broker: BrokerProcess) -> None:
    for name in ("../../etc/passwd", "x\r\nSet-Cookie: a=b", "/", "..", "con"):
        answer = ask(f"{broker.url}{SUBSCRIPTIONS}", "POST", {"filter": "a > 1", "id": name, "namespace": "../.."})
        assert (answer.status, answer.json["id"], "set-cookie" in answer.headers) == (201, name, False)
        assert answer.headers["location"].startswith("/v1/subscriptions/")
    files = {path.name for path in (broker.directory / "data").iterdir()}
    assert not files & {"passwd", "con", "etc"}


def websocket(port: int, *headers: str, path: str = "/v1/connect?client=odd", more: bytes = b"") -> bytes:
    key = base64.b64encode(bytes(16)).decode()
    defaults = [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        *(headers or defaults),
    ]
    return talk(port, ("\r\n".join(lines) + "\r\n\r\n").encode() + more, until=b"\r\n\r\n")


def frame(opcode: int, data: bytes, *, mask: bytes = b"\0\0\0\0", length: int | None = None) -> bytes:
    size = len(data) if length is None else length
    marked = 0x80 if mask else 0
    sizes = bytes([marked | size]) if size < 126 else bytes([marked | 127]) + struct.pack(">Q", size)
    return bytes([0x80 | opcode]) + sizes + mask + data


def test_sockets_of_no_version_and_frames_that_lie(broker: BrokerProcess) -> None:
    key = f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}"
    wrong = [("Sec-WebSocket-Version: 8", key), ("Sec-WebSocket-Version: x", key), ("Sec-WebSocket-Version: 13",)]
    assert {status_of(websocket(broker.port, *headers)) for headers in wrong} == {400}
    assert status_of(websocket(broker.port, path=EVENTS)) in (403, 404)
    for path in ("client=%00", "client=" + "x" * 500, "broker=evil", f"client=odd&after={'9' * 400}"):
        assert b"101" in websocket(broker.port, path=f"/v1/connect?{path}")  # the reason comes as a frame
    frames = [
        frame(2, b"abc", mask=b""),
        frame(1, b"\xff\xfe"),
        frame(3, b""),
        frame(0, b"x"),
        frame(2, b"abc", length=2**62),
        frame(9, b"x" * 200),
        frame(8, b"\x00\x05\xff"),
        frame(2, b"") * 1_000,
        frame(2, struct.pack(">I", 2**31) + b"x"),
    ]
    for more in frames:
        websocket(broker.port, more=more)
    run(assert_serves(broker))


def test_a_text_frame_is_refused_with_its_reason(broker: BrokerProcess) -> None:
    with websockets.sync.client.connect(f"ws://127.0.0.1:{broker.port}/v1/connect?client=text") as connection:
        connection.send("hello")
        with pytest.raises(websockets.exceptions.ConnectionClosedError, match="binary frames only"):
            list(connection)  # the broker's greeting may come first


def test_messages_are_short_however_long_the_names_are(broker: BrokerProcess) -> None:
    """An unknown attribute is answered with the known ones: 40 names of 16,000 characters made 657 KB of that."""
    for number in range(40):
        name = f"n{number}" + "x" * 250
        made = ask(f"{broker.url}{SUBSCRIPTIONS}", "POST", {"filter": f"{name} > 1", "namespace": "long"})
        assert made.status == 201, made.body
    requests = {
        "unknown": ("/v1/trial", {"filter": "zzz LIKE 'a%'"}, 400),
        "unknown and long": ("/v1/trial", {"filter": f"{'z' * 16_000} LIKE 'a%'"}, 400),
        "a long name in a filter": (SUBSCRIPTIONS, {"filter": f"{'z' * 257} > 1"}, 413),
        "a long name that may be missing": (SUBSCRIPTIONS, {"filter": f"{'z' * 257} IS NULL"}, 413),
        "a long name in an expression": (SUBSCRIPTIONS, {"filter": f"{'z' * 257} + 1 > a"}, 413),
        "a long name in an event": (f"{EVENTS}?namespace=long", {"z" * 257: 1}, 413),
        "a long path in an event": (f"{EVENTS}?namespace=long", {"z" * 200: {"z" * 56: 1}}, 413),
        "a long name of a field": (SUBSCRIPTIONS, {"filter": "a > 1", "fields": ["z" * 16_000] * 2}, 400),
        "a value that does not fit": (f"{EVENTS}?namespace=long", {"n0" + "x" * 250: "text" * 10_000}, 400),
    }
    for name, (path, body, status) in requests.items():
        answer = ask(f"{broker.url}{path}", "POST", {"namespace": "long", **body} if "?" not in path else body)
        assert (answer.status, len(answer.body) < 2_000) == (status, True), (name, answer.body[:300])
    method = ask(f"{broker.url}/healthz", "X" * 16_000)
    assert (method.status, len(method.body) < 2_000) == (405, True)
    fitting = {"z" * 256: 1, "y" * 200: {"y" * 55: 1}}
    assert ask(f"{broker.url}{EVENTS}?namespace=long", "POST", fitting).status == 200
    assert ask(f"{broker.url}{SUBSCRIPTIONS}", "POST", {"filter": f"{'z' * 256} > 1"}).status == 201


def test_half_of_a_body_leaves_no_traceback_when_the_broker_stops(tmp_path: Path) -> None:
    """`running` looks for tracebacks in what the broker has printed."""
    with running(BrokerProcess(tmp_path)) as (broker,):
        open_sockets = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(5)]
        for connection in open_sockets:
            connection.sendall(head(f"POST {EVENTS}\r\nContent-Length: 100") + b"{")
        assert ask(f"{broker.url}/healthz").status == 200
        broker.stop()
        log = broker.log()
    for connection in open_sockets:
        connection.close()
    assert "Traceback" not in log


TOKENS = {
    "unicode": "\u00e4\u20ac".encode(),
    "no text": b"\xff\xfe",
    "empty": b"",
    "dots": b"....",
    "long": b"x" * 20_000,
    "a JWT without a signature": b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.",
    "two words": b"x y",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as broker:
        broker.add("alice")
        yield broker.broker.port


def test_two_tokens_in_a_request_are_refused(tmp_path: Path) -> None:
    """A proxy may check one of them and a broker take the other."""
    with guarded_broker(tmp_path) as broker:
        good, other = broker.add("alice"), broker.add("eve")
        for tokens in ((good, other), (other, good), (good, "x"), (good, good)):
            headers = "".join(f"\r\nAuthorization: Bearer {token}" for token in tokens)
            assert status_of(talk(broker.broker.port, head(f"GET {SUBSCRIPTIONS}{headers}"))) == 400
        assert status_of(talk(broker.broker.port, head(f"GET {SUBSCRIPTIONS}\r\nAuthorization: Bearer {good}"))) == 200


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_that_are_none(name: str, guarded: int) -> None:
    for line in (f"GET {SUBSCRIPTIONS}", f"POST {EVENTS}", f"GET {SUBSCRIPTIONS}/x/events"):
        sent = head(line).replace(
            b"Connection: close", b"Authorization: Bearer " + TOKENS[name] + b"\r\nConnection: close"
        )
        assert status_of(talk(guarded, sent)) in (400, 401)
