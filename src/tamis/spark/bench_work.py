"""What the systems of a benchmark are given: boxes and events in Parquet files, and bins to join them by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ON_MORE", "ON_TWO", "Bins", "BoxFiles", "Timing"]

#: Bins of one attribute are fewer than this, so that those of several make one number.
_MOST = 1 << 15


@dataclass(frozen=True)
class BoxFiles:
    """Boxes and events as Parquet files: columns ``id``, ``NAME_lo``, ``NAME_hi``; and ``event_id``, ``NAME``.

    No value is negative.
    """

    subscriptions: Path
    #: The same boxes as CQL2: columns ``id`` and ``filter``.
    texts: Path
    #: A folder of files, for several tasks to share.
    events: Path
    #: One of these files.
    few_events: Path
    n_events: int
    names: tuple[str, ...]
    #: The mean side of a box on each attribute.
    sides: tuple[float, ...]


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


@dataclass(frozen=True)
class Bins:
    """Cells of ``width`` mean sides on the first attributes; a box is copied into every cell it meets."""

    attributes: int
    width: float

    def __str__(self) -> str:
        return f"bins of {self.width:g} sides on {self.attributes} attributes"

    def steps(self, files: BoxFiles) -> list[tuple[str, float, int]]:
        """Return name, size of a bin and weight of its number, for each attribute that is cut."""
        cut = zip(files.names[: self.attributes], files.sides, strict=False)
        return [(name, side * self.width, _MOST**place) for place, (name, side) in enumerate(cut)]


#: What is tried: bins on two attributes, as one would begin, and on more. There the candidates get few and the copies
#: many; it pays where all boxes are of about one size, which these are.
ON_TWO = (Bins(2, 1.0), Bins(2, 0.5))
ON_MORE = (Bins(3, 1.0), Bins(4, 1.0), Bins(4, 2.0))
