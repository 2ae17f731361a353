"""Two brokers and one PostgreSQL: one serves, the other takes over; nothing is lost and nothing comes twice."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.runtime.broker.tokens import Tokens
from tamis.runtime.stores.lease import LOOK_SECONDS
from tests.server.postgres import PostgresServer, needs_postgres, postgres
from tests.server.processes import HANGS, BrokerProcess, ask, running, wait_until
from tests.server.receiver import Receiver

__all__ = ["postgres"]

pytestmark = needs_postgres


#: Within this time a standby serves, as docs/server.md promises.
TAKE_OVER_SECONDS = 5.0


@dataclass
class Pair:
    """Two processes of one broker; either may serve."""

    directory: Path
    url: str
    processes: list[BrokerProcess] = field(default_factory=list)
    #: The name of the broker for its neighbours.
    name: str = field(default_factory=lambda: f"b{time.monotonic_ns()}")

    def start(self, first_url: str | None = None, more: str = "") -> Pair:
        """Start both; the first one, with an address of its own for the database, serves. ``more`` is configured."""
        for letter, url in zip("ab", (first_url or self.url, self.url), strict=True):
            place = self.directory / letter
            config = f'name = "{self.name}"\ndata = "{place / "data"}"\nstore = "{url}"\nstandby = true\n{more}'
            self.processes.append(BrokerProcess(place, config).start())
            if first_url is not None and letter == "a":
                wait_until(lambda: role_of(self.processes[0]) == "serving", "the first broker to serve")
        return self

    @property
    def urls(self) -> list[str]:
        return [process.url for process in self.processes]

    def serving(self) -> BrokerProcess:
        """The process that serves, as soon as there is one."""

        def look() -> BrokerProcess | None:
            for process in self.processes:
                assert process.process is not None
                if process.process.poll() is None and role_of(process) == "serving":
                    return process
            return None

        return wait_until(look, "a broker that serves")

    def stop(self) -> None:
        for process in self.processes:
            assert process.process is not None
            if process.process.poll() is None:
                process.process.send_signal(signal.SIGCONT)
            process.stop()


def role_of(process: BrokerProcess) -> str:
    """What a process says of itself; one that was stopped says nothing."""
    try:
        with urllib.request.urlopen(f"{process.url}/healthz", timeout=2) as answer:
            return str(json.load(answer)["role"])
    except urllib.error.HTTPError as error:
        with error:
            return str(json.load(error)["role"])
    except OSError:
        return "down"


@pytest.fixture
def pair(postgres: PostgresServer, tmp_path: Path) -> Iterator[Pair]:
    both = Pair(tmp_path, postgres.url).start()
    yield both
    both.stop()


class Relay:
    """A wire between a broker and PostgreSQL that can be cut: bytes get lost, and neither end is told."""

    def __init__(self, directory: Path, server: PostgresServer) -> None:
        self.url = f"postgresql://tamis@/{server.database}?host={directory}"
        self._target = str(server.directory / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen()
        self._may_pass = threading.Event()
        self._may_pass.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._may_pass.clear()

    def mend(self) -> None:
        self._may_pass.set()

    def close(self) -> None:
        self._may_pass.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(self._target)
                except OSError:  # the server is gone, and another one may come
                    near.close()
                    far.close()
                    continue
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._may_pass.wait()
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()  # the other thread ends by that, and closes the other socket


def test_a_broker_that_is_cut_off_from_the_database_is_replaced(postgres: PostgresServer, tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="tamis-relay-", dir="/tmp"))
    relay = Relay(place, postgres)
    pair = Pair(tmp_path, postgres.url).start(first_url=relay.url)
    first, other = pair.processes
    try:
        wait_until(lambda: role_of(first) == "serving", "the first broker to serve")
        wait_until(lambda: role_of(other) == "standby", "the standby")
        traffic = Traffic(pair.urls)

        def trouble() -> None:
            traffic.wait_for_more()
            relay.cut()
            traffic.wait_for_more()  # at the standby: the first one can confirm nothing
            assert role_of(other) == "serving"
            assert role_of(first) in ("cut off", "down")
            relay.mend()  # what was under way arrives late, with an old fence
            traffic.wait_for_more()
            assert first.process is not None
            assert first.process.wait(HANGS) != 0

        asyncio.run(traffic.run(trouble))
        demand_once(traffic)
    finally:
        relay.close()
        pair.stop()
        shutil.rmtree(place, ignore_errors=True)


@dataclass
class Traffic:
    """One client that publishes numbers, and one that reads them; both know both addresses, or each has its broker."""

    urls: list[str]
    reader_urls: list[str] = field(default_factory=list)
    attribute: str = "n"
    confirmed: list[int] = field(default_factory=list)
    #: When each was confirmed.
    moments: list[float] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    is_over: bool = False

    async def run(self, trouble: Any) -> None:
        async with tamis.connect(self.reader_urls or self.urls, client="reader", timeout=HANGS) as reader:
            subscription = await reader.subscribe(f"{self.attribute} >= 0", id="all", durable=True)
            reading = asyncio.create_task(self._read(subscription))
            async with tamis.connect(self.urls, client="writer", timeout=HANGS) as writer:
                writing = asyncio.create_task(self._write(writer))
                try:
                    await asyncio.to_thread(trouble)
                finally:
                    self.is_over = True
                    await writing
            async with asyncio.timeout(HANGS):
                while len(set(self.read)) < len(self.confirmed):
                    await asyncio.sleep(0.05)
            reading.cancel()

    async def _write(self, writer: Any) -> None:
        number = 0
        while not self.is_over:
            await writer.publish({self.attribute: number})
            self.confirmed.append(number)
            self.moments.append(time.monotonic())
            number += 1
            await asyncio.sleep(0.01)

    async def _read(self, subscription: Any) -> None:
        async for delivery in subscription:
            self.read.append(delivery.event[self.attribute])
            await delivery.ack()

    def wait_for_more(self) -> None:
        """Return when something was confirmed that was not before."""
        count = len(self.confirmed)
        wait_until(lambda: len(self.confirmed) > count + 5, "events that are confirmed again")


class Looks(threading.Thread):
    """Looks at the lease as a standby does, and counts: a busy machine slows both, a clock would not tell."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._is_over = threading.Event()
        self.count = 0

    def run(self) -> None:
        with contextlib.closing(self._server.connect()) as db:
            while not self._is_over.wait(LOOK_SECONDS):
                db.execute("SELECT clock_timestamp()")
                self.count += 1

    def stop(self) -> int:
        self._is_over.set()
        self.join()
        return self.count


def demand_once(traffic: Traffic) -> None:
    """Everything that was confirmed was read, once and in order."""
    counts = Counter(traffic.read)
    assert [number for number in traffic.confirmed if not counts[number]] == [], "lost"
    assert [number for number, count in counts.items() if count > 1] == [], "twice"
    assert traffic.read == sorted(traffic.read)


def test_tokens_and_consumers_go_along_with_a_take_over(pair: Pair) -> None:
    first = pair.serving()
    [other] = [process for process in pair.processes if process is not first]
    tokens = {
        process.url: Tokens(pair.directory / letter / "data" / "tokens.json")
        for process, letter in zip(pair.processes, "ab", strict=True)
    }
    secret = tokens[first.url].add("alice")
    tokens[first.url].add("bob")
    header = {"Authorization": f"Bearer {secret}"}
    made = {"id": "jobs", "filter": "n > 0", "max_deliveries": 2}
    assert ask(f"{first.url}/v1/subscriptions", "POST", made, **header).status == 201
    assert ask(f"{first.url}/v1/events", "POST", [{"n": 1}, {"n": 2}], **header).status == 200
    held = ask(f"{first.url}/v1/subscriptions/jobs/take", "POST", {"consumer": "a", "seconds": 600}, **header).json
    assert [message["event"] for message in held["messages"]] == [{"n": 1}]
    digest = hashlib.sha256(tokens[first.url].as_json()).hexdigest()
    mark = tokens[first.url].path.with_suffix(".version")
    wait_until(lambda: mark.exists() and digest in mark.read_text(), "the copy of the tokens in the store")
    first.kill()
    wait_until(lambda: role_of(other) == "serving", "the standby to serve")
    assert [token.name for token in tokens[other.url].all()] == ["alice", "bob"]
    rest = ask(f"{other.url}/v1/subscriptions/jobs/take", "POST", {"consumer": "b", "limit": 9}, **header).json
    assert [message["event"] for message in rest["messages"]] == [{"n": 2}]  # the other one is still held
    done = {"consumer": "a", "acknowledge": [held["messages"][0]["cursor"]]}
    assert ask(f"{other.url}/v1/subscriptions/jobs/settle", "POST", done, **header).json == {"settled": 1, "late": []}


WEBHOOKS = '[webhooks]\nhosts = ["localhost"]\nnetworks = ["127.0.0.0/8", "::1/128"]\nhttp = true\n'


def test_webhooks_and_links_go_on_after_a_take_over(postgres: PostgresServer, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"attributes": {"n": {"type": "number"}}}')
    pair = Pair(tmp_path, postgres.url).start(more=f'schema = "{tmp_path}/schema.json"\n{WEBHOOKS}')
    try:
        with Receiver() as receiver:
            first = pair.serving()
            assert ask(f"{first.url}/v1/subscriptions", "POST", {"id": "hook", "filter": "n >= 0"}).status == 201
            made = ask(f"{first.url}/v1/subscriptions/hook/webhook", "PUT", {"url": receiver.url, "batch": 4}).json
            assert ask(f"{first.url}/v1/events", "POST", [{"n": n} for n in range(20)]).status == 200
            wait_until(lambda: len(receiver.events) >= 20, "the first events")
            wait_until(lambda: ask(f"{first.url}/v1/subscriptions/hook/webhook").json["waiting"] == 0, "their end")
            receiver.answer = lambda request: 503  # what comes now waits, and is retried
            assert ask(f"{first.url}/v1/events", "POST", [{"n": n} for n in range(20, 40)]).status == 200
            assert ask(f"{first.url}/v1/links/south", "PUT", {"when_full": "drop"}).status == 201
            first.kill()
            receiver.answer = lambda request: 204
            second = pair.serving()
            [link] = ask(f"{second.url}/v1/links").json["links"]
            assert (link["link"], link["when_full"], link["connected"]) == ("south", "drop", False)
            assert ask(f"{second.url}/v1/events", "POST", [{"n": n} for n in range(40, 60)]).status == 200
            wait_until(lambda: len(receiver.events) >= 60, "the events of the standby")
            assert [event["data"]["n"] for event in receiver.events] == list(range(60))
            assert all(request.is_signed_with(made["secret"]) for request in receiver.requests)
            assert ask(f"{second.url}/v1/links/south", "DELETE").json == {"link": "south", "dropped": 20}
            deeds = [deed["what"] for deed in ask(f"{second.url}/v1/audit").json["deeds"]]
            assert "webhook set" in deeds
    finally:
        pair.stop()


def test_a_standby_takes_over_when_the_broker_is_killed(pair: Pair, postgres: PostgresServer) -> None:
    traffic, looks = Traffic(pair.urls), Looks(postgres)
    first = pair.serving()

    def trouble() -> None:
        traffic.wait_for_more()
        assert {role_of(process) for process in pair.processes} == {"serving", "standby"}
        [other] = [process for process in pair.processes if process is not first]
        answer = ask(f"{other.url}/v1/events", "POST", {"n": 1})
        assert answer.status == 503
        assert "standby" in answer.json["error"]
        first.kill()
        looks.start()
        traffic.wait_for_more()
        assert looks.stop() <= 2 * TAKE_OVER_SECONDS / LOOK_SECONDS  # twice what is promised
        assert pair.serving() is other
        assert ask(f"{other.url}/healthz").json["fence"] == 2

    asyncio.run(traffic.run(trouble))
    demand_once(traffic)


def test_a_connected_link_goes_on_with_the_standby(postgres: PostgresServer, tmp_path: Path) -> None:
    """A neighbour that knows both addresses: events of both directions come once and in order."""
    schema = tmp_path / "schema.json"
    schema.write_text('{"attributes": {"n": {"type": "number"}, "m": {"type": "number"}}}')
    pair = Pair(tmp_path, postgres.url).start(more=f'schema = "{schema}"\n[[links]]\nname = "south"\n')
    first, second = pair.urls
    link = f'[[links]]\nname = "{pair.name}"\nurl = "{first}"\nstandbys = ["{second}"]\n'
    config = f'name = "south"\ndata = "{tmp_path / "south" / "data"}"\nschema = "{schema}"\n{link}'
    try:
        with running(BrokerProcess(tmp_path / "south", config)) as (south,):
            forth, back = Traffic(pair.urls, [south.url]), Traffic([south.url], pair.urls, "m")
            is_over = threading.Event()

            def trouble() -> None:
                try:
                    forth.wait_for_more()
                    back.wait_for_more()
                    holder = pair.serving()
                    holder.kill()
                    back.wait_for_more()  # at the neighbour: these wait for the link
                    forth.wait_for_more()
                    assert pair.serving() is not holder
                    wait_until(lambda: ask(f"{south.url}/v1/links").json["links"][0]["connected"], "the link")
                    forth.wait_for_more()
                    back.wait_for_more()
                finally:
                    is_over.set()

            async def both() -> None:
                await asyncio.gather(forth.run(trouble), back.run(is_over.wait))

            asyncio.run(both())
            demand_once(forth)
            demand_once(back)
    finally:
        pair.stop()


def test_a_broker_that_hung_cannot_write_when_it_wakes(pair: Pair) -> None:
    traffic = Traffic(pair.urls)
    first = pair.serving()
    assert first.process is not None

    def trouble() -> None:
        traffic.wait_for_more()
        first.process.send_signal(signal.SIGSTOP)
        traffic.wait_for_more()
        assert pair.serving() is not first
        first.process.send_signal(signal.SIGCONT)
        assert first.process.wait(HANGS) != 0
        assert "another broker has taken over" in first.log()
        traffic.wait_for_more()

    asyncio.run(traffic.run(trouble))
    demand_once(traffic)


def test_a_broker_that_stops_lets_its_standby_in(pair: Pair) -> None:
    first = pair.serving()
    assert first.stop() == 0
    second = pair.serving()
    assert second is not first
    deeds = [deed["what"] for deed in ask(f"{second.url}/v1/audit").json["deeds"]]
    assert [what for what in reversed(deeds) if what in ("start", "stop")] == ["start", "stop", "start"]


def test_a_standby_that_is_told_to_stop_while_it_loads_does_so() -> None:
    """A signal that came before the port was open ends the port."""
    import uvicorn

    from tamis.web.serving import _EndSignal

    async def story() -> None:
        end, former, later = _EndSignal(), uvicorn.Server(uvicorn.Config("")), uvicorn.Server(uvicorn.Config(""))
        end.stop(former)
        assert not former.should_exit
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        assert former.should_exit
        end.stop(later)
        assert later.should_exit

    asyncio.run(story())


@pytest.mark.soak
@pytest.mark.parametrize("seconds", [2.0, 2.2, 2.4, 2.6, 2.8, 3.0])
def test_soak_failover_stop_during_a_take_over(postgres: PostgresServer, tmp_path: Path, seconds: float) -> None:
    pair = Pair(tmp_path, postgres.url).start()
    first = pair.serving()
    wait_until(lambda: {role_of(process) for process in pair.processes} == {"serving", "standby"}, "a standby")
    first.kill()
    time.sleep(seconds)
    [other] = [process for process in pair.processes if process is not first]
    assert other.stop() == 0


def kill(holder: BrokerProcess, traffic: Traffic) -> None:
    holder.kill()
    traffic.wait_for_more()


def test_a_promoted_replica_has_all_that_was_confirmed(tmp_path: Path) -> None:
    """The primary dies with its disk; its synchronous replica is promoted, and both brokers find it."""
    primary, copy = PostgresServer(), None
    try:
        copy = primary.make().start().replica()
        hosts = f"host={primary.directory},{copy.directory}&target_session_attrs=read-write"
        pair = Pair(tmp_path, f"postgresql://tamis@/postgres?{hosts}").start()
        traffic = Traffic(pair.urls)

        def trouble() -> None:
            pair.serving()
            traffic.wait_for_more()
            primary.kill(signal.SIGKILL)
            shutil.rmtree(primary.directory)
            copy.promote()
            traffic.wait_for_more()
            kill(pair.serving(), traffic)

        try:
            asyncio.run(traffic.run(trouble))
            demand_once(traffic)
        finally:
            pair.stop()
    finally:
        primary.remove()
        if copy is not None:
            copy.remove()
