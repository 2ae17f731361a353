"""Older versions of Spark: each is installed beside the one of the tests, and runs a short program of the one verb."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: A table of rules is synced, matched as a DataFrame and as a stream, and asked through a column and SQL.
PROGRAM = """
import sys
from pathlib import Path
import pyspark
from tamis import Number, Schema
from tamis.spark import matcher, register_functions, relation_join, session, sync_snapshot

assert pyspark.__version__ == sys.argv[1], pyspark.__version__
place, schema = sys.argv[2], Schema({"price": Number()})
spark = session("local[2]", spark_sql_shuffle_partitions=2)
for rules in ({"a": "price < 1", "b": "price < 3"}, {"a": "price < 2", "c": "price > 2", "bad": "price >>"}):
    frame = spark.createDataFrame(list(rules.items()), "id string, filter string")
    report = sync_snapshot(frame, f"{place}/rules", schema=schema)
assert (report.added, report.changed, report.removed, report.rejected) == (1, 1, 1, 1), report
events = spark.createDataFrame([(1, 1.5), (2, 2.5)], "event_id long, price double")
events.write.parquet(f"{place}/events")
m = matcher(f"{place}/rules")
stream = spark.readStream.schema(events.schema).parquet(f"{place}/events").transform(m.match)
writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{place}/checkpoint")
writer.trigger(availableNow=True).start(f"{place}/out").awaitTermination()
m.register(spark, "alerts", event_id_type="bigint")
events.createOrReplaceTempView("events")
forms = {
    "match": events.transform(m.match),
    "ids": events.select("event_id", m.ids().alias("who")).selectExpr("event_id", "explode(who) AS subscription_id"),
    "sql": spark.sql("SELECT * FROM alerts(TABLE(events))"),
    "stream": spark.read.parquet(f"{place}/out"),
}
for name, rows in forms.items():
    assert sorted(map(tuple, rows.collect())) == [(1, "a"), (2, "c")], name
register_functions(spark)
assert spark.sql("SELECT tamis_matches('price < 1', named_struct('price', 0.5D))").first()[0] is True
squares = spark.createDataFrame([(1, "POLYGON((0 0,1 0,1 1,0 1,0 0))")], "id long, region string")
assert [row.relation for row in relation_join(squares, squares, ["equals"]).collect()] == ["equals"]
print("all forms agree")
"""


def run(version: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run the program with a version of Spark."""
    packages = place / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
    subprocess.run([*install, f"pyspark=={version}.*", "py4j<0.11"], check=True)
    exact = next(packages.glob("pyspark-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    environment = {**inherited, "PYTHONPATH": str(packages)}
    command = [sys.executable, "-c", PROGRAM, exact, str(place)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=place)


@pytest.mark.soak
@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_an_older_spark_gives_the_same_rows(version: str, tmp_path: Path) -> None:
    done = run(version, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all forms agree" in done.stdout


def test_a_spark_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    import tamis.spark

    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    with pytest.raises(
        tamis.ModelError, match=r"needs PySpark 4\.1 or newer, this is 4\.0\.5: pip install 'pyspark>=4\.1'"
    ):
        tamis.spark.__getattr__("matcher")
