"""Matches a large table with several threads: each takes a part of the events, and kernels release the GIL.

The parts follow each other in the table, so the answer is that of one thread: the same rows for each event, events in
the same order. Each event meets one state of the subscriptions; while another thread changes them, the parts of a table
may meet different ones.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

import numpy as np

from tamis.errors import ModelError
from tamis.index.protocols import MatchRows
from tamis.model.tables import EventTable

__all__ = ["match_parts"]

#: The least number of events in a part: with fewer, a thread costs more than it gains.
_LEAST: Final = 256


def match_parts(match: Callable[[EventTable], MatchRows], events: EventTable, threads: int) -> MatchRows:
    """Return ``match(events)``, computed by up to ``threads`` threads."""
    if threads < 1:
        raise ModelError(f"threads must be at least 1, not {threads}")
    n_parts = min(threads, len(events) // _LEAST)
    if n_parts < 2:
        return match(events)
    bounds = [len(events) * i // n_parts for i in range(n_parts + 1)]
    parts = [events.part(start, stop) for start, stop in pairwise(bounds)]
    with ThreadPoolExecutor(n_parts, thread_name_prefix="tamis-match") as pool:
        results = list(pool.map(match, parts))
    before = np.cumsum([0, *(len(part.rows) for part in results)])
    offsets = [part.offsets[:-1] + start for part, start in zip(results, before, strict=False)]
    return MatchRows(np.concatenate([*offsets, before[-1:]]), np.concatenate([part.rows for part in results]))
