"""Spark's own sinks behind the one verb: a batch that runs again in any window of a crash gives the same rows, once.

A driver that dies leaves files behind, and which of them tells where it was. Each window is made by taking away what
a driver that died there would not have written. Real kills are in test_driver_kill.py and test_cluster.py.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tamis.spark import matcher, write_rows
from tamis.spark.matching.pins import Pin
from tests.spark.streams import Streams
from tests.spark.trades import Pairs, engine, matches, questions

#: What the last batch lacks after a crash: Spark's note that it is done; and the sink's note of its files; and the
#: files; and every trace but the pin, which the first worker writes.
WINDOWS = ("commits/1", "_spark_metadata/1", "rows", "pinned")


class Run:
    """A stream over two files, into one sink; it is run again after each crash."""

    def __init__(self, spark: Any, streams: Streams, place: Path) -> None:
        self.spark, self.streams = spark, streams
        self.output, self.checkpoint = place / "output", place / "checkpoint"

    def run(self, start: Callable[[Any], Any]) -> None:
        source = self.spark.readStream.schema("event_id long, symbol string, price double, volume long")
        events = source.option("maxFilesPerTrigger", 1).parquet(str(self.streams.source))
        rows = events.transform(matcher(self.streams.snapshots).match)
        writer = rows.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        start(writer).awaitTermination()

    def crash(self, window: str) -> None:
        """Take away what a driver that died in this window would not have written of batch 1."""
        for noted in (self.checkpoint / "commits").glob("*1*"):
            noted.unlink()
        noted = self.output / "_spark_metadata" / "1"
        if window != "commits/1" and noted.exists():
            files = [line for line in noted.read_text().splitlines()[1:] if line]
            noted.unlink()
            noted.with_name(".1.crc").unlink(missing_ok=True)  # Spark would take it for a batch of another query
            for file in files if window in ("rows", "pinned") else ():
                Path(msgspec.json.decode(file)["path"].removeprefix("file://")).unlink()

    def versions(self) -> dict[int, str]:
        [pins] = (self.streams.snapshots / "pins").iterdir()
        pins_by_batch = {
            int(path.stem): msgspec.json.decode(path.read_bytes(), type=Pin) for path in pins.glob("*.json")
        }
        return {batch: pins_by_batch[batch].version for batch in sorted(pins_by_batch)}

    def wanted(self) -> Pairs:
        """Return the oracle's rows: each file with the version that its batch was pinned to."""
        events = self.streams.events_in(self.checkpoint)
        rows: Pairs = Counter()
        for batch, version in self.versions().items():
            rows += matches(engine(self.streams.published[version]), events[batch])
        return rows


@pytest.fixture
def run(spark: Any, tmp_path: Path) -> Run:
    streams = Streams(tmp_path / "streams")
    streams.publish(questions(60, seed=50))
    streams.add_files(2)
    return Run(spark, streams, tmp_path)


def pairs_in(frame: Any) -> Pairs:
    return Counter((row.event_id, row.subscription_id) for row in frame.collect())


@pytest.mark.parametrize("windows", [WINDOWS[:1], pytest.param(WINDOWS[1:], marks=pytest.mark.soak)])
def test_the_parquet_sink_in_every_window(run: Run, windows: tuple[str, ...]) -> None:
    def start(writer: Any) -> Any:
        return writer.format("parquet").start(str(run.output))

    run.run(start)
    before = run.versions()
    assert before == {0: "v000001", 1: "v000001"}
    for number, window in enumerate(windows):
        run.crash(window)
        run.streams.publish(questions(60, seed=51 + number))  # the batch must not see it
        run.run(start)
        assert run.versions() == before, window
        assert pairs_in(run.spark.read.parquet(str(run.output))) == run.wanted(), window
    assert run.wanted().total() > 100


def test_a_table_and_foreach_batch_after_a_crash(run: Run) -> None:
    kept = run.output.parent / "kept"

    def start(writer: Any) -> Any:
        def keep(rows: Any, batch: int) -> None:
            write_rows(rows, "parquet", str(kept), query="own", batch=batch)

        return writer.foreachBatch(keep).start()

    for _ in range(2):
        run.run(start)
        assert pairs_in(run.spark.read.parquet(str(kept))) == run.wanted()
        run.crash("commits/1")
        run.streams.publish(questions(60, seed=60))
    shutil.rmtree(run.checkpoint)
    shutil.rmtree(run.streams.snapshots / "pins")
    name = "own_sink_alerts"
    run.spark.sql(f"DROP TABLE IF EXISTS {name}")
    for _ in range(2):
        run.run(lambda writer: writer.option("path", str(run.output)).toTable(name))
        run.spark.catalog.refreshTable(name)
        assert pairs_in(run.spark.table(name)) == run.wanted()
        run.crash("commits/1")
        run.streams.publish(questions(60, seed=61))
    run.spark.sql(f"DROP TABLE {name}")
