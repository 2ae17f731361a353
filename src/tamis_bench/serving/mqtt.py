"""The ceiling in the benchmark of a broker: the same events through Mosquitto, by topic, with QoS 1."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.errors import InvariantError
from tamis_bench.rows import Row
from tamis_bench.serving.peer_servers import free_port, started
from tamis_bench.workloads.boxes import make_boxes

if TYPE_CHECKING:
    from tamis_bench.serving.serve import Load

__all__ = ["measure_mosquitto"]

#: Topics that the events are spread over, and messages under way.
TOPICS, INFLIGHT = 1_000, 1_000


def measure_mosquitto(load: Load, work: str) -> Iterator[Row]:
    """Yield events per second and latencies at half load; a row with the reason where there is no Mosquitto."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        yield Row(work, load.n, "mosquitto", "serve", None, note="mosquitto is not installed (make setup-ci)")
        return
    points = make_boxes(work, 1, load.events).points.tolist()
    payloads = [json.dumps({f"a{axis}": value for axis, value in enumerate(point)}) for point in points]
    with tempfile.TemporaryDirectory() as place:
        process, port = _start(program, Path(place))
        try:
            yield from _measure(load, work, port, payloads)
        finally:
            process.terminate()
            process.wait()


def _measure(load: Load, work: str, port: int, payloads: list[str]) -> Iterator[Row]:
    listeners = _Listeners(port, load.readers)
    publisher = _connected(port)
    start = time.perf_counter()
    for number, payload in enumerate(payloads):
        publisher.publish(f"bench/{number % TOPICS}/{number}", payload, qos=1)
    listeners.wait(len(payloads))
    rate = len(payloads) / (time.perf_counter() - start)
    yield Row(work, load.n, "mosquitto", "serve single", rate, note="mosquitto: one topic per event, QoS 1, no disk")
    listeners.forget()
    count, moments = min(int(rate / 2 * load.seconds), len(payloads)), []
    start = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, start + 2 * number / rate - time.perf_counter()))
        moments.append(time.perf_counter())
        publisher.publish(f"bench/{number % TOPICS}/{number}", payloads[number], qos=1)
    listeners.wait(count)
    times = np.array([moment - moments[number] for number, moment in listeners.seen]) * 1e3
    for what, value in zip(("serve p50", "serve p99"), np.percentile(times, (50, 99)).tolist(), strict=True):
        yield Row(work, load.n, "mosquitto", what, value)
    publisher.disconnect()
    publisher.loop_stop()
    listeners.close()


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
        if not self._done.wait(300):
            raise InvariantError(f"Mosquitto delivered {len(self.seen)} of {wanted} messages")

    def forget(self) -> None:
        with self._lock:
            self.seen, self._wanted = [], -1
            self._done.clear()

    def close(self) -> None:
        for client in self._clients:
            client.disconnect()
            client.loop_stop()


def _connected(port: int, heard: Any = None) -> Any:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = heard
    client.max_inflight_messages_set(INFLIGHT)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


def _start(program: str, place: Path) -> tuple[subprocess.Popen[bytes], int]:
    port = free_port()
    config = place / "mosquitto.conf"
    unlimited = "max_inflight_messages 0\nmax_queued_messages 0\n"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nlog_type none\n{unlimited}")
    return started(subprocess.Popen([program, "-c", str(config)]), port), port
