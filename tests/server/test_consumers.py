"""Consumers that share a subscription over HTTP, from Python and in the shell; and its dead letters."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli.main import app
from tamis.errors import ModelError, RefusedError
from tests.server.cutting import Cutter
from tests.server.processes import HANGS, BrokerProcess, ask, running, wait_until


def make_queue(broker: BrokerProcess, id: str, count: int, **options: Any) -> None:
    assert ask(f"{broker.url}/v1/subscriptions", "POST", {"id": id, "filter": f"{id} > 0", **options}).status == 201
    assert ask(f"{broker.url}/v1/events", "POST", [{id: n} for n in range(1, count + 1)]).status == 200


def numbers(deliveries: Any, id: str) -> list[int]:
    return [delivery.event[id] for delivery in deliveries]


def test_each_message_goes_to_one_consumer_and_to_another_when_that_dies(tmp_path: Path) -> None:
    with running(BrokerProcess(tmp_path)) as (broker,):
        make_queue(broker, "jobs", 6)
        first, second = (
            tamis.consume(broker.url, "jobs", consumer=name, batch=3, seconds=60) for name in ("one", "two")
        )
        dead = tamis.consume(broker.url, "jobs", consumer="dead", batch=2, seconds=0.5)
        held = dead.take()
        mine, others = first.take(), second.take()
        assert (numbers(held, "jobs"), numbers(mine, "jobs"), numbers(others, "jobs")) == ([1, 2], [3, 4, 5], [6])
        assert mine[1].ack()
        assert mine[0].release()
        assert not mine[0].ack()  # it was given back

        broker.kill()
        broker.start()  # what is held and what is settled is on disk
        taken: list[int] = []

        def are_taken_over() -> bool:
            taken.extend(numbers([delivery for delivery in second.take() if delivery.ack()], "jobs"))
            return len(taken) == 3

        wait_until(are_taken_over, "what the dead consumer held")
        assert sorted(taken) == [1, 2, 3]
        assert dead.settle(acknowledge=[message.cursor for message in held]) == [
            message.cursor for message in held
        ]  # too late
        assert (mine[2].ack(), others[0].ack(), first.take()) == (True, True, [])
        assert ask(f"{broker.url}/v1/subscriptions/jobs").json["waiting"] == 0


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_take_whose_answer_is_lost_is_repeated_and_returns_the_same_messages(tmp_path: Path, is_killed: bool) -> None:
    async def story(broker: BrokerProcess) -> None:
        async def restart() -> None:
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start().wait_until_ready)

        async with Cutter(broker.port) as wire:
            consumer = tamis.consume(wire.url, "cut", consumer="one", batch=3, seconds=3600)
            wire.cut_next(restart if is_killed else None)
            taken = await asyncio.to_thread(consumer.take)
            assert (wire.cuts, wire.lost[:12]) == (1, b"HTTP/1.1 200")
            assert [(delivery.event["cut"], delivery.deliveries) for delivery in taken] == [(1, 1), (2, 1), (3, 1)]
            others = await asyncio.to_thread(consumer.take)
            assert numbers(others, "cut") == [4, 5]
            for delivery in (*taken, *others):
                assert await asyncio.to_thread(delivery.ack)

    with running(BrokerProcess(tmp_path)) as (broker,):
        make_queue(broker, "cut", 5)
        asyncio.run(asyncio.wait_for(story(broker), HANGS))
        request = {"consumer": "a", "limit": 2, "request_id": "r"}
        assert ask(f"{broker.url}/v1/events", "POST", [{"cut": n} for n in range(6, 9)]).status == 200

        def take(**changes: str) -> list[int]:
            answer = ask(f"{broker.url}/v1/subscriptions/cut/take", "POST", request | changes)
            return [message["event"]["cut"] for message in answer.json["messages"]]

        assert (take(), take()) == ([6, 7], [6, 7])
        assert take(consumer="b") == [8]  # the same id of another consumer is another request
        assert take(request_id="s") == []


def test_what_is_taken_too_often_is_a_dead_letter(broker: BrokerProcess) -> None:
    make_queue(broker, "worn", 3, max_deliveries=2)
    consumer = tamis.consume(broker.url, "worn", consumer="w", seconds=60)
    for expected in (1, 2):
        taken = consumer.take()
        assert [message.deliveries for message in taken] == [expected] * len(taken)
        assert taken[-1].ack()  # the last one is dealt with, the others fail
        assert all(message.release() for message in taken[:-1])
    assert consumer.take() == []
    page = consumer.dead_letters()
    assert ([letter["event"]["worn"] for letter in page["letters"]], page["count"], page["next"]) == ([1], 1, None)
    assert consumer.replay(cursors=[page["letters"][0]["cursor"]]) == 1
    assert consumer.replay(upto=page["letters"][0]["cursor"]) == 0
    [again] = consumer.take()
    assert (again.event, again.deliveries) == ({"worn": 1}, 1)
    again.release()
    [again] = consumer.take()
    again.release()
    assert consumer.take() == []
    [letter] = consumer.dead_letters()["letters"]
    assert (consumer.drop(upto=letter["cursor"]), consumer.dead_letters()["count"]) == (1, 0)


def test_take_waits_for_a_message(broker: BrokerProcess) -> None:
    make_queue(broker, "awaited", 1)
    consumer = tamis.consume(broker.url, "awaited", consumer="w", seconds=0.2)
    assert len(consumer.take()) == 1
    start = time.monotonic()
    assert len(consumer.take(wait=20)) == 1  # its own time is over, and it comes again
    assert time.monotonic() - start < 20


def test_in_the_shell(broker: BrokerProcess) -> None:
    make_queue(broker, "shell", 3, max_deliveries=1)

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*arguments, "--url", broker.url])
        return done.exit_code, done.stdout if done.exit_code == 0 else done.stderr

    assert run("consume", "shell", "--consumer", "a", "--count", "2") == (0, '{"shell":1}\n{"shell":2}\n')
    consumer = tamis.consume(broker.url, "shell", consumer="b")
    assert [message.release() for message in consumer.take()] == [True]
    assert consumer.take() == []
    code, listed = run("dead-letters", "list", "shell")
    assert (code, [json.loads(line)["event"] for line in listed.splitlines()]) == (0, [{"shell": 3}])
    code, problem = run("dead-letters", "drop", "shell")
    assert (code, "--cursor" in problem) == (2, True)
    code, problem = run("dead-letters", "drop", "shell", "--all", "--cursor", "1-1")
    assert (code, "--all and --cursor were both given" in problem) == (2, True)
    cursor = json.loads(listed)["cursor"]
    absent = cursor.replace("-", "-9")
    code, problem = run("dead-letters", "drop", "shell", "--cursor", absent)
    assert (code, f"shell has no dead letter {absent}" in problem) == (1, True)
    assert run("dead-letters", "replay", "shell", "--all") == (0, "1 replayed\n")
    assert run("dead-letters", "drop", "shell", "--all", "--json") == (0, '{\n  "drop": 0\n}\n')


def test_what_consumers_can_get_wrong(broker: BrokerProcess) -> None:
    make_queue(broker, "wrong", 1)
    place = f"{broker.url}/v1/subscriptions/wrong"
    wrong = ({"consumer": ""}, {"limit": 257}, {"wait": 21}, {"consumer": 1}, {"request_id": "r" * 129})
    for body in ({}, *({"consumer": "a"} | field for field in wrong)):
        assert ask(f"{place}/take", "POST", body).status == 400, body
    cursor = ask(f"{place}/log").json["messages"][0]["cursor"]
    both = {"consumer": "a", "acknowledge": [cursor], "release": [cursor]}
    assert ask(f"{place}/settle", "POST", both).status == 400
    assert ask(f"{place}/settle", "POST", {"consumer": "a", "acknowledge": [cursor]}).json["late"] == [cursor]
    assert ask(f"{place}/dead").json == {"letters": [], "next": None, "count": 0}
    assert ask(f"{place}/dead/drop", "POST", {"cursors": [cursor], "upto": cursor}).status == 400
    assert ask(f"{broker.url}/v1/subscriptions/nothing/take", "POST", {"consumer": "a"}).status == 404
    ask(f"{broker.url}/v1/subscriptions", "POST", {"id": "brief", "filter": "wrong > 0", "durable": False})
    assert ask(f"{broker.url}/v1/subscriptions/brief/take", "POST", {"consumer": "a"}).status == 409
    with pytest.raises(ModelError):
        tamis.consume(broker.url, "wrong", consumer="")
    with pytest.raises(RefusedError):
        tamis.consume(broker.url, "nothing", consumer="a").take()


def dead_letters(broker: BrokerProcess, id: str, client: str = "") -> list[int]:
    query = f"?client={client}" if client else ""
    return [letter["event"][id] for letter in ask(f"{broker.url}/v1/subscriptions/{id}/dead{query}").json["letters"]]


def test_a_stream_that_ends_says_nothing_of_its_reader(broker: BrokerProcess) -> None:
    make_queue(broker, "streamed", 3, max_deliveries=1)
    place = f"{broker.url}/v1/subscriptions/streamed"
    for _ in range(3):  # it acknowledges with the next `Last-Event-ID`, if it is served again
        assert '"streamed":1' in ask(f"{place}/events?limit=2").body.decode()
    for _ in range(3):  # the log is read as often as its reader asks
        assert len(ask(f"{place}/log").json["messages"]) == 3
    assert dead_letters(broker, "streamed") == []
    assert ask(f"{place}").json["waiting"] == 3


def test_letters_of_a_client_are_dropped_and_replayed_for_one_subscription(broker: BrokerProcess) -> None:
    def read(count: int) -> None:
        with tamis.connect(broker.url, client="both") as client:
            first = client.subscribe("first >= 0", id="first", durable=True, max_deliveries=1)
            two = client.subscribe("second >= 0", id="second", durable=True, max_deliveries=1)
            for most, durable, words in (
                (-1, True, "expected a whole number from 0 to 1,000"),
                (1_001, True, "1,001 is more than the 1,000 accepted"),
                (3, False, "only the messages of a durable subscription"),
            ):
                with pytest.raises(tamis.RefusedError, match=words):
                    client.subscribe("third >= 0", durable=durable, max_deliveries=most)
            if count:
                next(iter(first if count % 2 else two))

    read(0)
    for number, name in enumerate(("first", "second"), 1):
        assert ask(f"{broker.url}/v1/events", "POST", [{name: 1}]).status == 200
        read(number)
        wait_until(lambda name=name: dead_letters(broker, name, "both") == [1], "a dead letter")
    place = f"{broker.url}/v1/subscriptions"
    [last] = ask(f"{place}/second/dead?client=both").json["letters"]
    assert ask(f"{place}/second/dead?client=both").json["count"] == 1
    assert ask(f"{place}/first/dead/drop?client=both", "POST", {"upto": last["cursor"]}).json == {"dropped": 1}
    assert (dead_letters(broker, "first", "both"), dead_letters(broker, "second", "both")) == ([], [1])
    chosen = {"cursors": [last["cursor"]]}
    assert ask(f"{place}/first/dead/replay?client=both", "POST", chosen).json == {"replayed": 0}
    assert ask(f"{place}/second/dead/replay?client=both", "POST", chosen).json == {"replayed": 1}


def test_what_ends_a_python_client_too_often_is_a_dead_letter(broker: BrokerProcess) -> None:
    def read(count: int) -> list[int]:
        with tamis.connect(broker.url, client="frail") as client:
            subscription = client.subscribe("frail >= 0", id="frail", durable=True, max_deliveries=2)
            events = iter(subscription)
            got: list[int] = []
            for _ in range(count):
                delivery = next(events)
                got.append(int(delivery.event["frail"]))
                if got[-1] == 1:
                    return got  # it cannot be handled
                delivery.ack()
            return got

    read(0)
    assert ask(f"{broker.url}/v1/events", "POST", [{"frail": n} for n in range(4)]).status == 200
    assert read(4) == [0, 1]
    assert read(4) == [1]
    wait_until(lambda: dead_letters(broker, "frail", "frail") == [1], "a dead letter")
    assert read(2) == [2, 3]
    assert ask(f"{broker.url}/v1/subscriptions/frail/take?client=frail", "POST", {"consumer": "w"}).status == 409
