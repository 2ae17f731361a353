"""A connection to an MQTT 5 broker for asyncio: QoS 1 both ways, a session that outlives the connection.

The client library runs its socket in a thread of its own and connects again by itself. Here its callbacks become calls
in the event loop, and its publishing becomes something to await. A message that came in is acknowledged by hand when it
was dealt with, so that an MQTT broker sends it again to a client that comes back without having done so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tamis.errors import ConnectionLostError, MissingExtraError, ModelError
from tamis.runtime.bridges.systems.addresses import read_address

__all__ = ["MqttLink", "MqttMessage", "MqttPlace", "check_topic_filter"]

#: Where a user name's password is looked for: a command line is not a place for one.
PASSWORD_VARIABLE = "TAMIS_MQTT_PASSWORD"

#: Seconds for which an MQTT broker keeps a session whose client is away.
SESSION_SECONDS = 7 * 86_400

#: Messages that are on their way to us and not acknowledged.
RECEIVE_MAXIMUM = 1_000

KEEPALIVE_SECONDS = 30

#: Bytes of a topic.
MAX_TOPIC = 65_535


@dataclass(frozen=True)
class MqttPlace:
    """Where an MQTT broker is."""

    host: str
    port: int
    user: str = ""
    tls: bool = False

    @classmethod
    def parse(cls, url: str) -> MqttPlace:
        """Read a URL.

        >>> MqttPlace.parse("mqtts://bridge@broker.example")
        MqttPlace(host='broker.example', port=8883, user='bridge', tls=True)
        """
        address = read_address(url, {"mqtt": 1883, "mqtts": 8883}, PASSWORD_VARIABLE)
        return cls(address.host, address.port, address.user, address.scheme == "mqtts")


def check_topic_filter(topics: str) -> None:
    """Raise `ModelError` unless a text is a topic filter of MQTT.

    >>> check_topic_filter("sensors/+/state")
    >>> check_topic_filter("sensors/#/x")
    Traceback (most recent call last):
        ...
    tamis.errors.ModelError: --in 'sensors/#/x': # is allowed at the end only, behind a /
    """
    levels = topics.split("/")
    if levels[0] == "$share":
        levels = levels[2:]
    problem = ""
    if not topics or not levels or (topics.startswith("$share/") and levels == [""]):
        problem = "expected a topic, or topics with + and #"
    elif any("#" in level for level in levels[:-1]) or ("#" in levels[-1] and levels[-1] != "#"):
        problem = "# is allowed at the end only, behind a /"
    elif any("+" in level and level != "+" for level in levels):
        problem = "+ stands for a whole level, between two /"
    elif "\0" in topics or len(topics.encode(errors="surrogateescape")) > MAX_TOPIC or not _is_text(topics):
        problem = f"expected UTF-8 text of at most {MAX_TOPIC:,} bytes, without NUL"
    if problem:
        raise ModelError(f"--in {topics[:80]!r}: {problem}")


def _is_text(text: str) -> bool:
    """Whether a text has no lone surrogates, which a command line with other bytes than UTF-8 has."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


@dataclass(frozen=True)
class MqttMessage:
    """A message that came in; ``connection`` is the number of the connection it came by."""

    topic: str
    payload: bytes
    mid: int
    qos: int
    connection: int


class MqttLink:
    """One client of an MQTT broker, under a name that has a session there."""

    def __init__(
        self, place: MqttPlace, name: str, topics: Sequence[str], received: Callable[[MqttMessage], None]
    ) -> None:
        self._place = place
        self._topics = list(topics)
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._sent: dict[int, asyncio.Future[None]] = {}
        self._connection = 0
        #: Done when the MQTT broker has confirmed the first subscriptions; an error if it refuses us.
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self._client = self._make(name)

    def start(self, *, keeps_session: bool = True) -> None:
        """Connect, and stay connected until `stop`; without a session nothing of it stays at the MQTT broker."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = SESSION_SECONDS if keeps_session else 0
        properties.ReceiveMaximum = RECEIVE_MAXIMUM
        host, port = self._place.host, self._place.port
        self._client.connect_async(host, port, KEEPALIVE_SECONDS, clean_start=not keeps_session, properties=properties)
        self._client.loop_start()

    async def stop(self) -> None:
        """End the connection; the session stays."""
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)

    def publish(self, topic: str, payload: bytes) -> asyncio.Future[None]:
        """Publish with QoS 1; the future is done when the MQTT broker has the message, however often that takes."""
        mid = self._client.publish(topic, payload, qos=1).mid  # without a connection it waits for the next one
        # The confirmation comes through the event loop, so it cannot be quicker than this line.
        future = self._sent[mid] = self._loop.create_future()
        return future

    def acknowledge(self, message: MqttMessage) -> None:
        """Acknowledge a message; one of a former connection comes again anyway."""
        if message.connection == self._connection and message.qos:
            self._client.ack(message.mid, message.qos)

    # Inside

    def _make(self, name: str) -> Any:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
        except ImportError:
            raise MissingExtraError("the MQTT bridge", "server") from None
        client = Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True
        )
        if self._place.user:
            client.username_pw_set(self._place.user, os.environ.get(PASSWORD_VARIABLE))
        if self._place.tls:
            client.tls_set()
        client.reconnect_delay_set(1, 30)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = lambda client, data, mid, code, properties: self._call(self._confirm, mid)
        return client

    def _call(self, action: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action, *arguments)

    def _on_connect(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        """Ask for the topics on every connection: an MQTT broker without its disk has forgotten them."""
        from paho.mqtt.subscribeoptions import SubscribeOptions

        if code.is_failure:
            self._call(self._settle, f"the MQTT broker refuses: {code}")
            return
        self._connection += 1
        if not self._topics:
            self._call(self._settle, "")
            return
        # No message of our own comes back (noLocal), or a bridge could feed itself.
        options = SubscribeOptions(qos=1, noLocal=True, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe([(topic, options) for topic in self._topics])

    def _on_subscribe(self, client: Any, data: Any, mid: int, codes: Sequence[Any], properties: Any) -> None:
        bad = [str(code) for code in codes if code.is_failure]
        self._call(self._settle, f"the MQTT broker refuses a topic: {', '.join(bad)}" if bad else "")

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        incoming = MqttMessage(message.topic, bytes(message.payload), message.mid, message.qos, self._connection)
        self._call(self._received, incoming)

    def _settle(self, problem: str) -> None:
        if self.ready.done():
            return
        if problem:
            self.ready.set_exception(ConnectionLostError(f"mqtt://{self._place.host}:{self._place.port}", problem))
        else:
            self.ready.set_result(None)

    def _confirm(self, mid: int) -> None:
        future = self._sent.pop(mid, None)
        if future is not None and not future.done():
            future.set_result(None)
