"""The edge as a core: requests in, effects out, and nothing learned outside a transaction."""

from __future__ import annotations

from typing import Any

from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis.node import records
from tamis.node.content import Content
from tamis.node.effects import Answer, Deliver, Persist, Send
from tamis.node.stream import StreamEnd
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Bury, Drop, Replay, Settle, Settled, Shared, Take, Taken
from tamis.routing.core.broker import BrokerCore, client_key
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.link_names import http_link
from tamis.routing.edge.registry import Registry
from tamis.routing.edge.requests import Accepted, Departed, Post, Posts, Rejection, SubscribeFor
from tamis.routing.edge.rights import Rights
from tamis.routing.policies import find_policy

RIGHTS = Rights("alice")


def learning_edge(**options: Any) -> tuple[EdgeCore, dict[str, StreamEnd]]:
    content, ends = Content(), dict[str, StreamEnd]()
    return EdgeCore(BrokerCore("here", {}, content), content, ends, **options), ends


def post(edge: EdgeCore, *events: dict[str, Any]) -> tuple[Any, list[Persist]]:
    """Return the verdict on a request, and what is persisted with it."""
    effects = edge.handle(Posts((Post(events, "default", RIGHTS, "p", 1),)), sender="", now=0.0)
    [answer] = [effect.value for effect in effects if isinstance(effect, Answer)]
    return answer[0], [effect for effect in effects if isinstance(effect, Persist)]


def test_a_request_that_is_rejected_teaches_nothing() -> None:
    edge, _ = learning_edge()
    content = edge.checks.content.of("default")
    content.compile("n > 0")
    verdict, changes = post(edge, {"m": 1}, {"n": "text"})
    assert isinstance(verdict, Rejection)
    assert (verdict.row, changes, list(content.schema)) == (1, [], ["n"])


def test_types_are_persisted_with_the_event_that_taught_them() -> None:
    edge, _ = learning_edge()
    verdict, changes = post(edge, {"n": 1})
    assert isinstance(verdict, Accepted)
    assert [change.key for change in changes] == [records.TYPES.key("default")]


def test_a_draft_is_taken_only_under_the_types_it_was_made_with() -> None:
    edge, _ = learning_edge()
    draft = edge.checks.begin_events("default")
    edge.checks.draft_event(draft, {"n": 1}, "default", RIGHTS)
    assert dict(edge.checks.content.of("default").schema) == {}  # a draft teaches nothing
    edge.checks.content.of("default").compile("n = 'text'")
    call = Post(({"n": 1},), "default", RIGHTS, "p", 2, draft=draft)
    effects = edge.handle(Posts((call,)), sender="", now=0.0)
    assert [type(effect.value[0]) for effect in effects if isinstance(effect, Answer)] == [Rejection]


def test_a_suspended_client_that_has_gone_is_not_told_its_gap() -> None:
    edge, ends = learning_edge(max_backlog=1)
    ends["c"] = StreamEnd("c", 1)
    event = m.Published(m.EventId("p", 1, 1), "default", b"\x80")
    for _ in range(2):
        edge.backlogs.admit(Deliver("c", m.Delivery(event, ("s",))))
    assert list(edge.backlogs.gaps) == ["c"]
    assert records.GAP.drop("c") in edge.handle(Departed(), sender="c", now=0.0)
    del ends["c"]
    assert not [effect for effect in edge.handle(m.Tick(), sender="", now=1.0) if isinstance(effect, Send)]


def test_a_queue_that_has_gone_stops_nothing() -> None:
    edge, ends = learning_edge()
    ends["d:q"] = StreamEnd("d:q", 1)
    ends["d:q"].append(m.encode(m.Delivery(m.Published(m.EventId("p", 1, 1), "default", b"\x80"), ("q",))))
    letters = ((1, b""),)
    for request in (
        Take("q", "w", 1, 1.0),
        Settle("q", "w", (1,)),
        Bury("q", "d:q", letters, 1),
        Replay("q", "d:q", letters),
        Drop("d:x", (1,)),
    ):
        [answer] = [
            effect.value for effect in edge.handle(Shared(request), sender="", now=0.0) if isinstance(effect, Answer)
        ]
        assert answer in (Taken({}), Settled(0, (1,)), Settled(0)), request


def test_what_contradicts_the_types_of_a_draft_is_blamed_on_no_subscription() -> None:
    edge, _ = learning_edge()
    rights = RIGHTS
    filters = [b'{"op": "=", "args": [{"property": "a"}, 1]}', b'{"op": "=", "args": [{"property": "b"}, "x"]}']
    messages = [m.Subscribe(str(row), filter) for row, filter in enumerate(filters)]
    draft = None
    for message in messages:
        draft = edge.checks.draft(draft, message, rights)
    assert draft is not None
    taught = edge.checks.draft(None, m.Subscribe("n", b'{"op": "=", "args": [{"property": "b"}, 1]}'), rights)
    edge.checks.takes(taught, "default")  # the second one is about a number now
    requests = tuple((http_link("default", message.id), message) for message in messages)
    effects = edge.handle(SubscribeFor(requests, rights, drafts={"default": draft}), sender="", now=0.0)
    [answer] = [effect.value for effect in effects if isinstance(effect, Answer)]
    assert isinstance(answer, Rejection)
    assert (answer.row, "'b'" in str(answer.error)) == (None, True)


def test_what_waits_is_found_by_its_place_however_many_principals_wait() -> None:
    """Units of work: an arrival looks into one dictionary, not into that of each principal that waits."""
    registry = Registry()
    for number in range(200):
        registry.admit(f"p{number}", [_arrival(f"p{number}", row) for row in range(300)])
    looks = [0]

    class Counted(dict[Any, Any]):
        def __contains__(self, key: object) -> bool:
            looks[0] += 1
            return super().__contains__(key)

        def get(self, key: Any, default: Any = None) -> Any:
            looks[0] += 1
            return super().get(key, default)

    registry._waiting = {name: Counted(waiting) for name, waiting in registry._waiting.items()}
    registry.admit("late", [_arrival("late", row) for row in range(1_000)])
    assert looks[0] <= 1_000
    [place] = [("p0", client_key("p0", "default", "299"))]
    assert registry.is_waiting([place])
    registry.admit("other", [_arrival("p0", row) for row in range(300)])  # the later one holds
    assert place in registry._waiting["other"]
    assert "p0" not in registry._waiting
    while registry.next_slice():
        pass
    assert not registry.is_waiting([place])
    assert not registry._waiting_of


def _arrival(link: str, row: int) -> tuple[str, m.Subscribe]:
    return link, m.Subscribe(str(row), b"")


def test_gaps_of_a_link_do_not_fill_the_backlog_of_a_client() -> None:
    content, ends = Content(Schema({"n": Number()})), dict[str, StreamEnd]()
    core = BrokerCore("here", {"east": find_policy("covering")}, content)
    edge = EdgeCore(core, content, ends, max_backlog=3)
    link = http_link("default", "s")
    ends[link] = StreamEnd(link, 1)
    edge.handle(SubscribeFor(((link, m.Subscribe("s", b"true")),), RIGHTS), sender="", now=0.0)

    def gaps(count: int) -> list[m.Gap]:
        """Return the gaps that are sent to the client for ``count`` gaps of the link."""
        sent: list[m.Gap] = []
        for number in range(count):
            gap = m.LinkGap("default", m.EventId("p", 1, 1 + number), 5)
            for effect in edge.handle(gap, sender="east", now=0.0):
                if isinstance(effect, Send) and effect.link == link:
                    ends[link].append(m.encode(effect.message))
                    sent.append(effect.message)
        return sent

    assert [gap.first.seq for gap in gaps(100)] == [1, 2, 3]
    assert edge.backlogs.gaps[link] == m.Gap(m.EventId("p", 1, 4), 97 * 5)
    ends[link].acknowledge(3)
    effects = edge.handle(m.Tick(), sender="", now=1.0)
    assert Send(link, m.Gap(m.EventId("p", 1, 4), 97 * 5)) in effects
    assert len(gaps(1)) == 1
