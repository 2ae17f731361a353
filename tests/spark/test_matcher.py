"""One verb: the rows of `match` for a DataFrame, a stream, a column and SQL; a micro-batch keeps its version."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

import tamis
from tamis.errors import SnapshotError, TableError
from tamis.spark import compile_subscriptions, match, matcher, prune_snapshots, register_functions, write_snapshot
from tests.spark.test_match import accepted
from tests.spark.worlds import COLUMNS, SCHEMA, laptop, pairs, rows, texts


@pytest.fixture(scope="module")
def world(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    filters = [(f"s{i}", text) for i, text in enumerate(texts(60, seed=31))]
    directory = tmp_path_factory.mktemp("rules")
    write_snapshot(accepted(spark, filters), directory, schema=SCHEMA)
    events = rows(60, seed=32)
    frame = spark.createDataFrame(events, COLUMNS)
    frame.createOrReplaceTempView("matcher_events")
    return {"directory": directory, "filters": filters, "frame": frame, "wanted": sorted(laptop(filters, events))}


def test_every_form_gives_the_rows_of_the_laptop(spark: Any, world: dict[str, Any]) -> None:
    m = matcher(world["directory"])
    assert pairs(world["frame"].transform(m.match)) == world["wanted"]
    marked = world["frame"].withColumn("who", m.ids()).selectExpr("event_id", "explode(who) AS subscription_id")
    assert pairs(marked) == world["wanted"]
    m.register(spark, "alerts", event_id_type="bigint")
    assert pairs(spark.sql("SELECT * FROM alerts(TABLE(matcher_events))")) == world["wanted"]


def test_rules_of_a_frame_and_of_a_table(spark: Any, world: dict[str, Any]) -> None:
    rules = spark.createDataFrame(world["filters"], "id string, filter string")
    assert pairs(world["frame"].transform(matcher(rules, schema=SCHEMA).match)) == world["wanted"]
    rules.createOrReplaceTempView("matcher_rules")
    assert pairs(world["frame"].transform(matcher("matcher_rules", schema=SCHEMA).match)) == world["wanted"]
    with pytest.raises(TableError, match="need schema="):
        matcher(rules)
    with pytest.raises(SnapshotError, match="there is no such directory"):
        matcher("no_such_rules")
    with pytest.raises(SnapshotError, match="no such directory, and the session has no table 'no_such_rules'"):
        matcher("no_such_rules")
    unusable: Any = [("low", "price < 10")]
    with pytest.raises(TableError, match="rules: got list; give a DataFrame, the name of a table, or the location"):
        matcher(unusable, schema=SCHEMA)
    with pytest.raises(TableError, match="the table of events: expected a DataFrame of Spark, got list; make one with"):
        matcher(world["directory"]).match(unusable)


def test_bad_events_are_split_off_and_explained(spark: Any, tmp_path: Path) -> None:
    write_snapshot(accepted(spark, [("low", "price < 10"), ("high", "price > 90")]), tmp_path, schema=SCHEMA)
    frame = spark.createDataFrame([(1, 5.0), (2, float("nan")), (3, None)], "event_id int, price double")
    m = matcher(tmp_path)
    deliveries, quarantine = m.split(frame)
    assert pairs(deliveries) == [(1, "low")]
    assert [row["event_id"] for row in quarantine.collect()] == [2]
    answers = frame.select("event_id", m.ids("price").alias("who"), m.explain("high", "price").alias("why")).where(
        "event_id <> 2"
    )
    by_event = {row["event_id"]: (row["who"], row["why"]) for row in answers.collect()}
    assert by_event[1][0] == ["low"]
    assert by_event[3][0] == []
    assert "price > 90" in by_event[1][1]
    assert [row[0] for row in frame.where("event_id = 2").select(m.ids("price")).collect()] == [None]
    assert [row[0] for row in frame.limit(1).select(m.explain("absent", "price")).collect()] == [None]


def test_a_stream_is_pinned_batch_by_batch(spark: Any, tmp_path: Path) -> None:
    """A sink of Spark's own; the batch that runs again has the rules it had at first (promise P5)."""
    directory, source, checkpoint = tmp_path / "rules", tmp_path / "source", tmp_path / "checkpoint"
    output, events = tmp_path / "output", rows(40, seed=33)
    old, new = [("low", "price < 10")], [("high", "price > 10")]
    write_snapshot(accepted(spark, old), directory, schema=SCHEMA)

    def publish(some: list[dict[str, Any]]) -> None:
        spark.createDataFrame(some, COLUMNS).coalesce(1).write.mode("append").parquet(str(source))

    def run(rules: Path = directory) -> dict[str, Any]:
        stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(source))
        writer = stream.transform(matcher(rules, metrics="alerts").match).writeStream.format("parquet")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(output))
        query.awaitTermination()
        return {name: row["rows"] for name, row in query.lastProgress["observedMetrics"].items()}

    metrics_seen = list[dict[str, int]]()

    class Listener(StreamingQueryListener):
        """Notes what a service that watches queries is told."""

        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            metrics = event.progress.observedMetrics
            if metrics:
                metrics_seen.append({name: row["rows"] for name, row in metrics.items()})

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

    listener = Listener()
    spark.streams.addListener(listener)
    publish(events[:20])
    assert run() == {"alerts_events": 20, "alerts_deliveries": len(laptop(old, events[:20]))}
    deadline = time.monotonic() + 60
    while not metrics_seen and time.monotonic() < deadline:  # listeners are told on a thread of their own
        time.sleep(0.05)
    spark.streams.removeListener(listener)
    assert metrics_seen == [{"alerts_events": 20, "alerts_deliveries": len(laptop(old, events[:20]))}]
    write_snapshot(accepted(spark, new), directory, schema=SCHEMA)
    publish(events[20:])
    run()
    wanted = sorted(laptop(old, events[:20]) | laptop(new, events[20:]))
    assert pairs(spark.read.parquet(str(output))) == wanted
    pins = {path.name: msgspec.json.decode(path.read_bytes()) for path in (directory / "pins").glob("*/*.json")}
    assert {name: pin["version"] for name, pin in pins.items()} == {"0.json": "v000001", "1.json": "v000002"}
    # As after a crash before the sink and Spark noted the last batch, with newer rules there meanwhile.
    write_snapshot(accepted(spark, [("none", "price < -1")]), directory, schema=SCHEMA)
    moved = tmp_path / "moved"  # no worker has a version open there, which alone would keep it
    shutil.copytree(directory, moved)
    assert prune_snapshots(moved, keep=1) == ["v000001"]  # the last batch may need its version again
    for noted in [*(checkpoint / "commits").glob("*1*"), *(output / "_spark_metadata").glob("*1*")]:
        noted.unlink()
    run(moved)
    assert pairs(spark.read.parquet(str(output))) == wanted


def test_every_form_takes_the_namespace_from_a_column(spark: Any, tmp_path: Path) -> None:
    rules = [("low", "price < 10", "red"), ("low", "price < 20", "blue"), ("high", "price > 90", None)]
    frame = spark.createDataFrame(rules, "id string, filter string, namespace string")
    written, _ = compile_subscriptions(frame, schema=SCHEMA)
    write_snapshot(written, tmp_path, schema=SCHEMA)
    prices = [(1, 15.0, "red"), (2, 15.0, "blue"), (3, 5.0, "red"), (4, 95.0, None), (5, float("nan"), "blue")]
    events = spark.createDataFrame([*prices, (6, 5.0, "green")], "event_id int, price double, team string")
    events.createOrReplaceTempView("events_of_teams")
    wanted = [(2, "low"), (3, "low"), (4, "high")]
    m = matcher(tmp_path, namespace_column="team")
    assert pairs(m.match(events)) == wanted
    for columns in ((), ("price",), ("price", "team")):
        marked = events.coalesce(1).select("event_id", m.ids(*columns).alias("who"))
        assert {row["event_id"]: row["who"] for row in marked.collect()} == {
            **{id: [] for id in (1, 6)},
            **{id: [subscription] for id, subscription in wanted},
            5: None,
        }
    m.register(spark, "alerts_of_teams", event_id_type="int")
    assert pairs(spark.sql("SELECT * FROM alerts_of_teams(TABLE(events_of_teams))")) == wanted
    reasons = events.where("event_id < 4").select("event_id", m.explain("low", "price").alias("why")).collect()
    assert {row["event_id"]: "price < 20" in row["why"] for row in reasons} == {1: False, 2: True, 3: False}
    assert [row[0] for row in events.where("event_id = 4").select(m.explain("low", "price")).collect()] == [None]
    with pytest.raises(
        PythonException, match="the events have no column 'team' .namespace_column.; they have event_id"
    ):
        spark.sql("SELECT * FROM alerts_of_teams(TABLE(SELECT event_id, price FROM events_of_teams))").collect()


@pytest.mark.parametrize("form", ["match", "ids"])
def test_a_micro_batch_keeps_its_moment(spark: Any, tmp_path: Path, form: str) -> None:
    """Subscriptions end at a moment that is written with the version: a batch that runs again gives the same rows."""
    rules, source, checkpoint = tmp_path / "rules", tmp_path / "source", tmp_path / "checkpoint"
    frame = spark.createDataFrame(
        [("ends", "price < 10", "2026-01-01T00:00:00Z"), ("stays", "price < 10", None)],
        "id string, filter string, expires string",
    )
    write_snapshot(compile_subscriptions(frame, schema=SCHEMA)[0], rules, schema=SCHEMA)
    spark.createDataFrame([(1, 5.0)], "event_id long, price double").write.parquet(str(source))

    def run(now: Any) -> list[Any]:
        m = matcher(rules, now=now)
        stream = spark.readStream.schema("event_id long, price double").parquet(str(source))
        exploded = stream.select("event_id", F.explode(m.ids("price")).alias("subscription_id"))
        rows = m.match(stream) if form == "match" else exploded
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start(str(tmp_path / "output")).awaitTermination()
        return pairs(spark.read.parquet(str(tmp_path / "output")))

    both = [(1, "ends"), (1, "stays")]
    assert run("2025-01-01T00:00:00Z") == both
    for noted in [*(checkpoint / "commits").glob("*0*"), *(tmp_path / "output" / "_spark_metadata").glob("*0*")]:
        noted.unlink()
    assert run(None) == both


@pytest.mark.parametrize("tile_by", [(), ("price",)])
def test_deliveries_carry_columns_of_the_event_and_metadata(
    spark: Any, tmp_path: Path, tile_by: tuple[str, ...]
) -> None:
    rules = [("told", "price < 10", {"team": "red", "level": "2"}), ("plain", "price < 20", None)]
    frame = spark.createDataFrame(rules, "id string, filter string, metadata map<string,string>")
    written, _ = compile_subscriptions(frame, schema=SCHEMA)
    write_snapshot(written, tmp_path, schema=SCHEMA, tile_by=tile_by, tiles=2)
    events = spark.createDataFrame([(1, 5.0, "x"), (2, 15.0, "y")], "event_id int, price double, place string")
    deliveries = matcher(tmp_path, payload="*", metadata=True).match(events)
    assert deliveries.columns == ["event_id", "subscription_id", "price", "place", "metadata"]
    assert {tuple(row[:4]): row[4] for row in deliveries.collect()} == {
        (1, "told", 5.0, "x"): {"team": "red", "level": "2"},
        (1, "plain", 5.0, "x"): {},
        (2, "plain", 15.0, "y"): {},
    }
    with_place = matcher(tmp_path, payload="place").match(events)
    assert with_place.columns == ["event_id", "subscription_id", "place"]
    renamed = events.withColumnRenamed("place", "metadata")
    with pytest.raises(TableError, match="payload: a delivery has a column 'metadata' already"):
        matcher(tmp_path, payload="*", metadata=True).match(renamed)


def test_real_time_mode_refuses_python(spark: Any, world: dict[str, Any]) -> None:
    """Of open-source Spark; when this fails, docs/spark.md can say that it works.

    Its sources are Kafka, whose jar is not here, and a stream in memory that Spark's own tests use.
    """
    jvm = spark._jvm
    make = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
    clock, encoder = jvm.org.apache.spark.util.SystemClock(), jvm.org.apache.spark.sql.Encoders.LONG()
    m = matcher(world["directory"])
    forms = {
        "MapInArrowExec": lambda stream: stream.transform(m.match),
        "ArrowEvalPythonExec": lambda stream: stream.select("event_id", m.ids("price").alias("who")),
    }
    for number, (operator, form) in enumerate(forms.items()):
        source = DataFrame(make(number, spark._jsparkSession, 1, clock, encoder).toDF(), spark)
        result = form(source.selectExpr("value AS event_id", "CAST(value AS double) AS price"))
        query = result.writeStream.format("console").outputMode("update").trigger(realTime="5 minutes").start()
        with pytest.raises(Exception, match=f"OPERATOR_OR_SINK_NOT_IN_ALLOWLIST.*{operator}"):
            query.awaitTermination(60)


def test_functions_of_sql(spark: Any) -> None:
    assert "tamis_matches" in register_functions(spark)
    row = spark.sql(
        "SELECT tamis_matches('price < 10', named_struct('price', 5.0D)) AS matches,"
        " tamis_matches('price < 10', named_struct('price', 50.0D)) AS misses,"
        " tamis_matches(CAST(NULL AS STRING), named_struct('price', 50.0D)) AS nothing,"
        " tamis_explain('price < 10', named_struct('price', 50.0D)) AS why,"
        " tamis_covers('price < 10', 'price < 5') AS covers, tamis_covers('price < 5', 'price < 10') AS narrower,"
        " tamis_relation('POLYGON((1 1, 2 1, 2 2, 1 1))', 'POLYGON((0 0, 9 0, 9 9, 0 9, 0 0))') AS relation,"
        " tamis_hilbert_key(array(7, 0), 3) AS key, tamis_ranges(array(2, 2), array(5, 3), 3) AS ranges"
    ).first()
    assert (row["matches"], row["misses"], row["nothing"]) == (True, False, None)
    assert (row["covers"], row["narrower"], row["relation"], row["key"]) == (True, False, "inside", 63)
    assert [tuple(bounds) for bounds in row["ranges"]] == [(8, 11), (52, 55)]
    assert "price < 10" in row["why"]


def test_what_a_caller_can_get_wrong(spark: Any, world: dict[str, Any]) -> None:
    with pytest.raises(TableError, match="has no column 'key'"):
        matcher(world["directory"], event_id="key").match(world["frame"])
    with pytest.raises(tamis.SchemaError, match="'price'"):
        matcher(world["directory"], schema=tamis.Schema({"price": tamis.String()})).match(world["frame"])
    with pytest.raises(TableError, match="two columns 'price'; drop or rename"):
        matcher(world["directory"]).match(world["frame"].select("event_id", "price", "price"))
    with pytest.raises(TableError, match="the subscriptions: got list; give a DataFrame"):
        match(world["frame"], [("low", "price < 10")])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"payload": 5}, r"payload: expected names of columns or '\*', got int"),
        ({"namespace": 5}, "namespace: expected a string, got int"),
        ({"metrics": 3}, "metrics: expected a string, got int"),
        ({"event_id": ["a"]}, "event_id: expected a string, got list"),
    ],
)
def test_settings_of_a_wrong_type_are_named(world: dict[str, Any], settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(TableError, match=problem):
        matcher(world["directory"], **settings)


def test_wrong_arguments_of_columns_and_table_functions_are_named(spark: Any, world: dict[str, Any]) -> None:
    m = matcher(world["directory"])
    wrong_id: Any = 5.5
    with pytest.raises(TableError, match="subscription_id: expected a string, .* got float"):
        m.explain(wrong_id)
    for name in ("two words", "", None):
        with pytest.raises(TableError, match="name: expected a name that SQL calls without quotes"):
            m.register(spark, name)  # type: ignore[arg-type]
    m.register(spark, "alerts_called_wrongly")
    with pytest.raises(PythonException, match=r"takes a table: SELECT \* FROM alerts\(TABLE\(events\)\)"):
        spark.sql("SELECT * FROM alerts_called_wrongly('matcher_events')").collect()
    with pytest.raises(PythonException, match="no column 'event_id' .event_id of matcher.; they have price"):
        spark.sql("SELECT * FROM alerts_called_wrongly(TABLE(SELECT price FROM matcher_events))").collect()
