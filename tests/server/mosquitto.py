"""Mosquitto as a process of a test, and clients of it."""

from __future__ import annotations

import contextlib
import queue
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.server.processes import HANGS, ReservedPort

#: Debian puts servers where a user's PATH may not lead.
PROGRAM = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")

needs_mosquitto = pytest.mark.skipif(PROGRAM is None, reason="not run: mosquitto is not installed (make setup-ci)")


@dataclass
class Mosquitto:
    """One MQTT broker on loopback that keeps its sessions on disk."""

    directory: Path
    reserved: ReservedPort = field(default_factory=ReservedPort)
    process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self.reserved.number

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> Mosquitto:
        self.directory.mkdir(exist_ok=True, parents=True)
        config = self.directory / "mosquitto.conf"
        kept = f"persistence true\npersistence_location {self.directory}/\n"
        config.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\nuser root\n{kept}")
        with (self.directory / "log").open("ab") as log:
            assert PROGRAM is not None
            self.process = subprocess.Popen([PROGRAM, "-c", str(config)], stdout=log, stderr=log)
        return self

    def stop(self) -> None:
        """End it in order, so that its sessions are on disk."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)


class MqttUser:
    """A client that publishes and subscribes, with QoS 1."""

    def __init__(self, mosquitto: Mosquitto, *topics: str) -> None:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

        self.messages: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._confirmed: queue.SimpleQueue[int] = queue.SimpleQueue()
        ready: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_message = lambda client, data, message: self.messages.put((message.topic, message.payload))
        self._client.on_publish = lambda client, data, mid, *_: self._confirmed.put(mid)
        self._client.on_subscribe = lambda *_: ready.put(True)
        self._client.on_connect = lambda client, *_: self._listen(client, topics, ready)
        self._client.reconnect_delay_set(1, 1)
        self._client.connect_async("127.0.0.1", mosquitto.port)
        self._client.loop_start()
        ready.get(timeout=HANGS)

    def _listen(self, client: Any, topics: tuple[str, ...], ready: queue.SimpleQueue[bool]) -> None:
        if topics:
            client.subscribe([(topic, _at_least_once()) for topic in topics])
        else:
            ready.put(True)

    def publish(self, topic: str, payload: str) -> None:
        """Publish; returns when the MQTT broker has it."""
        mid = self._client.publish(topic, payload, qos=1).mid
        while self._confirmed.get(timeout=HANGS) != mid:
            pass

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def _at_least_once() -> Any:
    from paho.mqtt.subscribeoptions import SubscribeOptions

    return SubscribeOptions(qos=1)


@contextlib.contextmanager
def mqtt_running(directory: Path) -> Iterator[Mosquitto]:
    """Start Mosquitto, and stop it in the end."""
    broker = Mosquitto(directory).start()
    try:
        yield broker
    finally:
        broker.stop()
