"""Declarative Pipelines of Spark: which forms of the one verb their definitions take."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tamis
from tamis.spark.running.java import java_home

pytestmark = pytest.mark.slow

SPEC = """
name: alerts
storage: file://{place}/storage
libraries:
  - glob:
      include: definitions/**
"""

TOP = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from tamis.spark import matcher

spark = SparkSession.active()
m = matcher("{place}/rules")
m.register(spark, "alerts", event_id_type="bigint")


@dp.materialized_view
def events():
    return spark.range(0, 10).selectExpr("id AS event_id", "id * 10.0D AS price")
"""

COLUMN_AND_SQL = """

@dp.materialized_view
def marked():
    return spark.read.table("events").select("event_id", m.ids("price").alias("who"))


@dp.materialized_view
def deliveries():
    return spark.sql("SELECT * FROM alerts(TABLE(events))")
"""

MATCH = """

@dp.materialized_view
def deliveries():
    return spark.read.table("events").transform(m.match)
"""


def run(place: Path, definitions: str) -> subprocess.CompletedProcess[str]:
    """Run a pipeline with these definitions in a process of its own."""
    engine = tamis.Engine(tamis.Schema({"price": tamis.Number()}))
    engine.subscribe("price < 35", id="low")
    engine.save(place / "rules")
    (place / "definitions").mkdir()
    (place / "definitions" / "alerts.py").write_text((TOP + definitions).replace("{place}", str(place)))
    (place / "spark-pipeline.yml").write_text(SPEC.replace("{place}", str(place)))
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_MASTER": "local[1]"}
    home = java_home()
    command = shutil.which("spark-pipelines", path=environment["PATH"])
    assert command is not None
    return subprocess.run(
        [command, "run", "--spec", str(place / "spark-pipeline.yml")],
        cwd=place,
        env=environment if home is None else {**environment, "JAVA_HOME": home},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def held(place: Path, table: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in pq.read_table(place / "spark-warehouse" / table).to_pylist())


def test_columns_and_table_functions(tmp_path: Path) -> None:
    done = run(tmp_path, COLUMN_AND_SQL)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert held(tmp_path, "marked") == [(event, ["low"] if event < 4 else []) for event in range(10)]
    assert held(tmp_path, "deliveries") == [(event, "low") for event in range(4)]


@pytest.mark.soak
def test_a_match_of_a_frame_is_refused_by_spark(tmp_path: Path) -> None:
    """It looks at the columns of the events; when this fails, docs/spark.md can say that it works."""
    done = run(tmp_path, MATCH)
    assert done.returncode != 0
    assert "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION" in done.stdout + done.stderr
