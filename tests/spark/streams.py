"""Streams of trades over one directory of snapshots, and what their outputs must hold after whatever happened."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tamis.spark import batch_reports
from tamis.spark.matching.pins import Pin
from tamis.spark.streaming.batch_log import Begin
from tests.spark.processes import Caller, DriverError
from tests.spark.trades import Pairs, bad_events, engine, matches, pairs, trades

__all__ = ["Streams", "call_patiently"]

#: Events of a file, and with ``maxFilesPerTrigger`` of a micro-batch.
_ROWS = 120
#: Spark Connect gives the Python process of a stream ten seconds to start, a number that no setting changes. On a busy
#: machine that is too short, and Spark says so; another try finds the files in memory.
_TRIES, _TOO_SLOW = 3, "Python worker failed to connect back"


def call_patiently(driver: Caller, do: str, **arguments: Any) -> Any:
    """Return the answer to a command that starts a Python process of a stream."""
    for _ in range(_TRIES - 1):
        try:
            return driver.call(do, **arguments)
        except DriverError as error:
            if _TOO_SLOW not in error.message:
                raise
    return driver.call(do, **arguments)


class Streams:
    """Streams that read the same files; each has a name, an output and a checkpoint."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.source, self.snapshots = place / "source", place / "snapshots"
        self.source.mkdir(parents=True)
        #: The subscriptions of each version.
        self.published: dict[str, pa.Table] = {}
        self._files = 0

    def publish(self, subscriptions: pa.Table) -> str:
        """Publish a version with these subscriptions; return its name."""
        version = engine(subscriptions, "packed").save(self.snapshots).name
        self.published[version] = subscriptions
        return version

    def add_files(self, n: int) -> None:
        """Add events to the source; a micro-batch takes one file."""
        for number in range(self._files, self._files + n):
            aside = self.place / f"{number:05d}.parquet"
            pq.write_table(trades(_ROWS, seed=1000 + number, first=number * _ROWS), aside)
            os.rename(aside, self.source / aside.name)  # whole or not at all
        self._files += n

    def start(self, driver: Caller, name: str, *, hold: str = "", output: str = "") -> None:
        """Have a driver start a stream, or take it up again."""
        places = {"directory": str(self.snapshots), "events": str(self.source), "checkpoint": str(self._log(name))}
        call_patiently(driver, "stream", name=name, hold=hold, output=output or str(self._output(name)), **places)

    def start_own(self, driver: Caller, sink: str, *, hold: str = "", files: int = 2) -> None:
        """Have a driver start a stream into a sink of Spark's own, or take it up again; it is named after the sink."""
        places = {"directory": str(self.snapshots), "events": str(self.source), "checkpoint": str(self._log(sink))}
        output = str(self._output(sink))
        driver.call("own_stream", name=sink, sink=sink, hold=hold, files=files, output=output, **places)

    def own_files(self, sink: str) -> list[str]:
        """Return the files with rows that tasks of a sink have finished, whether or not the sink has listed them."""
        return [path.name for path in self._output(sink).rglob("part-*.parquet") if path.stat().st_size > 100]

    def logged(self, sink: str, batch: int) -> tuple[bool, bool]:
        """Return whether a file sink has listed the files of a batch, and whether Spark has noted the batch as done."""
        listed = self._output(sink) / "_spark_metadata" / str(batch)
        return listed.exists(), (self._log(sink) / "commits" / str(batch)).exists()

    def check_own(self, driver: Caller, name: str) -> dict[int, str]:
        """Compare the rows in Spark's own sink with the oracle; return the version that each batch was pinned to."""
        taken = self.events_in(self._log(name))
        assert sum(len(events) for events in taken.values()) == self._files * _ROWS
        query = json.loads((self._log(name) / "metadata").read_text())["id"]
        pins = {int(path.stem): path for path in (self.snapshots / "pins" / query).glob("*.json")}
        used = {batch: msgspec.json.decode(pins[batch].read_bytes(), type=Pin).version for batch in sorted(pins)}
        assert used.keys() == taken.keys()
        wanted: Pairs = Counter()
        for batch, events in taken.items():
            wanted += matches(engine(self.published[used[batch]]), events)
        assert pairs(driver.call("own_rows", sink=name, output=str(self._output(name)))) == wanted
        return used

    def versions_used(self, name: str) -> dict[int, str]:
        """Return the version that each batch wrote down before it ran."""
        paths = (self._log(name) / "tamis").glob("*.begin.json")
        begun = [msgspec.json.decode(path.read_bytes(), type=Begin) for path in paths]
        return {batch.batch: batch.version for batch in sorted(begun, key=lambda batch: batch.batch)}

    def steps(self, name: str) -> int:
        """Return how far a stream came: three steps for each batch, it is begun, in place and reported."""
        logged = [*self._log(name).glob("tamis/*.begin.json"), *self._log(name).glob("tamis/*.end.json")]
        return len(logged) + len(list(self._output(name).glob("batch=*")))

    def check_held(self) -> None:
        """Check that each held stream is where its name says, so that the kill comes at that place."""
        in_place = {name: (self._output(name) / "batch=1" / "_SUCCESS").exists() for name in _HELD}
        aside = {name: bool(list(self._output(name).glob(".batch=1-*"))) for name in _HELD}
        ended = {name: (self._log(name) / "tamis" / "1.end.json").exists() for name in _HELD}
        committed = {name: (self._log(name) / "commits" / "1").exists() for name in _HELD}
        assert {name: (aside[name], in_place[name], ended[name], committed[name]) for name in _HELD} == _HELD
        assert list(self._output("torn").glob(".batch=0-*/_temporary"))

    def check(self, driver: Caller, name: str) -> int:
        """Compare everything a stream put out with the oracle, batch by batch; return how many rows."""
        output = str(self._output(name))
        delivered = Counter(map(tuple, driver.call("deliveries", output=output)))
        rejected = Counter((batch, event) for batch, event, _ in driver.call("rejected", output=output))
        used, reports = self.versions_used(name), {report.batch: report for report in batch_reports(self._log(name))}
        taken = self.events_in(self._log(name))
        assert sum(len(events) for events in taken.values()) == self._files * _ROWS  # Spark took every event once
        assert taken.keys() == used.keys() == reports.keys()
        wanted: Counter[Any] = Counter()
        for batch, events in taken.items():
            pairs = matches(engine(self.published[used[batch]]), events)
            wanted += Counter({(batch, *pair): n for pair, n in pairs.items()})
            report, bad = reports[batch], bad_events(events)
            assert (report.version, report.events) == (used[batch], len(events))
            assert (report.deliveries, report.rejected) == (pairs.total(), len(bad))
        assert delivered == wanted
        assert rejected == Counter((batch, id) for batch, events in taken.items() for id in bad_events(events))
        assert not list(self._output(name).glob(".*"))  # nothing is left lying about
        return wanted.total() + rejected.total()

    def events_in(self, checkpoint: Path) -> dict[int, pa.Table]:
        """Return the events of each batch, by Spark's own log of its source."""
        taken: dict[int, set[str]] = {}
        for path in (checkpoint / "sources" / "0").iterdir():
            if not path.name.startswith("."):
                for entry in map(json.loads, path.read_text().splitlines()[1:]):
                    taken.setdefault(entry["batchId"], set()).add(unquote(urlparse(entry["path"]).path))
        return {batch: pa.concat_tables(map(pq.read_table, sorted(taken[batch]))) for batch in sorted(taken)}

    def _output(self, name: str) -> Path:
        return self.place / name / "output"

    def _log(self, name: str) -> Path:
        return self.place / name / "checkpoint"


#: Where the named streams are held in batch 1: rows aside, rows in place, report written, committed by Spark.
_HELD = {
    "begun": (False, False, False, False),
    "written": (True, False, False, False),
    "placed": (False, True, False, False),
    "reported": (False, True, True, False),
}
