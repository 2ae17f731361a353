"""Spans on their way to a collector, in a thread of OpenTelemetry's SDK: the broker waits for none of it.

What the collector does not take in time is dropped and counted. The environment variables of OpenTelemetry apply:
``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_BSP_SCHEDULE_DELAY`` and the
others of the exporter. Sampling is the broker's own (`tamis.runtime.traces.contexts`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from tamis import __version__
from tamis.errors import ModelError
from tamis.runtime.traces.spans import Span

__all__ = ["ExportedSpans"]

_log = logging.getLogger("tamis")

#: Spans that wait for the collector, beyond which more are dropped; and seconds that a broker which stops gives it.
QUEUE, CLOSING_SECONDS = 16_384, 5.0

_KINDS = {
    "server": SpanKind.SERVER,
    "internal": SpanKind.INTERNAL,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
}


class _GivenIds(IdGenerator):
    """Gives the next span the ids that were set for it, and a random id where there is none."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        """Return the trace id that was set."""
        return self.trace_id

    def generate_span_id(self) -> int:
        """Return the span id that was set, or any."""
        return self.span_id or self._random.generate_span_id()


class _CountingExporter(SpanExporter):
    """Counts what a collector takes and what it does not, and logs when that changes."""

    def __init__(self, exporter: SpanExporter, url: str) -> None:
        self.exported = self.failed = 0
        self._exporter = exporter
        self._url = url
        self._is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; they are lost if the collector does not take them."""
        try:
            result, problem = self._exporter.export(spans), "it does not take spans"
        except Exception as error:  # the thread of the SDK has no caller: count it, and go on with the next spans
            result, problem = SpanExportResult.FAILURE, type(error).__name__
        has_failed = result is not SpanExportResult.SUCCESS
        if has_failed and not self._is_failing:
            _log.warning("traces: the collector at %s fails (%s); spans are dropped and counted", self._url, problem)
        elif self._is_failing and not has_failed:
            _log.warning("traces: the collector at %s takes spans again", self._url)
        self._is_failing = has_failed
        self.failed += len(spans) * has_failed
        self.exported += len(spans) * (not has_failed)
        return result

    def shutdown(self) -> None:
        """Wait for no further attempt."""
        self._exporter.shutdown()


class ExportedSpans:
    """Exports the spans of a broker to the collector at ``url``; ``env``: where the environment variables say."""

    def __init__(self, url: str, broker: str) -> None:
        # It says the same line for each batch; `_CountingExporter` says it once.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._ids = _GivenIds()
        self._made = self._dropped = 0
        try:
            exporter = OTLPSpanExporter(endpoint=None if url == "env" else _endpoint(url))
            self._exporter = _CountingExporter(exporter, "OTEL_EXPORTER_OTLP_ENDPOINT" if url == "env" else url)
            processor = BatchSpanProcessor(self._exporter, max_queue_size=QUEUE)
        except (ValueError, RuntimeError) as error:  # an environment variable
            raise ModelError(f"traces: {error}") from None
        self._provider = TracerProvider(ALWAYS_ON, _resource(broker), shutdown_on_exit=False, id_generator=self._ids)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("tamis", __version__)

    @property
    def counts(self) -> Mapping[str, int]:
        """Spans that were made, and those of them that were dropped."""
        return {"trace_spans": self._made, "trace_spans_dropped": self._dropped + self._exporter.failed}

    def add(self, span: Span) -> None:
        """Take a span that has ended; it is dropped when too many wait for the collector."""
        self._made += 1
        sent = self._exporter.exported + self._exporter.failed
        if self._made - self._dropped - sent > QUEUE:
            self._dropped += 1
            return
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        context = Context()
        if span.parent:
            parent = SpanContext(span.trace_id, span.parent, is_remote=True, trace_flags=TraceFlags(1))
            context = set_span_in_context(NonRecordingSpan(parent), context)
        made = self._tracer.start_span(
            span.name,
            context,
            _KINDS[span.kind],
            span.attributes,
            links=_links(span),
            start_time=span.start,
        )
        if span.is_error:
            made.set_status(Status(StatusCode.ERROR))
        made.end(span.end)

    def close(self) -> None:
        """Send what is left, for at most `CLOSING_SECONDS`: a collector that hangs does not keep the broker."""
        ending = threading.Thread(target=self._provider.shutdown, name="tamis-traces", daemon=True)
        ending.start()
        ending.join(CLOSING_SECONDS)


def _links(span: Span) -> list[Link]:
    if span.origin is None:
        return []
    trace_id, span_id, flags = span.origin
    return [Link(SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags)))]


def _resource(broker: str) -> Resource:
    """Return what the spans of a broker are of; the environment may name another service."""
    own = Resource.create({})
    names = {SERVICE_INSTANCE_ID: broker}
    if str(own.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        names[SERVICE_NAME] = "tamis"
    return own.merge(Resource(names))


def _endpoint(url: str) -> str:
    """Return where spans are posted, for the address of a collector.

    >>> _endpoint("http://127.0.0.1:4318"), _endpoint("http://127.0.0.1:4318/v1/traces")
    ('http://127.0.0.1:4318/v1/traces', 'http://127.0.0.1:4318/v1/traces')
    """
    base = url.rstrip("/")
    return base if base.endswith("/v1/traces") else f"{base}/v1/traces"
