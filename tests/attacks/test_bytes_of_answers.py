"""Attack: answers and steps that are small in rows and large in bytes.

A subscription may have 1 MiB of metadata and an event 256 KiB, so that a page of a thousand rows, a take of 256
messages or a replay of a thousand letters would be hundreds of megabytes in one piece. Each is bounded in bytes, with
at least one row, and a client goes on where it ended. The longest step of the event loop is measured too
(`tests.attacks.stalls`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from tamis.errors import RefusedError
from tamis.model.strict_json import MAX_KEYS, count_keys
from tamis.node.node import Node
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Bury, Replay, Shared
from tamis.routing.edge.link_names import client_link
from tamis.runtime.broker.machine import BrokerMachine
from tamis.runtime.stores.messages import MessageTable
from tamis.web.bodies import _array, _object
from tamis.web.server import MAX_TO_WORKER
from tamis.web.work.pipes import value_of
from tamis.web.work.pool import Pool
from tests.attacks.stalls import Watched, watched_broker
from tests.attacks.wire import HANGS, dialled

#: Bytes of a page, of a take and of one step of a replay (`MAX_PAGE_BYTES`), and what one row may add to them.
PAGE, ROW = 4 * 1024 * 1024, 1024 * 1024 + 4_096

#: Units of CPU time, about 5 ms each, that one step of the loop may take. Most of these took 20 to 300.
MOST_UNITS = 25.0

#: An event of 245 KB, and 1 MB of metadata.
LONG, NOTE = "x" * 245_000, "m" * 1_000_000


@contextlib.contextmanager
def steps_with(kind: type, seen: list[Any]) -> Iterator[None]:
    """Note all requests of a kind about shared queues that a broker of this process takes."""
    submit = Node.submit

    def noting(node: Any, message: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(message, Shared) and isinstance(message.request, kind):
            seen.append(message.request)
        return submit(node, message, *arguments, **named)

    with mock.patch.object(Node, "submit", noting):
        yield


@contextlib.contextmanager
def rows_read() -> Iterator[list[int]]:
    """Note the bytes of all messages that are read from the disk."""
    read, sizes = MessageTable.read, list[int]()

    def noting(*arguments: Any) -> list[tuple[int, bytes]]:
        page = read(*arguments)
        sizes.extend(len(body) for _, body in page)
        return page

    with mock.patch.object(MessageTable, "read", noting):
        yield sizes


def run(directory: Path, story: Callable[[Watched], Any]) -> Any:
    async def whole() -> Any:
        async with watched_broker(directory) as watched:
            return await story(watched)

    return asyncio.run(asyncio.wait_for(whole(), HANGS))


async def pages(watched: Watched, path: str, name: str, cursor: str = "after") -> AsyncIterator[tuple[int, list[Any]]]:
    """Yield the bytes and the rows of all pages of a listing."""
    after = ""
    while True:
        answer = await watched.ask(f"{path}{f'&{cursor}={after}' if after else ''}")
        assert answer.status == 200, answer.body[:300]
        yield len(answer.body), answer.json[name]
        if answer.json["next"] is None or (name == "messages" and not answer.json[name]):
            return
        after = answer.json["next"]


async def published(watched: Watched, n: int, text: str = LONG) -> None:
    for k in range(n):
        assert (await watched.ask("/v1/events", "POST", {"n": k + 1, "s": text})).status == 200


def more_than(bound: int) -> dict[str, Any]:
    return {"op": ">", "args": [{"property": "n"}, bound]}


async def subscribed(watched: Watched, id: str, filter: Any = "n > 0", **more: Any) -> None:
    answer = await watched.ask("/v1/subscriptions", "POST", {"id": id, "filter": filter, **more})
    assert answer.status == 201, answer.body[:300]


async def active(watched: Watched, id: str) -> None:
    while (await watched.ask(f"/v1/subscriptions/{id}")).json["state"] != "active":
        await asyncio.sleep(0.02)


async def buried(watched: Watched, n: int, text: str = LONG) -> None:
    """Have ``n`` messages of the subscription "jobs" that were taken once become dead letters."""
    await subscribed(watched, "jobs", max_deliveries=1)
    await published(watched, n, text)
    taken = 0
    while taken < n:
        body = {"consumer": "c", "limit": 256, "seconds": 0.001}
        messages = (await watched.ask("/v1/subscriptions/jobs/take", "POST", body)).json["messages"]
        taken += len(messages)
    await asyncio.sleep(0.01)
    answer = await watched.ask("/v1/subscriptions/jobs/take", "POST", {"consumer": "c", "limit": 256})
    assert answer.json["messages"] == []


# ---- pages


def test_pages_of_subscriptions_end_after_some_bytes(tmp_path: Path) -> None:
    async def story(watched: Watched) -> tuple[list[int], list[str], float]:
        for k in range(12):
            await subscribed(watched, f"s{k}", metadata={"note": NOTE})
        watched.reset()
        sizes, ids = list[int](), list[str]()
        async for size, rows in pages(watched, "/v1/subscriptions?limit=1000", "subscriptions"):
            sizes.append(size)
            ids += [row["id"] for row in rows]
            assert rows
        return sizes, ids, watched.units()

    sizes, ids, units = run(tmp_path, story)
    assert max(sizes) <= PAGE + ROW
    assert ids == [f"s{k}" for k in range(12)]
    assert len(sizes) <= 4  # not one row each
    assert units <= MOST_UNITS


def test_a_row_that_is_larger_than_a_page_is_shown_alone(tmp_path: Path) -> None:
    """Escaped in JSON, a control character takes six bytes."""

    async def story(watched: Watched) -> list[list[str]]:
        shown = []
        note = "\x01" * 170_000
        for k in range(2):
            await subscribed(watched, f"s{k}", metadata={"note": note})
        await published(watched, 2, "\x01" * 240_000)
        async for _, rows in pages(watched, "/v1/events?limit=1000", "events", "before"):
            shown.append([row["event"]["n"] for row in rows])
        return shown

    assert sum(map(len, run(tmp_path, story))) == 2


@pytest.mark.parametrize("path", ["events", "deliveries"])
def test_pages_of_recent_events_end_after_some_bytes(tmp_path: Path, path: str) -> None:
    async def story(watched: Watched) -> tuple[list[int], list[int], float]:
        await subscribed(watched, "all")
        await published(watched, 30)
        watched.reset()
        sizes, numbers = list[int](), list[int]()
        async for size, rows in pages(watched, f"/v1/{path}?limit=1000", path, "before"):
            sizes.append(size)
            numbers += [row["event"]["n"] for row in rows]
        return sizes, numbers, watched.units()

    sizes, numbers, units = run(tmp_path, story)
    assert max(sizes) <= PAGE + ROW
    assert numbers == list(range(30, 0, -1))
    assert units <= MOST_UNITS


def test_pages_of_a_log_and_of_dead_letters_end_after_some_bytes(tmp_path: Path) -> None:
    """A control character is one byte on disk and six in JSON."""

    async def story(watched: Watched) -> dict[str, tuple[list[int], int]]:
        pages_by_path: dict[str, tuple[list[int], int]] = {}
        await buried(watched, 12, "\x01" * 240_000)
        for path, name in (("log", "messages"), ("dead", "letters")):
            sizes, n = list[int](), 0
            async for size, rows in pages(watched, f"/v1/subscriptions/jobs/{path}?limit=1000", name):
                sizes.append(size)
                n += len(rows)
            pages_by_path[name] = (sizes, n)
        return pages_by_path

    for sizes, n in run(tmp_path, story).values():
        assert n == 12
        assert max(sizes) <= PAGE + 6 * 240_000 + 4_096


def test_answers_to_a_trial_and_to_a_search_end_after_some_bytes(tmp_path: Path) -> None:
    """All are counted; only some are shown."""

    async def story(watched: Watched) -> tuple[int, int, int, int]:
        await published(watched, 30)
        tried = await watched.ask("/v1/trial", "POST", {"filter": "n > 0", "covering": False})
        assert tried.status == 200, tried.body[:300]
        for k in range(40):
            values = [f"{'y' * 900}{k}-{i}" for i in range(250)]
            texts = {"op": "in", "args": [{"property": "s"}, ["", *values]]}
            await subscribed(watched, f"s{k}", {"op": "and", "args": [more_than(k), texts]})
        event = {"event": {"n": 1_000, "s": ""}}
        matched = await watched.ask("/v1/matches", "POST", event)
        assert matched.status == 200, matched.body[:300]
        return len(tried.body), tried.json["matched"], len(matched.body), matched.json["count"]

    tried, n_tried, matched, n_matched = run(tmp_path, story)
    assert (n_tried, n_matched) == (30, 40)
    assert tried <= PAGE + ROW
    assert matched <= PAGE + ROW


def test_a_comparison_is_given_filters_of_some_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    async def noting(self: Pool, principal: str, job: str, arguments: Any, blobs: Any = (), **named: Any) -> Any:
        lengths.append(len(value_of(arguments)) + sum(map(len, blobs)))
        return []

    monkeypatch.setattr(Pool, "run", noting)

    async def story(watched: Watched) -> float:
        values = [f"{'y' * 900}{i}" for i in range(1_000)]
        for k in range(30):
            await subscribed(watched, f"s{k}", {"op": "in", "args": [{"property": "s"}, [str(k), *values]]})
        watched.reset()
        answer = await watched.ask("/v1/comparison", "POST", {"brokers": 2})
        assert 0 < answer.json["subscriptions"] < 30
        return watched.units()

    assert run(tmp_path, story) <= MOST_UNITS
    assert max(lengths) <= MAX_TO_WORKER + 100_000


# ---- consumers


def test_a_take_ends_after_some_bytes_and_reads_only_what_it_shows(tmp_path: Path) -> None:
    async def story(watched: Watched) -> tuple[list[int], list[int], float, int]:
        await subscribed(watched, "jobs")
        await published(watched, 40)
        watched.reset()
        sizes, numbers, body = list[int](), list[int](), {"consumer": "c", "limit": 256}
        with rows_read() as read:
            while True:
                answer = await watched.ask("/v1/subscriptions/jobs/take", "POST", body)
                if not answer.json["messages"]:
                    break
                sizes.append(len(answer.body))
                numbers += [message["event"]["n"] for message in answer.json["messages"]]
        return sizes, numbers, watched.units(), sum(read)

    sizes, numbers, units, read = run(tmp_path, story)
    assert max(sizes) <= PAGE + ROW
    assert len(sizes) <= 4
    assert numbers == list(range(1, 41))
    assert read <= 41 * 246_000 + len(sizes) * 246_000  # what a log asks for its first message
    assert units <= MOST_UNITS


def test_a_take_reads_nothing_between_the_messages_that_it_shows(tmp_path: Path) -> None:
    async def story(watched: Watched) -> tuple[int, list[int]]:
        await subscribed(watched, "jobs")
        await published(watched, 30)
        path, cursors = "/v1/subscriptions/jobs", list[str]()
        while len(cursors) < 30:
            answer = await watched.ask(f"{path}/take", "POST", {"consumer": "c", "limit": 256})
            cursors += [message["cursor"] for message in answer.json["messages"]]
        done = {"consumer": "c", "acknowledge": cursors[1:-1], "release": [cursors[0], cursors[-1]]}
        assert (await watched.ask(f"{path}/settle", "POST", done)).json["settled"] == 30
        with rows_read() as read:
            answer = await watched.ask(f"{path}/take", "POST", {"consumer": "d", "limit": 256})
        return sum(read), [message["event"]["n"] for message in answer.json["messages"]]

    read, numbers = run(tmp_path, story)
    assert numbers == [1, 30]
    assert read <= 4 * 246_000


def test_messages_that_are_worn_out_are_moved_in_steps_of_some_bytes(tmp_path: Path) -> None:
    steps: list[Bury] = []

    async def story(watched: Watched) -> float:
        watched.reset()
        with steps_with(Bury, steps):
            await buried(watched, 40)
        return watched.units()

    assert run(tmp_path, story) <= MOST_UNITS
    assert max(sum(len(body) for _, body in step.letters) for step in steps) <= PAGE + ROW
    assert sum(len(step.letters) for step in steps) == 40


# ---- dead letters


def test_letters_are_replayed_in_steps_of_some_bytes(tmp_path: Path) -> None:
    steps: list[Replay] = []

    async def story(watched: Watched) -> tuple[int, int, int, float]:
        await buried(watched, 40)
        path = "/v1/subscriptions/jobs"
        last = (await watched.ask(f"{path}/dead?limit=1000")).json
        while last["next"] is not None:
            last = (await watched.ask(f"{path}/dead?limit=1000&after={last['next']}")).json
        upto = last["letters"][-1]["cursor"]
        watched.reset()
        with steps_with(Replay, steps):
            replayed = (await watched.ask(f"{path}/dead/replay", "POST", {"upto": upto})).json["replayed"]
        units = watched.units()
        left = (await watched.ask(f"{path}/dead?limit=1")).json["count"]
        waiting = (await watched.ask(path)).json["waiting"]
        return replayed, left, waiting, units

    replayed, left, waiting, units = run(tmp_path, story)
    assert (replayed, left, waiting) == (40, 0, 40)
    assert max(sum(len(body) for _, body in step.letters) for step in steps) <= PAGE + ROW
    assert units <= MOST_UNITS


def test_letters_of_a_client_are_counted_without_their_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each letter is read once to learn whose it is; the next requests count without reading."""
    machines, init = list[BrokerMachine](), BrokerMachine.__init__

    def noting(self: BrokerMachine, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        machines.append(self)

    monkeypatch.setattr(BrokerMachine, "__init__", noting)

    async def story(watched: Watched) -> tuple[int, int, list[int]]:
        link = client_link("local", "pager")
        async with dialled(watched, "client=pager") as wire:
            about = msgspec.json.encode(m.About(max_deliveries=1))
            for id, bound in (("all", 0), ("some", 20)):
                filter = msgspec.json.encode(more_than(bound))
                await wire.say(m.encode(m.Subscribe(id, filter, about=about)))
            assert await wire.count_active(2) == 2
        await published(watched, 40)
        done = asyncio.get_running_loop().create_future()
        machines[-1].failing.count(link, range(1, 41), done.set_result)
        assert len(await done) == 40
        path = "/v1/subscriptions/{}/dead?client=pager&limit=1"
        first = (await watched.ask(path.format("all"))).json["count"]
        with rows_read() as read:
            counts = [(await watched.ask(path.format(id))).json["count"] for id in ("all", "some")]
        return first, sum(read), counts

    first, read, counts = run(tmp_path, story)
    assert (first, counts) == (40, [40, 20])
    assert read <= 2 * 3 * 246_000  # the letters that are shown, and the beginning of the log


# ---- making subscriptions


def test_metadata_of_too_many_keys_are_refused_by_name(tmp_path: Path) -> None:
    async def story(watched: Watched) -> tuple[list[tuple[int, str]], float]:
        watched.reset()
        many = {f"k{k}": "" for k in range(40_000)}
        answers = []
        for body in (
            [{"filter": "n > 0", "id": f"s{k}", "metadata": many} for k in range(15)],
            {"filter": "n > 0", "id": "one", "metadata": many},
        ):
            answer = await watched.ask("/v1/subscriptions", "POST", body)
            answers.append((answer.status, answer.json["error"]))
        await subscribed(watched, "few", metadata=dict(list(many.items())[:1_000]))
        answer = await watched.ask("/v1/subscriptions/few", "PUT", {"filter": "n > 1", "metadata": many})
        answers.append((answer.status, answer.json["error"]))
        return answers, watched.units()

    answers, units = run(tmp_path, story)
    for status, error in answers:
        assert status == 413
        assert "keys of metadata: 40,000 is more than the 1,000 accepted" in error
    assert units <= MOST_UNITS


def test_keys_are_counted_before_they_are_parsed(tmp_path: Path) -> None:
    """An object of 2 MiB could have 200,000 keys, which a parser reads in 80 ms without giving way."""

    async def story(watched: Watched) -> tuple[list[tuple[int, str]], float]:
        text = "{" + ",".join(f'"k{k}":1' for k in range(100_000)) + "}"
        bodies = {
            "/v1/subscriptions": f'[{{"filter": "n > 0", "metadata": {text.replace(":1", ":" + chr(34) * 2)}}}]',
            "/v1/events": f'{{"a": {text}}}',
        }
        await published(watched, 1, "")
        watched.reset()
        answers = []
        for path, body in bodies.items():
            answer = await watched.ask(path, "POST", body)
            answers.append((answer.status, answer.json["error"]))
        return answers, watched.units()

    answers, _ = run(tmp_path, story)
    for status, error in answers:
        assert status in (400, 413)
        assert "more than 50,000 keys in one object" in error


def test_colons_in_strings_are_not_counted_as_keys() -> None:
    """Also where many small objects follow, which have more keys together than one object may have."""
    text = '\\"' + "aa:" * 80_000
    objects = [{"dump": text}, *({"n": n} for n in range(60_000)), {"dump": text, "n": {"m": 1}}]
    written = json.dumps(objects)
    assert list(_array(written)) == objects
    assert _object(json.dumps(objects[-1]), None) == objects[-1]


def test_keys_are_counted_as_the_parser_finds_them() -> None:
    event = {f"k{k}:": {"\\": '":', "b": [":", {"c": 1}]} for k in range(100)}
    assert count_keys(json.dumps(event)) == 400
    most = {"a": {f"k{k}": 1 for k in range(MAX_KEYS - 1)}}
    assert list(_array(json.dumps([most, most]))) == [most, most]
    assert _object(json.dumps(most), None) == most
    beyond = {"a": {f"k{k}": 1 for k in range(MAX_KEYS)}}
    for read in (lambda: _object(json.dumps(beyond), None), lambda: list(_array(json.dumps([most, beyond])))):
        with pytest.raises(RefusedError, match="more than 50,000 keys in one object"):
            read()


def test_a_client_is_refused_metadata_of_too_many_keys(tmp_path: Path) -> None:
    async def story(watched: Watched) -> str:
        async with dialled(watched) as wire:
            about = msgspec.json.encode(m.About(metadata={f"k{k}": "" for k in range(1_001)}))
            filter = msgspec.json.encode(more_than(1))
            await wire.say(m.encode(m.Subscribe("x", filter, about=about)))
            return (await wire.refusal()).reason

    assert "keys of metadata: 1,001 is more than the 1,000 accepted" in run(tmp_path, story)


def test_a_batch_with_long_metadata_does_not_hold_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer shows all subscriptions, 14 MB of JSON: it is encoded in pieces."""
    pieces, thread, dumps = list[int](), threading.get_ident(), json.dumps

    def noting(*arguments: Any, **named: Any) -> str:
        text = dumps(*arguments, **named)
        if threading.get_ident() == thread:  # not by the client of this test
            pieces.append(len(text))
        return text

    monkeypatch.setattr(json, "dumps", noting)

    async def story(watched: Watched) -> tuple[float, list[int]]:
        await subscribed(watched, "first")
        body = [{"filter": f"n > {k}", "id": f"s{k}", "metadata": {"note": NOTE}} for k in range(14)]
        watched.reset()
        answer = await watched.ask("/v1/subscriptions", "POST", body)
        units = watched.units()
        assert answer.status == 201, answer.body[:300]
        for k in range(14):
            await active(watched, f"s{k}")
        return units, [len(row["metadata"]["note"]) for row in answer.json["subscriptions"]]

    units, notes = run(tmp_path, story)
    assert notes == [1_000_000] * 14
    assert max(pieces) <= ROW
    assert units <= MOST_UNITS
