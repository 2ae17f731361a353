"""Ids of traces and spans: a function of the event's id, so that all brokers agree without a word about it.

No message carries a trace id. Each broker computes it, decides by the same number whether the event is traced, and
knows the ids of the spans that its neighbours made. Brokers of earlier releases pass events on as they always did.
"""

from __future__ import annotations

import re
import sys
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from tamis.node.published import EventId

__all__ = [
    "PublisherSpan",
    "current_traceparent",
    "format_traceparent",
    "is_sampled",
    "read_traceparent",
    "span_id_of",
    "threshold_of",
    "trace_id_of",
]

#: Bits of a trace id by which it is sampled: those that W3C Trace Context calls random.
_SAMPLED_BITS = 56

#: Characters of a ``traceparent`` of version 00, and of one that a later version may have made longer.
_LENGTH, _MAX_LENGTH = 55, 512

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-[ -~]*)?")


class PublisherSpan(NamedTuple):
    """The span of a publisher, as its ``traceparent`` names it."""

    trace_id: int
    span_id: int
    flags: int


def trace_id_of(event: EventId) -> int:
    """Return the trace id of an event, the same at every broker.

    >>> f"{trace_id_of(EventId('http:local@north', 7, 1)):032x}"
    '4d010d6337ad8dd4efafb5e8f5375700'
    """
    return _number(16, event.publisher, event.epoch, event.seq)


def span_id_of(event: EventId, *place: str) -> int:
    """Return the id of the span that an event has at a place: what happened, at which broker, to which link."""
    return _number(8, event.publisher, event.epoch, event.seq, *place)


def threshold_of(share: float) -> int:
    """Return the number from which on events are traced, so that it is ``share`` of them.

    >>> is_sampled(0, threshold_of(1.0)), is_sampled((1 << 128) - 1, threshold_of(0.0))
    (True, False)
    """
    return round((1.0 - share) * (1 << _SAMPLED_BITS))


def is_sampled(trace_id: int, threshold: int) -> bool:
    """Whether the event of a trace is traced."""
    return trace_id & ((1 << _SAMPLED_BITS) - 1) >= threshold


def format_traceparent(trace_id: int, span_id: int) -> str:
    """Return the ``traceparent`` header of W3C Trace Context for a span that is sampled."""
    return f"00-{trace_id:032x}-{span_id:016x}-01"


def read_traceparent(values: list[str]) -> PublisherSpan | None:
    """Return the span that the ``traceparent`` headers of a request name; None unless there is one, and it is good.

    >>> origin = read_traceparent(["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
    >>> origin == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, 1)
    True
    >>> read_traceparent(["00-00000000000000000000000000000000-b7ad6b7169203331-01"]) is None
    True
    """
    if len(values) != 1 or not _LENGTH <= len(values[0]) <= _MAX_LENGTH:
        return None
    match = _TRACEPARENT.fullmatch(values[0])
    if match is None or match[1] == "ff" or (match[1] == "00" and len(values[0]) > _LENGTH):
        return None
    origin = PublisherSpan(int(match[2], 16), int(match[3], 16), int(match[4], 16))
    return origin if origin.trace_id and origin.span_id else None


def current_traceparent() -> str:
    """Return the ``traceparent`` of the current span of OpenTelemetry; empty if there is none.

    A program that has spans has imported OpenTelemetry, which is not imported for its sake.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return ""
    context = api.get_current_span().get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}" if context.is_valid else ""


def _number(size: int, *parts: str | int) -> int:
    """Return a hash of parts as a number of ``size`` bytes; zero would mean that there is no id."""
    digest = blake2b(msgspec.json.encode(parts), digest_size=size, person=b"tamis trace").digest()
    return int.from_bytes(digest) or 1
