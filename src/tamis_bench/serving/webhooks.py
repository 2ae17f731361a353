"""How many events per second a webhook delivers to a receiver on this machine.

Events wait in a durable subscription. The clock runs from when the webhook is set until the log is acknowledged to its
end, so that what was delivered is also noted.
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
from pathlib import Path
from typing import Final

from tamis.errors import InvariantError
from tamis.runtime.client.http_calls import HttpCalls
from tamis.runtime.client.webhook_calls import WebhookCalls
from tamis_bench.rows import Row
from tamis_bench.serving.peer_servers import free_port
from tamis_bench.serving.processes import BrokerProcess, cpu_seconds, start_broker

__all__ = ["measure_webhooks"]

#: Seconds for what must come, and between two looks; deliveries per second that are the goal.
_PATIENCE, _LOOK, _GOAL = 600.0, 0.02, 5_000

_RULES: Final = 'data = "data"\n[webhooks]\nhosts = ["127.0.0.1"]\nnetworks = ["127.0.0.0/8"]\nhttp = true\n'


def measure_webhooks(n: int, batch: int, parallel: int) -> Iterator[Row]:
    """Yield events per second, and the processor time of the broker for each."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        (Path(directory) / "broker.toml").write_text(_RULES)
        command = [sys.executable, "-m", "tamis_bench.serving.webhooks", str(port)]
        receiver = subprocess.Popen(command)
        stack.callback(receiver.communicate)
        stack.callback(receiver.terminate)
        broker = start_broker("--config", f"{directory}/broker.toml")
        stack.callback(broker.kill)
        _fill(broker, n)
        cpu, start = cpu_seconds(broker.pid), time.perf_counter()
        WebhookCalls(HttpCalls(broker.url)).set("all", f"http://127.0.0.1:{port}/", batch=batch, parallel=parallel)
        _wait(broker)
        seconds, after = time.perf_counter() - start, cpu_seconds(broker.pid)
        work, goal = f"batch {batch} x {parallel}", _GOAL if batch > 1 else None
        yield Row(work, n, "ours", "webhook", n / seconds, goal=goal, note=f"{work}: messages of a request x requests")
        if cpu is not None and after is not None:
            yield Row(work, n, "ours", "webhook cpu", (after - cpu) * 1e6 / n)


def _fill(broker: BrokerProcess, n: int) -> None:
    calls = HttpCalls(broker.url)
    calls.subscribe("all", "n >= 0")
    for first in range(0, n, 5_000):
        numbers = range(first, min(first + 5_000, n))
        events = ({"n": number, "mag": number % 90 / 10, "place": "Alaska"} for number in numbers)
        calls.publish_once("\n".join(map(json.dumps, events)).encode(), producer="bench", number=first)


def _wait(broker: BrokerProcess) -> None:
    """Wait until everything is acknowledged."""
    calls, end = HttpCalls(broker.url), time.monotonic() + _PATIENCE
    while (page := calls.read_log("all", limit=0)).acknowledged != page.last:
        if time.monotonic() > end:
            raise InvariantError(f"not everything came within {_PATIENCE:g} s")
        time.sleep(_LOOK)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read requests of one connection, and answer each with 204."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def _receive(port: int) -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_receive(int(sys.argv[1])))
