"""What a broker says about an event to those who trace it, without a word of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from tamis.runtime.traces.contexts import PublisherSpan

__all__ = ["Kind", "Span", "SpanSink"]

Kind = Literal["server", "internal", "producer", "consumer", "client"]


@dataclass(slots=True)
class Span:
    """Something that happened to an event at a broker; times are in nanoseconds UTC.

    ``span_id`` 0 stands for any id, ``parent`` 0 for none. ``origin`` is the span of the publisher. Attributes are
    names and counts: nothing of an event's contents, and no reason of a refusal, which may quote them.
    """

    name: str
    kind: Kind
    trace_id: int
    start: int
    attributes: dict[str, str | int]
    end: int = 0
    span_id: int = 0
    parent: int = 0
    origin: PublisherSpan | None = None
    is_error: bool = False

    def finish(self, end: int, outcome: str) -> Span:
        """Return this span with its end and what came of it."""
        self.end = max(end, self.start)
        self.attributes["tamis.outcome"] = outcome
        return self


class SpanSink(Protocol):
    """Takes spans that have ended, at once and without failing."""

    def add(self, span: Span) -> None:
        """Take a span, or drop and count it."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Spans that were made, and those of them that were dropped."""

    def close(self) -> None:
        """Send what is left, for a bounded time."""
