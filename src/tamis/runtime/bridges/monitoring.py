"""What a bridge tells while it runs: metrics for Prometheus on loopback, and a line from time to time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from tamis.errors import ModelError
from tamis.runtime.bridges.plan import BridgeCounts

__all__ = ["counts_as_text", "report_progress", "serving_metrics"]

_HELP = {
    "received": "Messages read of the other system",
    "published": "Messages that became events",
    "repeated": "Messages that the broker had already",
    "refused": "Messages and deliveries that can never be handed over",
    "retried": "Times that a message was refused for now",
    "sent": "Deliveries that the other system has",
}


def counts_as_text(counts: BridgeCounts) -> str:
    """Return counts as one line.

    >>> counts_as_text(BridgeCounts(received=3, published=2, refused=1, last_refusal="not JSON"))
    '3 received, 2 published, 0 repeated, 1 refused, 0 retried, 0 sent; last refusal: not JSON'
    """
    numbers = ", ".join(f"{getattr(counts, name):,} {name}" for name in _HELP)
    return numbers + (f"; last refusal: {counts.last_refusal}" if counts.last_refusal else "")


async def report_progress(counts: BridgeCounts, seconds: float, tell: Callable[[BridgeCounts], None]) -> None:
    """Call ``tell`` every ``seconds`` seconds, if something has changed."""
    before = asdict(counts)
    while True:
        await asyncio.sleep(seconds)
        if (now := asdict(counts)) != before:
            tell(counts)
            before = now


@contextlib.contextmanager
def serving_metrics(counts: BridgeCounts, kind: str, name: str, port: int | None) -> Iterator[int | None]:
    """Serve counts at ``http://127.0.0.1:port/metrics`` for as long as the context lasts; None: not at all."""
    if port is None:
        yield None
        return
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(_Collector(counts, kind, name))
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
    """Gives the counts of one bridge to Prometheus."""

    def __init__(self, counts: BridgeCounts, kind: str, name: str) -> None:
        self._counts = counts
        self._labels = [kind, name]

    def collect(self) -> Iterator[Any]:
        """Yield a family of metrics for each count."""
        from prometheus_client.core import CounterMetricFamily

        for name, text in _HELP.items():
            family = CounterMetricFamily(f"tamis_bridge_{name}", text, labels=["system", "bridge"])
            family.add_metric(self._labels, getattr(self._counts, name))
            yield family
