"""How many events per second a bridge carries from NATS JetStream into a broker, and matches out of it.

Everything runs on this machine: a nats-server with its stream on disk, a broker, and `tamis bridge nats`. Each
direction is timed from when the bridge is ready until the last message is on the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from tamis.errors import InvariantError
from tamis.routing.edge.limits import MAX_BACKLOG
from tamis.runtime.client.http_calls import HttpCalls
from tamis_bench.rows import Row
from tamis_bench.serving.peer_servers import find_program, free_port, started
from tamis_bench.serving.processes import BrokerProcess, cpu_seconds, start_broker

__all__ = ["measure_bridge"]

#: Seconds for what must come, and between two looks.
_PATIENCE, _LOOK = 600.0, 0.05

#: Events that wait for the bridge at most; a broker suspends a subscription behind `MAX_BACKLOG`.
_MOST_WAITING: Final = MAX_BACKLOG * 9 // 10

_START: Final = "from tamis.cli.main import main; main()"


def measure_bridge(n: int) -> Iterator[Row]:
    """Yield events per second into a broker and out of it, and the processor time of the bridge for each."""
    program = find_program("nats-server")
    if program is None:
        yield Row("nats", n, "ours", "bridge in", None, note="nats-server is not installed")
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        command = [program, "-js", "-sd", directory, "-a", "127.0.0.1", "-p", str(port)]
        stack.enter_context(started(command, port))
        broker = start_broker("--data", f"{directory}/data")
        stack.callback(broker.kill)
        asyncio.run(_fill(port, n))
        yield from _measure_in(port, broker, n)
        yield from _measure_out(port, broker, min(n, _MOST_WAITING))


def _measure_in(port: int, broker: BrokerProcess, n: int) -> Iterator[Row]:
    calls = HttpCalls(broker.url)
    calls.subscribe("last", f"n = {n - 1}")
    with _bridge(port, broker, "--in", "bench.>") as pid:
        start, cpu = time.perf_counter(), cpu_seconds(pid)
        _wait(lambda: bool(calls.read_log("last").messages))
        yield from _rows("in", n, time.perf_counter() - start, _used(pid, cpu), 20_000)


def _measure_out(port: int, broker: BrokerProcess, n: int) -> Iterator[Row]:
    """Make a subscription, let everything wait for it, and time how the bridge empties it."""
    words = ("--subscribe", "all=n >= 0", "--out", "out.{id}")
    with _bridge(port, broker, *words):
        pass  # the subscription is durable: what matches waits for the next bridge
    calls = HttpCalls(broker.url)
    for first in range(0, n, 5_000):
        body = b"\n".join(_event(number) for number in range(first, min(first + 5_000, n)))
        calls.publish_once(body, producer="bench", number=first)
    with _bridge(port, broker, *words) as pid:
        start, cpu = time.perf_counter(), cpu_seconds(pid)
        _wait(lambda: asyncio.run(_stored(port)) >= n)
        yield from _rows("out", n, time.perf_counter() - start, _used(pid, cpu), 10_000)


def _rows(way: str, n: int, seconds: float, cpu: float | None, goal: int) -> Iterator[Row]:
    yield Row("nats", n, "ours", f"bridge {way}", n / seconds, goal=goal)
    if cpu is not None:
        yield Row("nats", n, "ours", f"bridge {way} cpu", cpu * 1e6 / n)


def _used(pid: int, before: float | None) -> float | None:
    now = cpu_seconds(pid)
    return None if now is None or before is None else now - before


@contextlib.contextmanager
def _bridge(port: int, broker: BrokerProcess, *words: str) -> Iterator[int]:
    place = ["--nats", f"nats://127.0.0.1:{port}", "--url", broker.url, "--json"]
    command = [sys.executable, "-c", _START, "bridge", "nats", *place, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        if b"ready" not in process.stdout.readline():
            raise InvariantError("the bridge did not start; its error message is above")
        yield process.pid
    finally:
        process.terminate()
        process.communicate()


def _event(number: int) -> bytes:
    return json.dumps({"n": number, "mag": number % 90 / 10, "place": "Alaska", "depth": number % 700}).encode()


async def _fill(port: int, n: int) -> None:
    """Make the streams, and put the messages into the first one."""
    client, js = await _connect(port)
    await js.add_stream(name="BENCH", subjects=["bench.>"])
    await js.add_stream(name="OUT", subjects=["out.>"])
    for first in range(0, n, 500):
        waits = [await js.publish_async("bench.x", _event(number)) for number in range(first, min(first + 500, n))]
        await asyncio.gather(*waits)
    await client.close()


async def _stored(port: int) -> int:
    client, js = await _connect(port)
    count = int((await js.stream_info("OUT")).state.messages)
    await client.close()
    return count


async def _connect(port: int) -> tuple[Any, Any]:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    return client, client.jetstream()


def _wait(is_done: Any) -> None:
    end = time.monotonic() + _PATIENCE
    while not is_done():
        if time.monotonic() > end:
            raise InvariantError(f"not everything came within {_PATIENCE:g} s")
        time.sleep(_LOOK)
