"""The core of a broker that is traced: it does what `EdgeCore` does, and its steps are shown to `BrokerTraces`."""

from __future__ import annotations

import logging
import time
from typing import Any

from tamis.node.effects import Effect, Link
from tamis.routing.edge.core import EdgeCore
from tamis.runtime.traces.broker_traces import BrokerTraces, TracedCall

__all__ = ["TracedEdge"]

_log = logging.getLogger("tamis")


class TracedEdge(EdgeCore):
    """A broker with its edge; the arguments after ``traces`` are those of `EdgeCore`."""

    def __init__(self, traces: BrokerTraces, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._traces = traces
        self._ends = arguments[2]

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Take one message of ``sender``; return everything that follows from it, as one transaction."""
        start = time.time_ns()
        is_from_broker = self.broker.is_neighbour(sender)
        try:
            effects = super().handle(message, sender=sender, now=now)
        except Exception:
            self._traces.forget_step()
            raise
        try:
            self._traces.note_step(
                TracedCall(message, sender, effects, start, time.time_ns(), is_from_broker, self._ends)
            )
        except Exception:  # the step was taken: its effects are not lost with its spans
            _log.exception("traces: the spans of a step are lost")
        return effects
