"""A collector of traces in a thread: it decodes what OpenTelemetry's exporter posts, with the published protobuf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.server.processes import wait_until
from tests.server.receiver import Answering, Receiver

__all__ = ["Collector", "SeenSpan"]


@dataclass(frozen=True)
class SeenSpan:
    """One span as it arrived; ids are hexadecimal."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    start: int
    end: int
    is_error: bool
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    service: dict[str, Any]


class Collector(Receiver):
    """A receiver whose requests are spans."""

    def __init__(self, answer: Answering = lambda request: 200) -> None:
        super().__init__(answer=answer)
        self.url = self.url.removesuffix("/hook")

    @property
    def spans(self) -> list[SeenSpan]:
        """The spans of all requests that were accepted."""
        return [span for request in self.requests for span in _read(request.path, request.body)]

    def wait(self, count: int) -> list[SeenSpan]:
        """Return the spans once there are ``count`` of them."""
        wait_until(lambda: len(self.spans) >= count, f"{count} spans")
        return self.spans


def _read(path: str, body: bytes) -> list[SeenSpan]:
    assert path == "/v1/traces"
    return [
        SeenSpan(
            span.name,
            span.kind,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.status.code == span.status.STATUS_CODE_ERROR,
            _values(span.attributes),
            [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
            _values(resource.resource.attributes),
        )
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _values(attributes: Any) -> dict[str, Any]:
    return {attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in attributes}
