"""Attack: requests that cost seconds of computing, sent to a broker that others use.

Trials, explanations and comparisons are computed in worker processes with a budget, principals in turn; lists are read
in slices. The longest step of the event loop is measured for each kind of request (`tests.attacks.stalls`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tamis import Number, Schema, String
from tamis.errors import LimitError, RefusedError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.node.content import Content
from tamis.node.effects import Again, Answer, Link, Persist
from tamis.node.frames import Frame, encode_frame
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.checks import draft_many
from tamis.routing.edge.core import EdgeCore, source_of
from tamis.routing.edge.registry import Registry
from tamis.routing.edge.requests import Draft, Post, Posts, Rejection, StaleDraftError, SubscribeFor, UnsubscribeFor
from tamis.routing.edge.rights import Rights
from tamis.routing.policies import Policy, find_policy
from tamis.runtime.packets import join_frames
from tamis.web.endpoints import statistics
from tamis.web.work.fair_queue import FairQueue
from tamis.web.work.pool import Pool, TimeBudget
from tests.attacks.stalls import Watched, watched_broker
from tests.attacks.wire import HANGS, dialled

#: 256 filters: what one text can grow to.
COSTLY = " AND ".join(f"(V_WITHIN(w{i}, (1, 2), 1) OR b{i} = 2)" for i in range(8))

#: Units of CPU time, about 5 ms each, that one step of the loop may take: about 100 ms. One costly filter takes 14 when
#: the parser is used first; what these requests cost as a whole is 100 to 10,000.
MOST_UNITS = 25.0

COSTLY_JSON = msgspec.json.encode(to_json(parse(COSTLY)))

EVENTS = [{f"a{i}": n for i in range(8)} for n in range(500)]

#: ``{name: (path, body, status)}``.
REQUESTS: dict[str, tuple[str, Any, int]] = {
    "trial": ("/v1/trial", {"filter": COSTLY}, 200),
    "explain": ("/v1/explain", {"filter": COSTLY, "event": {"b1": 2}}, 200),
    "matches": ("/v1/matches", {"event": {"n": 10**6}}, 200),
    "comparison": ("/v1/comparison", {"brokers": 7, "policies": ["merging", "every"]}, 200),
    "many names": ("/v1/comparison", {"brokers": 31, "policies": ["merging"] * 90_000}, 400),
    "costly subscriptions": ("/v1/subscriptions", [{"filter": f"{COSTLY} OR n = {n}"} for n in range(25)], 201),
    "many subscriptions": ("/v1/subscriptions", [{"filter": f"n > {n}.5"} for n in range(1_000)], 201),
    "refused subscriptions": ("/v1/subscriptions", [*({"filter": COSTLY} for _ in range(100)), {"filter": "("}], 400),
    "many events": ("/v1/events", [{"n": -n - 1.5} for n in range(10_000)], 200),
    "many readers": ("/v1/events", [{"n": 10**6 + n} for n in range(15)], 200),
    "a long event of many readers": ("/v1/events", {"n": 10**6, "s": "x" * 30_000}, 200),
    "refused events": ("/v1/events", [*({"n": n, "s": "x" * 100} for n in range(9_000)), {"n": "no number"}], 400),
}


def test_no_request_holds_the_loop(tmp_path: Path) -> None:
    async def story() -> dict[str, float]:
        units: dict[str, float] = {}
        async with watched_broker(tmp_path) as watched:
            assert (await watched.ask("/v1/subscriptions", "POST", {"filter": COSTLY, "id": "first"})).status == 201
            many = [{"filter": f"n > {n}", "id": f"n{n}"} for n in range(1_000)]
            assert (await watched.ask("/v1/subscriptions", "POST", many)).status == 201
            assert (await watched.ask("/v1/events", "POST", EVENTS)).status == 200
            for name, (path, body, status) in REQUESTS.items():
                watched.reset()
                answer = await watched.ask(path, "POST", body)
                units[name] = watched.units()
                assert answer.status == status, answer.body
        return units

    units = asyncio.run(asyncio.wait_for(story(), HANGS))
    assert units.keys() == REQUESTS.keys()
    assert {name: n for name, n in units.items() if n > MOST_UNITS} == {}


def test_no_frame_holds_the_loop(tmp_path: Path) -> None:
    """A WebSocket client sends costly filters as one message, and as the frames of one packet."""

    def asking(n: int) -> m.Subscribe:
        return m.Subscribe(f"s{n}", msgspec.json.encode(to_json(parse(f"{COSTLY} OR n = {n}"))))

    async def story() -> tuple[float, int]:
        async with watched_broker(tmp_path) as watched:
            assert (await watched.ask("/v1/subscriptions", "POST", {"filter": COSTLY, "id": "first"})).status == 201
            simple = [{"filter": f"n > {n}"} for n in range(300)]
            assert (await watched.ask("/v1/subscriptions", "POST", simple)).status == 201
            async with dialled(watched) as wire:
                watched.reset()
                await wire.say(m.encode(m.SubscribeBatch(tuple(asking(n) for n in range(12)))))
                frames = [Frame(1, wire.epoch, wire.sent + 1 + n, 0, m.encode(asking(12 + n))) for n in range(12)]
                await wire.socket.send(join_frames(map(encode_frame, frames)))
                active = await wire.count_active(24)
            return watched.units(), active

    units, active = asyncio.run(asyncio.wait_for(story(), HANGS))
    assert active == 24
    assert units < MOST_UNITS


def test_no_message_of_events_holds_the_loop(tmp_path: Path) -> None:
    """A WebSocket client publishes 8,000 events in one message; they are in order, and some have many readers."""
    payloads = [msgspec.msgpack.encode({"n": n if n % 800 == 0 else -1.5}) for n in range(8_000)]

    async def story() -> tuple[float, list[int]]:
        async with watched_broker(tmp_path) as watched:
            readers = [{"filter": "n >= 0", "id": f"r{n}"} for n in range(600)]
            assert (await watched.ask("/v1/subscriptions", "POST", readers)).status == 201
            first = [{"n": -2.5} for _ in range(600)]  # kernels are compiled once, on a machine that has not run them
            assert (await watched.ask("/v1/events", "POST", first)).status == 200
            async with dialled(watched) as wire:
                watched.reset()
                events = (m.Published(m.EventId("", 1, n), "default", payload) for n, payload in enumerate(payloads))
                await wire.say(m.encode(m.PublishBatch(tuple(events))))
                log, wanted = "/v1/subscriptions/r7/log?limit=100", 10
                while len(messages := (await watched.ask(log)).json["messages"]) < wanted:
                    await asyncio.sleep(0.02)
            return watched.units(), [message["event"]["n"] for message in messages]

    units, numbers = asyncio.run(asyncio.wait_for(story(), HANGS))
    assert numbers == list(range(0, 8_000, 800))
    assert units < MOST_UNITS


def test_types_that_change_while_many_events_are_checked_do_not_have_them_checked_in_a_step() -> None:
    content = Content()
    edge, by = EdgeCore(BrokerCore("here", {}, content), content, {}), Rights("eve")
    events = tuple({"n": n} for n in range(300))
    draft = edge.checks.begin_events("default")
    for event in events:
        edge.checks.draft_event(draft, event, "default", by)
    content.of("default").compile("other > 1")
    [answer] = [
        effect.value
        for effect in edge.handle(Posts((Post(events, "default", by, "p", 1, draft=draft),)), sender="", now=0.0)
        if isinstance(effect, Answer)
    ]
    assert isinstance(answer[0], Rejection)
    assert isinstance(answer[0].error, StaleDraftError)


def test_small_publications_of_others_do_not_wait_behind_a_large_one() -> None:
    """Of what comes at once the smallest is routed first; the rest of the large one is on disk, and takes turns."""
    content = Content()
    edge = EdgeCore(BrokerCore("here", {}, content), content, {})
    large = Post(tuple({"n": n} for n in range(1_000)), "eve", Rights("eve"), "p", 1)
    small = Post(({"n": 1},), "bob", Rights("bob"), "q", 1)
    effects = edge.handle(Posts((large, small)), sender="", now=0.0)
    kept = [
        effect
        for effect in effects
        if isinstance(effect, Persist) and effect.key[0] == "slice" and effect.value is not None
    ]
    assert edge.publications.is_waiting(source_of("eve"))
    assert not edge.publications.is_waiting(source_of("bob"))
    assert (len(kept), Again() in effects) == (4, True)
    stored = {
        effect.key: effect.value for effect in effects if isinstance(effect, Persist) and effect.value is not None
    }
    steps = 0
    while edge.publications.has_waiting:
        edge.handle(m.Tick(), sender="", now=0.0)
        edge.publications.learn_pace(0.0)
        steps += 1
    assert 4 <= steps <= 10  # more events from step to step, as long as that is quick
    again = EdgeCore(BrokerCore("here", {}, content), content, {})
    assert Again() in again.restore(stored, now=0.0)
    assert again.publications.is_waiting(source_of("eve"))


def test_principals_enter_the_routing_table_in_turn() -> None:
    """A batch of one principal does not keep the subscription of another waiting."""
    registry = Registry()
    eve = [(f"e{n}", m.Subscribe("x", b"f" * 40_000)) for n in range(5)]
    assert registry.admit("eve", eve) == (eve[:1], eve[1:])
    bob = [("b0", m.Subscribe("x", b"f")), ("b1", m.Subscribe("x", b"f" * 60_000))]
    assert registry.admit("bob", bob) == (bob[:1], bob[1:])
    assert registry.admit("eve", eve[:1]) == ([], eve[:1])  # behind her own
    assert [registry.next_slice() for _ in range(7)] == [[eve[1]], [bob[1]], [eve[2]], [eve[3]], [eve[4]], [eve[0]], []]


@pytest.mark.parametrize(
    ("filters", "entering"),
    [
        pytest.param([f"s LIKE '%a{n}_b%'" for n in range(70)], [32, 32, 6], id="patterns"),
        pytest.param([f"s IN ('a{n}', 'b') OR n = 1" for n in range(3)], [1, 1, 1], id="alternatives"),
        pytest.param([f"n > {n}" for n in range(300)], [242, 58], id="columns"),  # the first two show the shape
    ],
)
def test_a_batch_enters_by_what_proofs_about_it_cost(filters: list[str], entering: list[int]) -> None:
    """The weights of what enters in one step are no more than a step takes, however short the filters are."""
    assert _entered({"north": find_policy("covering")}, filters) == entering


def test_a_broker_without_neighbours_proves_nothing_and_takes_a_batch_by_its_length() -> None:
    assert _entered({}, [f"s IN ('a{n}', 'b') OR n = 1" for n in range(3)]) == [3]
    strings = ", ".join(f"'{'a' * 200}{k}'" for k in range(115))  # in 24 KB, half of what a step takes
    assert _entered({}, [f"s IN ({strings}, '{n}')" for n in range(3)]) == [2, 1]


def _entered(neighbours: dict[Link, Policy], filters: list[str]) -> list[int]:
    """Return how many filters of a batch enter the routing table in each step."""
    content = Content(Schema({"s": String(), "n": Number()}))
    edge, by = EdgeCore(BrokerCore("here", neighbours, content), content, {}), Rights("eve")
    requests = [m.Subscribe(n, msgspec.json.encode(to_json(parse(text)))) for n, text in enumerate(filters)]
    draft = Draft(content.schema, content.schema)
    draft_many(edge.checks, draft, "default", [(request, None) for request in requests], by)
    links = tuple((f"s:default:{n}", request) for n, request in enumerate(requests))
    edge.handle(SubscribeFor(links, by, drafts={"default": draft}), sender="", now=0.0)
    n_entered = [entered := sum(bool(edge.broker.table.interests(link)) for link, _ in links)]
    while edge.registry.has_waiting:
        edge.handle(m.Tick(), sender="", now=0.0)
        former, entered = entered, sum(bool(edge.broker.table.interests(link)) for link, _ in links)
        n_entered.append(entered - former)
    return n_entered


def test_a_batch_is_on_disk_before_it_enters_and_one_that_ends_early_does_not_come_back() -> None:
    content = Content()
    edge, by = EdgeCore(BrokerCore("here", {}, content), content, {}), Rights("eve")
    requests = tuple((f"s:default:{n}", m.Subscribe(n, COSTLY_JSON)) for n in range(3))
    effects = edge.handle(SubscribeFor(requests, by), sender="", now=0.0)
    written = {effect.key[1] for effect in effects if isinstance(effect, Persist) and effect.key[0] == "interest"}
    assert written == {link for link, _ in requests}
    assert Again() in effects
    assert [link for link, _ in requests if edge.broker.table.interests(link)] == ["s:default:0"]
    link, _ = requests[2]
    ended = edge.handle(UnsubscribeFor(m.Unsubscribe(2), by), sender=link, now=0.0)
    assert [effect for effect in ended if isinstance(effect, Persist) and effect.key[:2] == ("interest", link)][
        -1
    ].value is None
    assert Again() not in edge.handle(m.Tick(), sender="", now=0.0)
    assert [link for link, _ in requests if edge.broker.table.interests(link)] == ["s:default:0", "s:default:1"]
    assert len(edge.registry.subscriptions) == 2


def test_a_draft_holds_when_others_taught_other_types_and_is_refused_when_they_contradict() -> None:
    """A client that teaches types meanwhile cannot have a batch compiled again within one step."""
    content = Content()
    edge, by = EdgeCore(BrokerCore("here", {}, content), content, {}), Rights("eve")
    space, request = content.of("default"), m.Subscribe("x", b'{"op":">","args":[{"property":"n"},1]}')
    for taught, is_refused in (("other > 1", False), ("n = 'text'", True)):
        space.forget_types(())
        draft = edge.checks.draft(None, request, by)
        space.compile(taught)
        message = SubscribeFor((("s:default:x", request),), by, drafts={"default": draft})
        [answer] = [effect.value for effect in edge.handle(message, sender="", now=0.0) if isinstance(effect, Answer)]
        assert isinstance(answer, Rejection) == is_refused
        assert is_refused or answer[0] is draft.checked[0]  # not compiled again


def test_the_heartbeat_notices_a_stall(tmp_path: Path) -> None:
    """The measurement can fail: a loop that sums in place is seen."""

    async def story() -> float:
        async with watched_broker(tmp_path) as watched:
            watched.reset()
            sum(range(30_000_000))
            await asyncio.sleep(0.01)
            return watched.units()

    assert asyncio.run(asyncio.wait_for(story(), HANGS)) > MOST_UNITS


def test_monitors_do_not_count_again_for_each_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that was cheap is made for each poll; one that was not is shown to the next polls, too."""

    async def counted(watched: Watched) -> tuple[int, int]:
        assert (await watched.ask("/v1/events", "POST", {"n": 1})).status == 200
        metrics = (await watched.ask("/metrics")).body.decode()
        shown = (await watched.ask("/v1/statistics")).json["totals"]["events"]
        return int(shown), int(float(metrics.partition("\ntamis_events_total ")[2].split()[0]))

    async def story() -> None:
        async with watched_broker(tmp_path) as watched:
            assert [await counted(watched), await counted(watched)] == [(1, 1), (2, 2)]
            monkeypatch.setattr(statistics, "MOST_ALWAYS", -1_000.0)
            assert [await counted(watched), await counted(watched)] == [(3, 3), (3, 3)]

    asyncio.run(asyncio.wait_for(story(), HANGS))


def run(story: Any) -> Any:
    return asyncio.run(asyncio.wait_for(story, HANGS))


SCHEMA = {"schema": json.dumps({"attributes": {"n": {"type": "number"}}}), "learns": False}


def test_a_budget_of_cpu_time_is_enforced_and_the_next_question_is_answered() -> None:
    async def story() -> None:
        pool = Pool(1)
        arguments = SCHEMA | {"filter": "n > 1", "policies": []}
        payloads = [b"\x81\xa1n" + bytes([n % 128]) for n in range(5_000_000)]
        try:
            with pytest.raises(RefusedError, match="more than 1 s of CPU time") as refused:
                await pool.run("eve", "try", arguments, payloads, budget=TimeBudget(1, HANGS))
            assert refused.value.code == 413
            shown, matched = await pool.run("bob", "try", arguments, payloads[:4])
            assert (shown, matched) == ([0, 1, 2, 3], [2, 3])
        finally:
            await pool.close()

    run(story())


def test_a_budget_is_named_however_late_the_status_of_the_worker_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that waits for a process is slower than the loop that sees its pipe closed and kills what is left."""
    waitpid, kill = os.waitpid, Pool._kill

    def late(pid: int, options: int) -> tuple[int, int]:
        if options == 0:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            time.sleep(0.3)
        return waitpid(pid, options)

    async def kill_the_dead(pool: Pool, worker: asyncio.subprocess.Process) -> None:
        await asyncio.sleep(0.1)
        await kill(pool, worker)

    async def story() -> None:
        pool = Pool(1)
        arguments = SCHEMA | {"filter": "n > 1", "policies": []}
        try:
            assert await pool.run("bob", "try", arguments, [b"\x81\xa1n\x05"]) == [[0], [0]]
            (worker,) = pool._all
            os.kill(worker.pid, signal.SIGSTOP)
            question = asyncio.create_task(
                pool.run("eve", "try", arguments, [b"\x81\xa1n\x05"], budget=TimeBudget(1, HANGS))
            )
            await asyncio.sleep(0)
            os.kill(worker.pid, signal.SIGXCPU)
            os.kill(worker.pid, signal.SIGCONT)
            with pytest.raises(RefusedError, match="more than 1 s of CPU time"):
                await question
        finally:
            await pool.close()

    monkeypatch.setattr(os, "waitpid", late)
    monkeypatch.setattr(Pool, "_kill", kill_the_dead)
    run(story())


def test_a_deadline_is_enforced_and_a_killed_worker_is_replaced() -> None:
    async def story() -> None:
        pool = Pool(1)
        arguments = SCHEMA | {"filter": "n > 1", "policies": []}
        try:
            assert await pool.run("bob", "try", arguments, [b"\x81\xa1n\x05"]) == [[0], [0]]
            (worker,) = pool._all
            os.kill(worker.pid, signal.SIGSTOP)
            with pytest.raises(RefusedError, match="no answer within"):
                await pool.run("bob", "try", arguments, [b"\x81\xa1n\x05"], budget=TimeBudget(5, 0.5))
            assert worker.returncode is not None
            assert await pool.run("bob", "try", arguments, [b"\x81\xa1n\x00"]) == [[0], []]
            (worker,) = pool._all
            worker.kill()
            with pytest.raises(RefusedError, match="the worker process ended"):
                await pool.run("bob", "try", arguments, [])
            assert await pool.run("bob", "try", arguments, []) == [[], []]
        finally:
            await pool.close()
        assert not pool._all

    run(story())


def test_errors_of_a_filter_come_back_as_they_are() -> None:
    async def story() -> None:
        pool = Pool(1)
        try:
            with pytest.raises(LimitError, match="filter|text|characters"):
                await pool.run("bob", "try", SCHEMA | {"filter": "n > 1 AND " * 5_000 + "n > 1", "policies": []})
        finally:
            await pool.close()

    run(story())


def test_principals_take_turns_and_a_queue_has_an_end() -> None:
    async def story() -> list[str]:
        queue, order = FairQueue(1, of_principal=3, in_all=5), list[str]()

        async def work(name: str) -> None:
            async with queue.turn(name):
                order.append(name)
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(work(name)) for name in ("eve", "eve", "eve", "bob", "ann")]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="5 queries"):
            await work("sue")
        await asyncio.gather(*tasks)
        full = [asyncio.create_task(work("eve")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="3 queries of 'eve'"):
            await work("eve")
        await asyncio.gather(*full)
        return order

    assert run(story())[:5] == ["eve", "bob", "ann", "eve", "eve"]


def test_a_caller_that_leaves_gives_its_turn_away() -> None:
    async def story() -> str:
        queue = FairQueue(1)
        hold = asyncio.Event()

        async def work(name: str) -> str:
            async with queue.turn(name):
                await hold.wait()
            return name

        first, second, third = (asyncio.create_task(work(name)) for name in ("eve", "bob", "ann"))
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        hold.set()
        return await third

    assert run(story()) == "ann"
