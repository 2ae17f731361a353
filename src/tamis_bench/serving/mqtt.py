"""The ceiling in the benchmarks of brokers: the same events through Mosquitto, by topic, with QoS 1."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import InvariantError
from tamis_bench.rows import Row
from tamis_bench.serving.peer_servers import Passage, Servers, find_program, free_port, percentiles, started
from tamis_bench.workloads.boxes import box_payloads

if TYPE_CHECKING:
    from tamis_bench.serving.serve import Load

__all__ = ["NOT_INSTALLED", "measure_mosquitto", "mosquitto_servers", "pass_mosquitto"]

NOT_INSTALLED = "mosquitto is not installed (make setup-ci)"

#: Topics that the events are spread over, and messages under way.
TOPICS, INFLIGHT = 1_000, 1_000

#: Seconds for what must come.
PATIENCE = 300.0


def measure_mosquitto(load: Load, work: str) -> Iterator[Row]:
    """Yield events per second and latencies at half load; a row with the reason where there is no Mosquitto."""
    program = find_program("mosquitto")
    if program is None:
        yield Row(work, load.n, "mosquitto", "serve", None, note=NOT_INSTALLED)
        return
    payloads = box_payloads(work, load.events)
    with mosquitto_servers(program, linked=False) as servers:
        passage = pass_mosquitto(servers, payloads, load.readers, load.seconds)
    note = "mosquitto: one topic per event, QoS 1, no disk"
    yield Row(work, load.n, "mosquitto", "serve single", passage.rate, note=note)
    yield Row(work, load.n, "mosquitto", "serve p50", passage.p50)
    yield Row(work, load.n, "mosquitto", "serve p99", passage.p99)


@contextlib.contextmanager
def mosquitto_servers(program: str, *, linked: bool) -> Iterator[Servers]:
    """Run one server, or two: one with the readers and one with the publisher, whose bridge sends everything on."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hub, edge = free_port(), free_port()
        pid = stack.enter_context(_server(program, directory / "hub.conf", hub, ""))
        if not linked:
            yield Servers(hub, hub, [pid])
            return
        bridge = f"connection hub\naddress 127.0.0.1:{hub}\ntopic bench/# out 1\n"
        near = stack.enter_context(_server(program, directory / "edge.conf", edge, bridge))
        yield Servers(edge, hub, [near, pid])


def _server(program: str, config: Path, port: int, bridge: str) -> contextlib.AbstractContextManager[int]:
    unlimited = "max_inflight_messages 0\nmax_queued_messages 0\n"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nlog_type none\n{unlimited}{bridge}")
    return started([program, "-c", str(config)], port)


def pass_mosquitto(servers: Servers, payloads: Sequence[bytes], readers: int, seconds: float) -> Passage:
    """Send events through one or two servers, each to one reader, and return how they passed."""
    listeners = _Listeners(servers.reader_port, readers)
    publisher = _connected(servers.publisher_port)
    publisher.publish(f"bench/0/{len(payloads)}", b"", qos=1)  # a bridge keeps it until it is connected
    listeners.wait(1)
    listeners.forget()
    cpu, start = servers.cpu(), time.perf_counter()
    for number, payload in enumerate(payloads):
        publisher.publish(f"bench/{number % TOPICS}/{number}", payload, qos=1)
    listeners.wait(len(payloads))
    rate = len(payloads) / (time.perf_counter() - start)
    used = servers.cpu_per_event(cpu, len(payloads))
    listeners.forget()
    count, moments = min(int(rate / 2 * seconds), len(payloads)), []
    start = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, start + 2 * number / rate - time.perf_counter()))
        moments.append(time.perf_counter())
        publisher.publish(f"bench/{number % TOPICS}/{number}", payloads[number], qos=1)
    listeners.wait(count)
    publisher.disconnect()
    publisher.loop_stop()
    listeners.close()
    return Passage(rate, used, *percentiles(listeners.seen, moments))


class _Listeners:
    """Readers that share the topics."""

    def __init__(self, port: int, n: int) -> None:
        self.seen: list[tuple[int, float]] = []
        self._wanted, self._done, self._lock = -1, threading.Event(), threading.Lock()
        self._clients = [_connected(port, self._note) for _ in range(n)]
        subscribed = threading.Semaphore(0)
        for number, client in enumerate(self._clients):
            client.on_subscribe = lambda *_: subscribed.release()
            client.subscribe([(f"bench/{topic}/+", 1) for topic in range(number, TOPICS, n)])
        for _ in self._clients:
            if not subscribed.acquire(timeout=30):
                raise InvariantError("Mosquitto did not confirm a subscription")

    def _note(self, client: Any, data: Any, message: Any) -> None:
        with self._lock:
            self.seen.append((int(message.topic.rpartition("/")[2]), time.perf_counter()))
            if len(self.seen) == self._wanted:
                self._done.set()

    def wait(self, wanted: int) -> None:
        with self._lock:
            self._wanted = wanted
            if len(self.seen) >= wanted:
                return
        if not self._done.wait(PATIENCE):
            raise InvariantError(f"Mosquitto delivered {len(self.seen)} of {wanted} messages")

    def forget(self) -> None:
        with self._lock:
            self.seen, self._wanted = [], -1
            self._done.clear()

    def close(self) -> None:
        for client in self._clients:
            client.disconnect()
            client.loop_stop()


def _connected(port: int, on_message: Any = None) -> Any:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = on_message
    client.max_inflight_messages_set(INFLIGHT)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client
