"""The daemon of a local session: its workers begin with everything imported, and the fork loses nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tamis.spark.running.daemon import daemon_settings

#: The daemon without Spark: it says how many threads it has, and whether it imported the kernels.
PROGRAM = """
import os, sys
from pyspark import daemon
daemon.manager = lambda: print(len(os.listdir("/proc/self/task")), "numba" in sys.modules)
from tamis.spark.running.daemon import run
run(["pyspark.worker"])
"""


def test_a_worker_of_a_local_session_is_forked_with_everything_imported(spark: Any) -> None:
    def state(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"pyspark": [pyspark.__file__], "frozen": [gc.get_freeze_count()]})

    [row] = spark.range(1).coalesce(1).mapInArrow(state, "pyspark string, frozen long").collect()
    assert ".zip" not in row["pyspark"]
    assert row["frozen"] > 10_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts the threads in /proc")
def test_what_is_imported_before_the_fork_starts_no_thread() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # as Spark starts it
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["1", "True"]


@pytest.mark.parametrize(
    ("master", "python", "is_set"),
    [
        ("local", sys.executable, True),
        ("local[*]", sys.executable, True),
        ("local[2, 4]", sys.executable, True),
        ("local[2]", "/usr/bin/python3-of-another-environment", False),
        ("local-cluster[2,1,1024]", sys.executable, False),
        ("spark://127.0.0.1:7077", sys.executable, False),
    ],
)
def test_the_daemon_is_named_only_where_it_can_be_imported(
    monkeypatch: pytest.MonkeyPatch, master: str, python: str, is_set: bool
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    expected = {"spark.python.daemon.module": "tamis.spark.running.daemon"} if is_set else {}
    assert daemon_settings(master) == expected
