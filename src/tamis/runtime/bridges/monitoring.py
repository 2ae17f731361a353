"""What a bridge tells while it runs: metrics for Prometheus, and a line from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict

from tamis.runtime.bridges.plan import BridgeCounts
from tamis.runtime.metrics import Count

__all__ = ["counts_as_text", "metrics_of", "report_progress"]

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


def metrics_of(counts: BridgeCounts) -> Iterator[Count]:
    """Yield counts for Prometheus."""
    for name, text in _HELP.items():
        yield Count(f"tamis_bridge_{name}", text, getattr(counts, name))
