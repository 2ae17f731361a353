"""Counts of a process for Prometheus, served on loopback while the process runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tamis.errors import ModelError

__all__ = ["Count", "serving_metrics"]


class Count(NamedTuple):
    """A number with its name in Prometheus and a description; ``only_grows`` unless it is a present size."""

    name: str
    description: str
    value: float
    only_grows: bool = True


@contextlib.contextmanager
def serving_metrics(
    read: Callable[[], Iterable[Count]], labels: Mapping[str, str], port: int | None
) -> Iterator[int | None]:
    """Serve the counts that ``read`` returns at ``http://127.0.0.1:port/metrics`` in this context; None: not at all."""
    if port is None:
        yield None
        return
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(_Collector(read, labels))
    try:
        server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        raise ModelError(f"--metrics: port {port} of 127.0.0.1: {error.strerror}; choose another") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Collector:
    """Gives counts to Prometheus."""

    def __init__(self, read: Callable[[], Iterable[Count]], labels: Mapping[str, str]) -> None:
        self._read = read
        self._labels = labels

    def collect(self) -> Iterator[Any]:
        """Yield a family of metrics for each count."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for count in self._read():
            make = CounterMetricFamily if count.only_grows else GaugeMetricFamily
            family = make(count.name, count.description, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), count.value)
            yield family
