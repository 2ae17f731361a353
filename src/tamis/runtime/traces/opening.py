"""The traces of a broker as its configuration wants them; OpenTelemetry is an extra."""

from __future__ import annotations

from tamis.errors import MissingExtraError
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.traces.broker_traces import BrokerTraces

__all__ = ["demand_exporter", "open_traces"]


def demand_exporter(config: BrokerConfig) -> None:
    """Raise `MissingExtraError` when traces are wanted and OpenTelemetry is not installed."""
    if config.traces:
        try:
            import tamis.runtime.traces.exporting  # noqa: F401
        except ImportError as error:
            if not (error.name or "").startswith("opentelemetry"):
                raise
            raise MissingExtraError("traces (OpenTelemetry)", "otel") from None


def open_traces(config: BrokerConfig) -> BrokerTraces | None:
    """Return the traces of a broker that sends them somewhere; None: it does not."""
    if not config.traces:
        return None
    demand_exporter(config)
    from tamis.runtime.traces.exporting import ExportedSpans

    return BrokerTraces(config.name, ExportedSpans(config.traces, config.name), config.trace_share)
