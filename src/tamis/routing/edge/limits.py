"""All limits of a broker's interfaces: HTTP, frames, tokens and connections.

A limit is checked before the parser that would pay for exceeding it. Bytes and pieces (lines, array items, frames) are
counted while they are read, so that a refused request is never held as a whole. `DOORS` is the table of docs/server.md;
``tests/server/test_limits_page.py`` compares the two. Limits of filter texts are in `tamis.model.language.limits`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tamis.model.language.limits import TEXT
from tamis.model.schema import MAX_ATTRIBUTES
from tamis.model.strict_json import MAX_CONTAINERS, MAX_KEYS
from tamis.model.types.paths import MAX_DEPTH
from tamis.node.content import MAX_ATTRIBUTE_NAME, MAX_INNER, MAX_NAMESPACES

__all__ = [
    "BODY_SECONDS",
    "DOORS",
    "HANDSHAKE_SECONDS",
    "HEAD_SECONDS",
    "IDLE_SECONDS",
    "LONG_FILTER",
    "LONG_JSON",
    "MAX_ABOUT",
    "MAX_BACKLOG",
    "MAX_BODY",
    "MAX_BYTES_OF_NAMESPACE",
    "MAX_BYTES_OF_SUBSCRIPTIONS",
    "MAX_CLIENTS_OF_PRINCIPAL",
    "MAX_CONNECTIONS",
    "MAX_CONNECTIONS_OF_ADDRESS",
    "MAX_DELIVERIES",
    "MAX_ENTRIES_OF_NEIGHBOUR",
    "MAX_EVENT",
    "MAX_EVENTS",
    "MAX_EVENT_TEXT",
    "MAX_EVENT_WITH_REGION",
    "MAX_FRAMES",
    "MAX_METADATA_KEYS",
    "MAX_NAME",
    "MAX_NAMESPACES",
    "MAX_NAMESPACES_OF_NEIGHBOUR",
    "MAX_NAMESPACES_OF_PRINCIPAL",
    "MAX_PACKET",
    "MAX_PACKET_OF_BROKER",
    "MAX_PAGE",
    "MAX_PAGE_BYTES",
    "MAX_PART_ENTRIES",
    "MAX_READING",
    "MAX_READING_OF_PRINCIPAL",
    "MAX_SMALL_CHUNKS",
    "MAX_SUBSCRIPTIONS",
    "MAX_SUBSCRIPTIONS_AT_ONCE",
    "MAX_SUBSCRIPTIONS_OF_NAMESPACE",
    "MAX_TOKEN",
    "MAX_WORK",
    "MAX_WORK_OF_PRINCIPAL",
    "SHORT_FILTER",
    "SLICE_BYTES",
    "SLICE_SUBSCRIPTIONS",
    "Door",
]

#: Bytes of an event as the broker keeps it, and of one with a region (promise S14).
MAX_EVENT: Final = 256 * 1024
MAX_EVENT_WITH_REGION: Final = 1024 * 1024

#: Bytes of one JSON object: an event of 1 MiB, written with escapes and blanks.
MAX_EVENT_TEXT: Final = 2 * 1024 * 1024

#: Bytes of the text and the metadata of a subscription; a geometry may be long.
MAX_ABOUT: Final = 1024 * 1024

#: Keys of the metadata of a subscription: they are read and written whenever the subscription is shown.
MAX_METADATA_KEYS: Final = 1_000

#: Characters of a namespace, an id and a client's name.
MAX_NAME: Final = 128

#: Deliveries without an acknowledgement after which a message may become a dead letter.
MAX_DELIVERIES: Final = 1_000

#: Bytes of a request; events and subscriptions in one request or one message of a client.
MAX_BODY: Final = 16 * 1024 * 1024
MAX_EVENTS: Final = 10_000
MAX_SUBSCRIPTIONS_AT_ONCE: Final = 1_000

#: Subscriptions that enter the routing table in one step of a broker, and bytes of their compiled filters beyond those
#: of a short one: a filter with 256 alternatives has about 80 KiB and takes 15 to 30 ms, 256 short ones take 8 ms. What
#: is announced to neighbours takes longer (`tamis.routing.early_entries.weight_of`).
SLICE_SUBSCRIPTIONS: Final = 256
SLICE_BYTES: Final = 48 * 1024
SHORT_FILTER: Final = 512

#: Characters of a filter, and of JSON, from which on it is read beside the event loop: shorter ones take below 20 ms.
LONG_FILTER: Final = 512
LONG_JSON: Final = 64 * 1024

#: Bytes of requests that are held at the same time, from reading to the response.
MAX_READING_OF_PRINCIPAL: Final = 64 * 1024 * 1024
MAX_READING: Final = 256 * 1024 * 1024

#: Subscriptions, events or deliveries on one page of a response; and bytes of a page, of the messages that a consumer
#: takes at once, and of the dead letters that one step moves. One row may have more.
MAX_PAGE: Final = 1_000
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024

#: Bytes of one WebSocket message; a broker may have to send a whole routing table to an earlier release. Frames in a
#: client's message: one that follows the protocol has 64 messages under way at most.
MAX_PACKET: Final = 4 * 1024 * 1024
MAX_PACKET_OF_BROKER: Final = 256 * 1024 * 1024
MAX_FRAMES: Final = 256

#: Entries of a part of a table that a broker takes from a neighbour; their filters have at most `MAX_BODY`.
MAX_PART_ENTRIES: Final = 1_024

#: Chunks of less than 256 bytes in the body of a request: an event each, and as many for ends of lines.
MAX_SMALL_CHUNKS: Final = 2 * MAX_EVENTS

#: Messages that wait for one client before it is suspended.
MAX_BACKLOG: Final = 100_000

#: Subscriptions of one principal (promise S19).
MAX_SUBSCRIPTIONS: Final = 100_000

#: Names of clients of one principal: a broker remembers the stream of each for a day at least.
MAX_CLIENTS_OF_PRINCIPAL: Final = 10_000

#: Namespaces in which one principal has subscriptions, beside the `MAX_NAMESPACES` of the broker; and namespaces of the
#: entries of one neighbour, which may announce those of many brokers. Each has indexes of its own, of 2 KiB at least.
MAX_NAMESPACES_OF_PRINCIPAL: Final = 2_500
MAX_NAMESPACES_OF_NEIGHBOUR: Final = 100_000

#: Subscriptions of one namespace; bytes of filters, texts and metadata of one namespace, and of all.
MAX_SUBSCRIPTIONS_OF_NAMESPACE: Final = 1_000_000
MAX_BYTES_OF_NAMESPACE: Final = 1024 * 1024 * 1024
MAX_BYTES_OF_SUBSCRIPTIONS: Final = 4 * 1024 * 1024 * 1024

#: Entries in the routing table of one neighbour; their filters have at most `MAX_BYTES_OF_SUBSCRIPTIONS`.
MAX_ENTRIES_OF_NEIGHBOUR: Final = 10_000_000

#: Characters of a bearer token; a JWT with a certificate chain in its header has about 6,000.
MAX_TOKEN: Final = 8 * 1024

#: Costly questions (trial, comparison, explain) that wait or run.
MAX_WORK_OF_PRINCIPAL: Final = 16
MAX_WORK: Final = 64

#: Connections of one address and of all clients. Links and admins have a reserve beyond.
MAX_CONNECTIONS_OF_ADDRESS: Final = 1_000
MAX_CONNECTIONS: Final = 10_000

#: Seconds for a TLS handshake, which counts as a connection from its first byte.
HANDSHAKE_SECONDS: Final = 10.0

#: Seconds for the head of a request, for its body, and between two requests.
HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 5.0


class Door(NamedTuple):
    """One row of the table: what is limited, for whom, and to how much."""

    what: str
    per: str
    limit: str


def _bytes(n: int) -> str:
    return f"{n // 1024**2:,} MiB" if n >= 1024**2 else f"{n // 1024:,} KiB"


DOORS: Final = (
    Door("bytes of an event", "event", _bytes(MAX_EVENT)),
    Door("bytes of an event with a region", "event", _bytes(MAX_EVENT_WITH_REGION)),
    Door("bytes of one JSON object", "object", _bytes(MAX_EVENT_TEXT)),
    Door("attributes of an event", "event", f"{MAX_ATTRIBUTES:,}"),
    Door("characters of an attribute's name, dots included", "attribute", f"{MAX_ATTRIBUTE_NAME:,}"),
    Door("levels of nesting in JSON", "object", f"{MAX_DEPTH:,}"),
    Door("objects and lists of one JSON object", "object", f"{MAX_CONTAINERS:,}"),
    Door("keys of one JSON object and those inside it", "object", f"{MAX_KEYS:,}"),
    Door("objects and lists inside a value of an event", "value", f"{MAX_INNER:,}"),
    Door("characters of filter text, geometries and IN lists apart", "subscription", f"{TEXT.most:,}"),
    Door("bytes of text and metadata", "subscription", _bytes(MAX_ABOUT)),
    Door("keys of metadata", "subscription", f"{MAX_METADATA_KEYS:,}"),
    Door("characters of an id, a namespace, a client's name", "name", f"{MAX_NAME:,}"),
    Door("bytes of a request", "request", _bytes(MAX_BODY)),
    Door("chunks of less than 256 bytes", "request", f"{MAX_SMALL_CHUNKS:,}"),
    Door("events", "request or message", f"{MAX_EVENTS:,}"),
    Door("subscriptions", "request or message", f"{MAX_SUBSCRIPTIONS_AT_ONCE:,}"),
    Door("bytes of requests held at once", "principal", _bytes(MAX_READING_OF_PRINCIPAL)),
    Door("bytes of requests held at once", "broker", _bytes(MAX_READING)),
    Door("rows of a page", "answer", f"{MAX_PAGE:,}"),
    Door("bytes of a page, of messages taken at once; one row may have more", "answer", _bytes(MAX_PAGE_BYTES)),
    Door("bytes of a packet", "client message", _bytes(MAX_PACKET)),
    Door("frames of a packet", "client message", f"{MAX_FRAMES:,}"),
    Door("bytes of a packet", "message of a link", _bytes(MAX_PACKET_OF_BROKER)),
    Door("entries of a part of a table", "message of a link", f"{MAX_PART_ENTRIES:,}"),
    Door("bytes of filters of a part of a table", "message of a link", _bytes(MAX_BODY)),
    Door("messages that wait (`max_backlog`)", "client", f"{MAX_BACKLOG:,}"),
    Door("clients by name, absent ones included", "principal", f"{MAX_CLIENTS_OF_PRINCIPAL:,}"),
    Door("subscriptions", "principal", f"{MAX_SUBSCRIPTIONS:,}"),
    Door("namespaces with subscriptions", "principal", f"{MAX_NAMESPACES_OF_PRINCIPAL:,}"),
    Door("namespaces with subscriptions", "broker", f"{MAX_NAMESPACES:,}"),
    Door("subscriptions", "namespace", f"{MAX_SUBSCRIPTIONS_OF_NAMESPACE:,}"),
    Door("bytes of filters, texts and metadata", "namespace", _bytes(MAX_BYTES_OF_NAMESPACE)),
    Door("bytes of filters, texts and metadata", "broker", _bytes(MAX_BYTES_OF_SUBSCRIPTIONS)),
    Door("filters that a neighbour announces", "link", f"{MAX_ENTRIES_OF_NEIGHBOUR:,}"),
    Door("namespaces of filters that a neighbour announces", "link", f"{MAX_NAMESPACES_OF_NEIGHBOUR:,}"),
    Door("bytes of filters that a neighbour announces", "link", _bytes(MAX_BYTES_OF_SUBSCRIPTIONS)),
    Door("characters of a token", "request", f"{MAX_TOKEN:,}"),
    Door("costly questions that wait or run", "principal", f"{MAX_WORK_OF_PRINCIPAL:,}"),
    Door("costly questions that wait or run", "broker", f"{MAX_WORK:,}"),
    Door("connections (`max_connections_of_address`)", "address", f"{MAX_CONNECTIONS_OF_ADDRESS:,}"),
    Door("connections (`max_connections`)", "broker", f"{MAX_CONNECTIONS:,}"),
    Door("seconds for a TLS handshake", "connection", f"{HANDSHAKE_SECONDS:g}"),
    Door("seconds for the head of a request", "request", f"{HEAD_SECONDS:g}"),
    Door("seconds for the body of a request", "request", f"{BODY_SECONDS:g}"),
    Door("seconds without a request", "connection", f"{IDLE_SECONDS:g}"),
)
