"""What the systems of a benchmark are given: boxes and events in Parquet files, and bins to join them by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tamis_bench.spark.bins import Bins

__all__ = ["BoxFiles", "Timing"]

#: Pairs that a join may look at in a timed run; one that would look at more is given one file of the events.
_MOST_CANDIDATES = 1_000_000_000


@dataclass(frozen=True)
class BoxFiles:
    """Boxes and events as Parquet files: columns ``id``, ``NAME_lo``, ``NAME_hi``; and ``event_id``, ``NAME``."""

    subscriptions: Path
    #: The same boxes as CQL2: columns ``id`` and ``filter``.
    texts: Path
    #: A folder of files, for several tasks to share.
    events: Path
    #: One of these files.
    few_events: Path
    n_events: int
    names: tuple[str, ...]
    #: Ways to cut as many attributes as one likes, and two, as one would begin.
    bins: tuple[Bins, ...]
    bins_on_two: tuple[Bins, ...]

    def events_for(self, bins: Bins) -> Path:
        """Return the events that a join with these bins is timed on: all, unless that would take too long."""
        return self.events if bins.candidates * self.n_events <= _MOST_CANDIDATES else self.few_events


@dataclass(frozen=True)
class Timing:
    """How fast a system was, in events per second unless ``unit`` says otherwise."""

    system: str
    rate: float
    #: What it was timed on: how many events, and how many pairs it found in them.
    events: int
    pairs: int
    note: str = ""
    unit: str = "events/s"
