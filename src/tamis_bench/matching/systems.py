"""The systems that are compared: each holds the subscriptions of a work and matches its events.

Making a system is what the build rate counts. `prepare` brings events into the form that the system likes
best and is not counted; for tamis this is the pyarrow table as users have it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.engine import Engine
from tamis.model.arrow_types import schema_from_arrow
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis_bench.scan import scan_boxes
from tamis_bench.workloads.boxes import BoxWork, FloatArray, TextWork

__all__ = [
    "Counting",
    "EngineSystem",
    "IntArray",
    "Linear",
    "MatchingSystem",
    "Ours",
    "Pairs",
    "Scan",
    "Work",
    "pairs_of_csr",
]

IntArray = npt.NDArray[np.int64]
#: Numbers of events and of subscriptions that belong together.
Pairs = tuple[IntArray, IntArray]
Work = BoxWork | TextWork


class MatchingSystem(ABC):
    """Subscriptions of one work, made ready in the constructor."""

    #: As ``--system`` and the rows call it.
    name: ClassVar[str]
    #: The package it needs beside those of tamis.
    package: ClassVar[str] = ""
    #: With more subscriptions it is left out, because of ``too_many``.
    most: ClassVar[int | None] = None
    too_many: ClassVar[str] = ""
    takes_texts: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, work: Any) -> None: ...

    @abstractmethod
    def prepare(self, work: Any, rows: IntArray) -> Any:
        """Return some events of a work as `match` takes them."""

    @abstractmethod
    def match(self, events: Any) -> Any:
        """Return all matches in the system's own form."""

    @abstractmethod
    def pairs(self, matches: Any) -> Pairs:
        """Return a result of `match` as pairs, in any order."""


class ChangingSystem(MatchingSystem):
    """A system that is also measured while boxes come and go."""

    @abstractmethod
    def insert(self, lo: FloatArray, hi: FloatArray) -> Sequence[Any]:
        """Add boxes; return what `delete` calls them."""

    @abstractmethod
    def delete(self, ids: Sequence[Any]) -> None:
        """Remove boxes, one by one."""


def pairs_of_csr(offsets: IntArray, rows: npt.NDArray[np.int32]) -> Pairs:
    """Return compressed rows as pairs."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), rows.astype(np.int64)


class EngineSystem(MatchingSystem):
    """The public engine, with one of its matchers."""

    matcher: ClassVar[str]
    takes_texts = True

    def __init__(self, work: Work) -> None:
        declared = work.schema if isinstance(work, TextWork) else None
        schema = declared or Schema(schema_from_arrow(work.events))
        self.engine = Engine(schema, matcher=self.matcher)
        if isinstance(work, TextWork):
            self.engine.subscribe_table(SubscriptionTable.from_arrow(pa.table({"filter": work.texts})))
        else:
            self._names = work.names
            self.engine.subscribe_boxes(work.names, work.lo, work.hi)

    def prepare(self, work: Work, rows: IntArray) -> pa.Table:
        """Return rows of the table."""
        return work.events.take(rows)

    def match(self, events: pa.Table) -> Any:
        """Match a table; the answer is compressed rows."""
        return self.engine.match_table(events)

    def pairs(self, matches: Any) -> Pairs:
        """Return pairs; rows of the engine are the numbers of subscriptions, in order of arrival."""
        return pairs_of_csr(matches.offsets, matches.rows)


class Ours(EngineSystem, ChangingSystem):
    """tamis as it comes."""

    name = "ours"
    matcher = "packed"

    def insert(self, lo: FloatArray, hi: FloatArray) -> Sequence[Any]:
        """Add boxes."""
        return self.engine.subscribe_boxes(self._names, lo, hi)

    def delete(self, ids: Sequence[Any]) -> None:
        """Remove subscriptions."""
        for id in ids:
            self.engine.unsubscribe(id)


class Counting(EngineSystem):
    """Siena's counting, in Python, behind the same engine."""

    name = "counting"
    matcher = "counting"
    most = 100_000
    too_many = "an object per constraint: a million take minutes to build and several gigabytes"


class Linear(EngineSystem):
    """Every subscription asked in turn, in Python: the scan of the works that are not boxes."""

    name = "scan"
    matcher = "linear"


class Scan(MatchingSystem):
    """The plain Numba scan of boxes."""

    name = "scan"

    def __init__(self, work: BoxWork) -> None:
        self._lo, self._hi = work.lo, work.hi
        self._room = 4_096

    def prepare(self, work: BoxWork, rows: IntArray) -> FloatArray:
        """Return rows of the matrix."""
        return work.filled[rows]

    def match(self, events: FloatArray) -> tuple[IntArray, npt.NDArray[np.int32]]:
        """Return compressed rows; the size that they needed is kept, so that later calls allocate it at once."""
        offsets, out = np.zeros(len(events) + 1, np.int64), np.empty(self._room, np.int32)
        done = 0
        while (done := int(scan_boxes(self._lo, self._hi, events, done, offsets, out))) < len(events):
            out = np.concatenate((out, np.empty_like(out)))
        self._room = out.size
        return offsets, out[: offsets[-1]]

    def pairs(self, matches: Any) -> Pairs:
        """Return pairs."""
        return pairs_of_csr(*matches)
