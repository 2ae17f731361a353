"""What a pipeline waits for besides matching: a sync of few changes, a first job, and a snapshot in an object store."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tamis.engine import Engine
from tamis.errors import MissingExtraError, TamisError
from tamis.model.schema import Schema
from tamis.model.types import Number
from tamis.spark import match, sync_snapshot
from tamis_bench.spark.work import Timing
from tamis_bench.workloads.boxes import make_boxes

__all__ = ["GOALS"]

#: Rules of a table that change before each sync.
_CHANGES = 1_000
_EVENTS = 1_000_000

#: Prints the first row of a match in a process that has nothing running.
_FIRST_JOB = """
import sys
from tamis.spark import matcher, session
spark = session(sys.argv[1])
print(spark.read.parquet(sys.argv[3]).transform(matcher(sys.argv[2]).match).first())
"""

#: An S3 server on loopback with one bucket; it ends with its standard input.
_SERVER = """
import sys
from moto.server import ThreadedMotoServer
import boto3
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench", "region_name": "us-east-1"}
boto3.client("s3", endpoint_url=f"http://{host}:{port}", **keys).create_bucket(Bucket="bench")
print(f"http://{host}:{port}", flush=True)
sys.stdin.read()
"""


def _sync(spark: SparkSession, n: int, repeat: int) -> Timing:
    """Change some rules of a table and bring the snapshot up to date; the first sync of a session is the slowest."""
    rng, changes = np.random.default_rng(1), min(_CHANGES, n)
    texts = [_rule(low) for low in rng.uniform(0, 100, (n, 2)).tolist()]
    schema, took = Schema({"a": Number(), "b": Number()}), list[float]()
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as place:
        sync_snapshot(_table(spark, texts, f"{place}/0.parquet"), f"{place}/rules", schema=schema).release()
        for number in range(1, repeat + 2):
            for row in rng.choice(n, changes, replace=False).tolist():
                texts[row] = _rule([number, row % 100])
            rules = _table(spark, texts, f"{place}/{number}.parquet")
            start = time.perf_counter()
            report = sync_snapshot(rules, f"{place}/rules")
            took.append(time.perf_counter() - start)
            if report.changed != changes:
                raise AssertionError(f"{changes} rules changed, the sync says {report.changed}")
            report.release()
    note = f"{changes:,} changes into {n:,} rules in {min(took):.1f} s, the first time in {took[0]:.1f} s"
    return Timing("sync", changes / min(took), 0, 0, note, unit="changes/s")


def _rule(low: list[float]) -> str:
    return f"a BETWEEN {low[0]:.3f} AND {low[0] + 2:.3f} AND b BETWEEN {low[1]:.3f} AND {low[1] + 2:.3f}"


def _table(spark: SparkSession, texts: list[str], path: str) -> DataFrame:
    pq.write_table(pa.table({"id": np.arange(len(texts)), "filter": texts}), path, row_group_size=250_000)
    return spark.read.parquet(path)


def _first_job(spark: SparkSession, n: int, repeat: int) -> Timing:
    """Start Python and Spark, open a snapshot and read the first row of a match."""
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as place:
        engine, events = _boxes(n, 10_000, Path(place))
        engine.save(f"{place}/rules")
        command = [sys.executable, "-c", _FIRST_JOB, str(spark.sparkContext.master), f"{place}/rules", str(events)]
        took = []
        for _ in range(repeat):
            start = time.perf_counter()
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            took.append(time.perf_counter() - start)
            if not done.stdout.startswith("Row("):
                raise AssertionError(f"the first job printed no row: {done.stdout!r}")
    return Timing("first job", min(took), 0, 1, f"first row after {min(took):.1f} s", unit="s to the first row")


def _boxes(n: int, n_events: int, place: Path) -> tuple[Engine, Path]:
    """Return an engine of ``n`` boxes, and a file of events."""
    work = make_boxes("uniform4", n, n_events, seed=1)
    engine = Engine(Schema({name: Number() for name in work.names}))
    engine.subscribe_boxes(list(work.names), work.lo, work.hi, np.arange(n).tolist())
    engine.wait()
    table = work.events.append_column("event_id", pa.array(np.arange(n_events)))
    pq.write_table(table, place / "events.parquet", row_group_size=max(1, n_events // 8))
    return engine, place / "events.parquet"


def _from_a_store(spark: SparkSession, n: int, repeat: int, *, warm: bool) -> Timing:
    """Match with a snapshot in a directory and with the same one in an object store, in turns.

    With a cold cache every run has new workers, which fetch the snapshot; with a warm one they go on.
    """
    best = {"directory": float("inf"), "store": float("inf")}
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as place, _store(spark, Path(place)) as uri:
        engine, events = _boxes(n, _EVENTS, Path(place))
        locations = {"directory": f"{place}/rules", "store": uri}
        for location in locations.values():
            engine.save(location)
        for number in range(repeat + warm):  # a run that opens the snapshot first, if the cache is to be warm
            for name, location in locations.items():
                if not warm or number == 0:
                    spark.sparkContext.environment["TAMIS_SNAPSHOT_CACHE"] = f"{place}/cache-{uuid.uuid4().hex}"
                start = time.perf_counter()
                rows = match(spark.read.parquet(str(events)), location)
                rows.write.format("noop").mode("overwrite").save()
                if number >= warm:
                    best[name] = min(best[name], time.perf_counter() - start)
    system, ratio = f"s3 {'warm' if warm else 'cold'}", best["store"] / best["directory"]
    note = f"{ratio:.2f} x as slow as from a directory; a server of moto on loopback"
    return Timing(system, _EVENTS / best["store"], _EVENTS, 0, note)


@contextmanager
def _store(spark: SparkSession, place: Path) -> Iterator[str]:
    """Give a URI in a store on loopback that this process and the workers can reach; afterwards all is as before."""
    try:
        import moto.server  # noqa: F401
        import obstore  # noqa: F401
    except ImportError:
        raise MissingExtraError("a snapshot in an S3 server", "peers", "tamis-bench") from None
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        if not url:  # an empty endpoint would be that of AWS
            raise TamisError("the S3 server on loopback did not start; run python -c 'import moto.server, boto3'")
        keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
        settings = {**keys, "AWS_ENDPOINT_URL": url, "TAMIS_SNAPSHOT_CACHE": str(place / "cache")}
        before, workers = dict(os.environ), dict(spark.sparkContext.environment)
        os.environ.update(settings)
        spark.sparkContext.environment.update(settings)
        try:
            yield f"s3://bench/{uuid.uuid4().hex}"
        finally:
            os.environ.clear()
            os.environ.update(before)
            spark.sparkContext.environment.clear()
            spark.sparkContext.environment.update(workers)
            server.stdin.close()


def _cold(spark: SparkSession, n: int, repeat: int) -> Timing:
    return _from_a_store(spark, n, repeat, warm=False)


def _warm(spark: SparkSession, n: int, repeat: int) -> Timing:
    return _from_a_store(spark, n, repeat, warm=True)


#: How each thing is measured that has a goal of its own in docs/spark.md.
GOALS: dict[str, Callable[[SparkSession, int, int], Timing]] = {
    "sync": _sync,
    "first job": _first_job,
    "s3 cold": _cold,
    "s3 warm": _warm,
}
