"""Traces of events: real brokers export to a collector in the test, which decodes what they post."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace as otel

import tamis
from tamis.cli.main import main
from tamis.errors import ModelError
from tamis.node.content import Content
from tamis.node.effects import Answer, Tell
from tamis.node.frames import Frame, decode_frame, encode_frame
from tamis.node.published import EventId
from tamis.node.stream import CLIENT_EPOCH, StreamEnd
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.requests import Accepted, Connect, Disconnect, Post, Posts
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.client.session import ClientSession
from tamis.runtime.packets import join_frames, split_frames
from tamis.runtime.traces import exporting
from tamis.runtime.traces.broker_traces import BrokerTraces, TracedCall
from tamis.runtime.traces.contexts import is_sampled, read_traceparent, threshold_of, trace_id_of
from tamis.runtime.traces.spans import Span
from tamis.runtime.traces.traced_edge import TracedEdge
from tests.server.collector import Collector, SeenSpan
from tests.server.processes import HANGS, BrokerProcess, ReservedPort, a_line, ask, running, wait_until
from tests.server.receiver import Receiver

SCHEMA = '{"attributes": {"mag": {"type": "number"}, "note": {"type": "string"}}}'

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

BAD = [
    "",
    "no trace",
    TRACEPARENT.upper(),
    TRACEPARENT[:-1],
    f"{TRACEPARENT}-more",  # version 00 ends there
    TRACEPARENT.replace("00-0af", "ff-0af"),
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    f"01{TRACEPARENT[2:]}-{'x' * 512}",
    f"01{TRACEPARENT[2:]}-\x00",
]


@pytest.fixture(autouse=True)
def _exports_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")


def named(spans: list[SeenSpan], name: str, broker: str, event: str) -> SeenSpan:
    """Return the one span of a name that an event has at a broker."""
    [span] = [
        span
        for span in spans
        if (span.name, span.attributes["tamis.broker"], span.attributes["tamis.event"]) == (name, broker, event)
    ]
    return span


def spanning() -> AbstractContextManager[object]:
    """Return a context in which OpenTelemetry's current span is that of `TRACEPARENT`."""
    origin = read_traceparent([TRACEPARENT])
    assert origin is not None
    context = otel.SpanContext(origin.trace_id, origin.span_id, is_remote=False, trace_flags=otel.TraceFlags(1))
    return otel.use_span(otel.NonRecordingSpan(context))


def test_one_trace_goes_through_two_brokers(tmp_path: Path) -> None:
    secret = "Zanzibar4711"

    async def story(here: BrokerProcess, far: BrokerProcess) -> tuple[str, str]:
        async with tamis.connect(far.url) as client:
            wanted = await client.subscribe("mag >= 5", id="strong")
            answers = [
                ask(f"{here.url}/v1/events", "POST", {"mag": 6, "note": secret}, traceparent=TRACEPARENT),
                ask(f"{here.url}/v1/events", "POST", {"mag": 1}, traceparent="no trace"),
            ]
            assert [answer.status for answer in answers] == [200, 200]
            for mag in (6, 7):
                delivery = await anext(wanted)
                assert delivery.event["mag"] == mag
                await delivery.ack()
                if mag == 6:
                    with spanning():  # the current span of the program
                        await client.publish({"mag": 7})
        [first], [second] = (answer.json["ids"] for answer in answers)
        return first, second

    with Collector() as collector:
        brokers = a_line(tmp_path, "ab", SCHEMA, f'traces = "{collector.url}"')
        with running(*brokers):
            first, second = asyncio.run(asyncio.wait_for(story(*brokers), HANGS))
            # Eight of the first, three of the second, four of the client's event.
            spans = collector.wait(15)
        bodies = b"".join(request.body for request in collector.requests)
    trace = [span for span in spans if span.attributes["tamis.event"] == first]
    assert sorted(span.name for span in trace) == sorted(
        ["publish", "commit", "match", "hop", "receive", "commit", "match", "deliver"]
    )
    publish, hop, receive = (
        named(trace, name, broker, first) for name, broker in (("publish", "a"), ("hop", "a"), ("receive", "b"))
    )
    assert len({span.trace for span in trace}) == 1
    assert len({span.id for span in trace}) == 8
    assert publish.parent == ""
    assert {named(trace, name, "a", first).parent for name in ("commit", "match", "hop")} == {publish.id}
    assert receive.parent == hop.id
    assert {named(trace, name, "b", first).parent for name in ("commit", "match", "deliver")} == {receive.id}
    assert publish.links == [("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")]
    assert (hop.attributes["tamis.neighbour"], receive.attributes["tamis.neighbour"]) == ("b", "a")
    delivered = named(trace, "deliver", "b", first)
    assert (delivered.attributes["tamis.outcome"], delivered.attributes["tamis.subscriptions"]) == ("acknowledged", 1)
    assert named(trace, "match", "a", first).attributes["tamis.neighbours"] == "b"
    assert {span.attributes["tamis.namespace"] for span in trace} == {"default"}
    assert all(0 < span.start <= span.end for span in trace)
    commit = named(trace, "commit", "a", first)
    assert publish.start <= commit.start <= commit.end == publish.end
    assert {span.service["service.name"] for span in trace} == {"tamis"}
    assert {span.service["service.instance.id"] for span in trace} == {"a", "b"}
    # What no subscription matches goes nowhere, and a bad traceparent is ignored.
    assert sorted(span.name for span in spans if span.attributes["tamis.event"] == second) == [
        "commit",
        "match",
        "publish",
    ]
    assert named(spans, "publish", "a", second).links == []
    assert named(spans, "match", "a", second).attributes["tamis.outcome"] == "no reader"
    [by_client] = {span.attributes["tamis.event"] for span in spans} - {first, second}
    assert named(spans, "publish", "b", by_client).attributes["tamis.outcome"] == "accepted"
    assert named(spans, "publish", "b", by_client).links == [("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")]
    assert secret.encode() not in bodies


def test_a_webhook_is_told_its_trace(tmp_path: Path) -> None:
    with Collector() as collector, Receiver() as receiver:
        config = f'data = "data"\ntraces = "{collector.url}"\n[webhooks]\nhosts = ["localhost"]\nhttp = true\n'
        with running(BrokerProcess(tmp_path, f'{config}networks = ["127.0.0.0/8", "::1/128"]')) as (broker,):
            ask(f"{broker.url}/v1/subscriptions", "POST", {"id": "all", "filter": "n >= 0"})
            url = f"{broker.url}/v1/subscriptions/all/webhook"
            assert ask(url, "PUT", {"url": receiver.url}).status == 200
            assert ask(f"{broker.url}/v1/events", "POST", {"n": 1}).status == 200
            spans = {span.name: span for span in collector.wait(5)}
            counts = ask(f"{broker.url}/v1/statistics").json["totals"]
    assert counts["trace_spans"] == 5
    assert counts["trace_spans_dropped"] == 0
    [request] = receiver.requests
    expected = f"00-{spans['publish'].trace}-{spans['deliver'].id}-01"
    assert request.headers["traceparent"] == request.json["traceparent"] == expected
    assert spans["webhook"].parent == spans["deliver"].id
    assert spans["webhook"].attributes["http.response.status_code"] == 204
    assert spans["webhook"].attributes["server.address"] == "localhost"


@pytest.mark.parametrize("when_full", ["drop", "refuse"])
def test_what_is_refused_dropped_or_kept_waiting_says_so(tmp_path: Path, when_full: str) -> None:
    (tmp_path / "schema.json").write_text(SCHEMA)
    with Collector() as collector:
        config = f'data = "data"\nschema = "schema.json"\ntraces = "{collector.url}"\nmax_backlog = 1\n'
        # The neighbour never comes: one message fills the link to it.
        config += f'max_link_messages = 1\n[[links]]\nname = "gone"\nwhen_full = "{when_full}"\n'
        with running(BrokerProcess(tmp_path, config)) as (broker,):
            made = {"id": "all", "filter": "mag >= 0"}
            assert ask(f"{broker.url}/v1/subscriptions", "POST", made).status == 201
            answers = [ask(f"{broker.url}/v1/events", "POST", {"mag": n}) for n in range(3)]
        spans = collector.spans
    outcomes = sorted(
        (span.name, str(span.attributes["tamis.outcome"]), span.is_error)
        for span in spans
        if span.name in ("hop", "deliver", "publish")
    )
    waiting = [("deliver", "waiting", False), ("hop", "waiting", False), ("publish", "accepted", False)]
    if when_full == "refuse":
        assert [answer.status for answer in answers] == [200, 503, 503]
        assert outcomes == sorted([*waiting, *[("publish", "refused", True)] * 2])
        assert {span.attributes.get("error.type") for span in spans if span.is_error} == {"RefusedError"}
    else:
        assert [answer.status for answer in answers] == [200, 200, 200]
        first_of_gaps = [("deliver", "suspended", True), ("hop", "dropped", True)]
        waiting.append(("hop", "waiting", False))  # the third event, behind the first
        assert outcomes == sorted([*waiting, *first_of_gaps, *[("publish", "accepted", False)] * 2])
        [second] = answers[1].json["ids"]
        assert {span.attributes["tamis.event"] for span in spans if span.is_error} == {second}


def test_a_share_of_none_exports_nothing(tmp_path: Path) -> None:
    with Collector() as collector:
        config = f'data = "data"\ntraces = "{collector.url}"\ntrace_share = 0.0'
        with running(BrokerProcess(tmp_path, config)) as (broker,):
            assert ask(f"{broker.url}/v1/events", "POST", [{"n": n} for n in range(20)]).status == 200
            assert ask(f"{broker.url}/v1/statistics").json["totals"]["trace_spans"] == 0
        assert collector.requests == []


def test_a_collector_that_hangs_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    is_asked, may_answer = threading.Event(), threading.Event()

    def hang(request: object) -> int:
        is_asked.set()
        may_answer.wait(HANGS)
        return 200

    with Collector(hang) as collector:
        broker = BrokerProcess(tmp_path, f'data = "data"\ntraces = "{collector.url}"')
        with running(broker):
            assert ask(f"{broker.url}/v1/events", "POST", {"n": 0}).status == 200
            assert is_asked.wait(HANGS)
            for n in range(20):  # the collector has a request and does not answer it
                assert ask(f"{broker.url}/v1/events", "POST", {"n": n}).status == 200
            assert broker.process is not None
            broker.process.terminate()
            # OpenTelemetry itself would wait for 30 s; the broker gives it 5.
            assert broker.process.wait(20) == 0
        may_answer.set()


def test_spans_for_a_collector_that_is_gone_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    nowhere = ReservedPort()
    broker = BrokerProcess(tmp_path, f'data = "data"\ntraces = "http://127.0.0.1:{nowhere.number}"')

    def has_dropped(count: int) -> bool:
        return f"\ntamis_trace_spans_dropped_total {count}.0".encode() in ask(f"{broker.url}/metrics").body

    with running(broker):
        for count in (3, 6):
            assert ask(f"{broker.url}/v1/events", "POST", {"n": 0}).status == 200
            wait_until(lambda count=count: has_dropped(count), "the three spans of an event to be counted as dropped")
    assert broker.log().count("traces: the collector at") == 1


def a_span() -> Span:
    return Span("publish", "server", trace_id=7, start=1, attributes={}).finish(2, "accepted")


def test_more_spans_than_may_wait_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "QUEUE", 3)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    may_answer = threading.Event()

    def answer(request: object) -> int:
        may_answer.wait(HANGS)
        return 200

    with Collector(answer) as collector:
        sink = exporting.ExportedSpans(collector.url, "a")
        for _ in range(10):
            sink.add(a_span())
        assert sink.counts == {"trace_spans": 10, "trace_spans_dropped": 7}
        may_answer.set()
        collector.wait(3)
        sink.add(a_span())
        collector.wait(4)
        assert sink.counts == {"trace_spans": 11, "trace_spans_dropped": 7}
        sink.close()


def test_variables_of_opentelemetry_name_the_collector_and_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "alerts")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")  # the broker has decided
        sink = exporting.ExportedSpans("env", "a")
        sink.add(a_span())
        [span] = collector.wait(1)
        sink.close()
    assert (span.service["service.name"], span.service["service.instance.id"]) == ("alerts", "a")
    assert (span.trace, span.parent) == (f"{7:032x}", "")


def test_a_bad_traceparent_is_ignored() -> None:
    assert read_traceparent([TRACEPARENT]) is not None
    assert read_traceparent([f"01{TRACEPARENT[2:]}-what a later version adds"]) is not None
    assert [text for text in BAD if read_traceparent([text]) is not None] == []
    assert read_traceparent([]) is read_traceparent([TRACEPARENT, TRACEPARENT]) is None


def test_calls_that_travel_together_keep_their_spans(tmp_path: Path) -> None:
    other = TRACEPARENT.replace("b7ad6b7169203331", "00000000000000ab")
    parents = [None, TRACEPARENT, "no trace", other, TRACEPARENT]

    async def story(broker: BrokerProcess) -> None:
        async with tamis.connect(broker.url) as client:
            calls = [client.publish([{"n": n}] * (n + 1), traceparent=parent) for n, parent in enumerate(parents)]
            await asyncio.gather(*calls)

    with Collector() as collector:
        broker = BrokerProcess(tmp_path, f'data = "data"\ntraces = "{collector.url}"')
        with running(broker):
            asyncio.run(asyncio.wait_for(story(broker), HANGS))
            with spanning(), tamis.connect(broker.url) as client:
                client.publish({"n": 5})
            spans = collector.wait(16 * 3)
    links = {span.attributes["tamis.event"]: span.links for span in spans if span.name == "publish"}
    first, second = ([("0af7651916cd43dd8448eb211c80319c", id)] for id in ("b7ad6b7169203331", "00000000000000ab"))
    expected = [[], *[first] * 2, *[[]] * 3, *[second] * 4, *[first] * 5, first]
    assert sorted(links.values()) == sorted(expected)
    assert "connection" not in broker.log()


def test_a_span_is_named_again_when_its_message_is_sent_again() -> None:
    session = ClientSession("alice", None, 7)
    session.take(join_frames([encode_frame(Frame(3, CLIENT_EPOCH, 0, 0))]))
    session.publish("default", [b"a", b"b"], lambda error: None, TRACEPARENT)
    session.publish("default", [b"c"], lambda error: None)
    packets = [session.next_packet()]
    session.link.lost()
    session.take(join_frames([encode_frame(Frame(3, CLIENT_EPOCH, 0, 0))]))
    packets.append(session.next_packet())
    for packet in packets:
        assert packet is not None
        word, message = (decode_frame(data, "alice") for data in split_frames(packet, "alice"))
        assert (word.seq, message.seq) == (0, 1)
        assert m.decode(word.body, "alice") == m.Origins(7, ((1, 2, TRACEPARENT),))
        assert isinstance(m.decode(message.body, "alice"), m.PublishBatch)


def test_words_that_lie_about_spans_are_ignored() -> None:
    sink: Any = SimpleNamespace(add=lambda span: made.append(span), counts={}, close=lambda: None)
    made: list[Span] = []
    traces = BrokerTraces("here", sink)
    content = Content()
    ends = {"c:alice:x": StreamEnd("c:alice:x", 3)}
    edge = TracedEdge(traces, BrokerCore("here", {}, content), content, ends)
    edge.handle(Connect(Rights("alice")), sender="c:alice:x", now=0.0)
    good = m.Origins(1, ((1, 1, TRACEPARENT),))
    words = [
        b"\x01\xc1",
        m.encode(m.Origins(1, ((5, 1, TRACEPARENT), (1, 9, TRACEPARENT)))),  # not in order
        m.encode(m.Origins(2, ((1, 1, TRACEPARENT),))),  # another life
        m.encode(m.Origins(1, ((1, 0, TRACEPARENT), (2, 1 << 62, TRACEPARENT)))),
        m.encode(m.Origins(1, ((1, 1, "no trace"),))),
        m.encode(m.Origins(1, ((1, 1, TRACEPARENT),) * 2_000)),  # longer than any client says it
        m.encode(good),
    ]
    for number, body in enumerate(words, 1):
        traces.note_word("c:alice:x", Frame(CLIENT_EPOCH, 3, 0, 0, body))
        event = m.Published(EventId("", 1, 1), "default", b"\x81\xa1n\x01")
        edge.handle(m.PublishBatch((event,)), sender="c:alice:x", now=float(number))
        traces.traced(lambda changes, then: then())([], lambda: None)
    origins = [span.origin for span in made if span.name == "publish"]
    assert origins == [None] * 6 + [read_traceparent([TRACEPARENT])]
    refusal = m.Refusal("Origins", "a client may not send Origins")  # with a number it would be a message of the stream
    assert edge.handle(good, sender="c:alice:x", now=9.0) == [Tell("c:alice:x", refusal)]
    # What was said before a connection ended is forgotten with it.
    traces.note_word("c:alice:x", Frame(CLIENT_EPOCH, 3, 0, 0, m.encode(good)))
    edge.handle(Disconnect("gone"), sender="c:alice:x", now=9.0)
    assert not traces._origins


def test_every_broker_samples_the_same_share() -> None:
    ids = [trace_id_of(EventId("http:alice@north", 1, n)) for n in range(4_000)]
    tenth, half = ([is_sampled(id, threshold_of(share)) for id in ids] for share in (0.1, 0.5))
    assert 300 < sum(tenth) < 500
    assert 1_800 < sum(half) < 2_200
    assert all(in_half for in_tenth, in_half in zip(tenth, half, strict=True) if in_tenth)
    assert len(set(ids)) == 4_000


@pytest.mark.parametrize(
    ("traces", "share", "words"),
    [
        ("127.0.0.1:4318", 1.0, "address of a collector"),
        ("ftp://127.0.0.1", 1.0, "address of a collector"),
        ("http://[::1", 1.0, "address of a collector"),
        ("http://127.0.0.1:port", 1.0, "address of a collector"),
        ("http://me:secret@127.0.0.1:4318", 1.0, "OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://127.0.0.1:4318?token=secret", 1.0, "OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://127.0.0.1:4318", 1.5, "0 to 1"),
        ("http://127.0.0.1:4318", float("nan"), "0 to 1"),
    ],
)
def test_settings_that_cannot_be(traces: str, share: float, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        BrokerConfig(traces=traces, trace_share=share).check()
    BrokerConfig(traces="env", trace_share=0.5).check()


def test_without_the_extra_the_command_to_install_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "tamis.runtime.traces.exporting", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)  # importing it fails
    command = ["tamis", "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    monkeypatch.setattr(sys, "argv", [*command, "--traces", "http://127.0.0.1:4318"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code not in (0, None)
    assert "pip install 'tamis[otel]'" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_step_counts_though_its_spans_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(BrokerTraces):
        def note_step(self, step: TracedCall) -> None:
            raise KeyError("a fault of the tracer")

    content = Content()
    sink: Any = SimpleNamespace(add=lambda span: None, counts={}, close=lambda: None)
    traces = Broken("here", sink)
    edge = TracedEdge(traces, BrokerCore("here", {}, content), content, {})
    effects = edge.handle(Posts((Post(({"n": 1},), "default", Rights("alice"), "p", 1),)), sender="", now=0.0)
    assert [type(effect.value[0]) for effect in effects if isinstance(effect, Answer)] == [Accepted]
    assert "the spans of a step are lost" in caplog.text
