"""Random messages of an MQTT broker, which the bridge turns into events, and what a bridge is configured with.

Topics and payloads become events or are refused with a `TamisError`; a value of an event never becomes a wildcard of a
topic. The packets themselves are read by the MQTT library.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any, NamedTuple

from tamis.errors import ModelError, TamisError
from tamis.node.content import Content
from tamis.routing.edge.checks import Checks
from tamis.routing.edge.rights import Rights
from tamis.runtime.bridges.content import destination_of, event_of_message
from tamis.runtime.bridges.systems.mqtt_connection import MqttPlace
from tests.fuzz.harness import Area, damaged_bytes, damaged_text, document, main

TOPICS = ["sensors/7", "", "a/+/#", "\x00", "\ufeff", "x" * 70_000, "$SYS/x", "\u00e9/\U0001f600"]
TEMPLATES = ["alerts/{id}/{a}", "{", "{}", "{id", "{{id}}", "{a.b}", "{0}", "{id!r}", "{a:>99999999}", "{s}/{at}"]
URLS = ["mqtt://broker", "mqtts://u@broker:8883", "mqtt://[::1]:1883", "mqtt://x:99999", "mqtt://[", "mqtt://u:p@x"]


class Source(NamedTuple):
    """A message of an MQTT broker, and what a bridge is configured with."""

    topic: str
    payload: bytes
    template: str
    url: str


def make(rng: random.Random) -> Source:
    """Return a message, a template and an address."""
    payload = json.dumps(document(rng, 4), ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    for _ in range(rng.choice([0, 0, 1])):
        payload = damaged_bytes(rng, payload)
    url = rng.choice(URLS)
    return Source(
        rng.choice(TOPICS),
        payload,
        rng.choice(TEMPLATES),
        damaged_text(rng, url, ":/@[]?# ") if rng.random() < 0.5 else url,
    )


_RIGHTS = Rights("bridge")


def treat(source: Source) -> str:
    """Make an event of the message as the bridge does, and a topic of the event."""
    words: list[str] = []
    try:
        MqttPlace.parse(source.url)
        words.append("address")
    except ModelError:
        words.append("no address")
    try:
        event: dict[str, Any] = event_of_message(source.topic, source.payload)
        Checks(Content()).event(event, "default", _RIGHTS)
    except TamisError as error:
        return ", ".join([*words, type(error).__name__])
    topic = destination_of(source.template, "id", event)
    assert not set(topic) & set("+#\x00") - set(source.template), "a value became a wildcard"
    return ", ".join([*words, "event"])


AREA = Area("mqtt", make, treat)

if __name__ == "__main__":
    sys.exit(main(AREA))
