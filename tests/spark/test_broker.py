"""The format ``tamis``: a broker's log as a table and as a stream, and rows published once."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import types as T

import tamis
from tamis.errors import EventError, ModelError, SchemaError
from tamis.runtime.client.http_calls import HttpCalls
from tamis.spark.broker.rows import batch_of, check_columns, event_of
from tamis.spark.broker.source import BrokerStreamReader, LogOptions
from tests.server.postgres import PostgresServer, needs_postgres, postgres
from tests.server.processes import HANGS, BrokerProcess, running, wait_until
from tests.server.test_failover import Pair
from tests.server.test_programs_at_failover import kill_the_holder

__all__ = ["postgres"]

ROOT = Path(tamis.__file__).parent / "spark"
COLUMNS = "n long, kind string, at timestamp, weight double"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    place = tmp_path_factory.mktemp("broker")
    config = f'data = "{place / "data"}"\nmax_backlog = 1000\n'
    with running(BrokerProcess(place, config)) as (process,):
        yield process


def options(broker: BrokerProcess, subscription: str, **more: Any) -> dict[str, str]:
    return {"url": broker.url, "subscription": subscription, "timeout": "30", **{k: str(v) for k, v in more.items()}}


def logged(broker: BrokerProcess | HttpCalls, subscription: str) -> Counter[Any]:
    """Everything that a subscription got, by (kind, n), as often as it got it."""
    calls = broker if isinstance(broker, HttpCalls) else HttpCalls(broker.url)
    counts, after = Counter[Any](), ""
    while (page := calls.read_log(subscription, after=after)).messages:
        counts.update((message["event"]["kind"], message["event"]["n"]) for message in page.messages)
        after = page.next
    return counts


def test_rows_go_out_as_events_and_come_back_as_rows(spark: Any, broker: BrokerProcess) -> None:
    HttpCalls(broker.url).subscribe("round", "kind = 'round' AND n < 60")
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    rows = [(n, "round", moment + dt.timedelta(hours=n), None if n % 3 else n / 7) for n in range(90)]
    spark.createDataFrame(rows, COLUMNS).write.format("tamis").mode("append").options(url=broker.url).save()
    reader = spark.read.format("tamis").options(**options(broker, "round", eventsPerPartition=25))
    table = reader.schema(f"{COLUMNS}, _cursor string, other string").load()
    assert table.rdd.getNumPartitions() == 3
    returned = sorted(table.select("n", "kind", table["at"].cast("double"), "weight", "other").collect())
    assert [tuple(row) for row in returned] == [(n, k, at.timestamp(), w, None) for n, k, at, w in rows[:60]]
    assert len({row._cursor for row in table.select("_cursor").collect()}) == 60
    whole = (
        spark.read.format("tamis").options(**options(broker, "round")).load()
    )  # without a schema: the log's own columns
    assert whole.columns == ["_cursor", "_event_id", "_event", "_subscriptions"]
    assert {row._subscriptions[0] for row in whole.collect()} == {"round"}


def test_a_stream_is_processed_once_though_its_last_batch_runs_again(
    spark: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    """Source and sink are the broker; a commit of Spark's is taken away, as if it had been killed before it."""
    calls = HttpCalls(broker.url)
    calls.subscribe("cooked", "kind = 'cooked'")

    def run() -> None:
        source = spark.readStream.format("tamis").schema("n long, kind string")
        raw = source.options(**options(broker, "raw", filter="kind = 'raw'", maxEventsPerTrigger=20)).load()
        sink = raw.selectExpr("n", "'cooked' AS kind").writeStream.format("tamis").options(url=broker.url)
        sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    calls.subscribe("raw", "kind = 'raw'")
    for part in range(2):
        events = b"\n".join(b'{"kind": "raw", "n": %d}' % n for n in range(30 * part, 30 * part + 30))
        calls.publish_once(events, producer="raw", number=part)
        run()
        wanted = Counter({("cooked", n): 1 for n in range(30 * part + 30)})
        assert logged(broker, "cooked") == wanted
        last = max(
            (path for path in (tmp_path / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
        )
        last.unlink()
        (tmp_path / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
        run()
        assert logged(broker, "cooked") == wanted
    page = calls.read_log("raw", limit=0)
    assert page.acknowledged > page.first  # what Spark has committed was acknowledged


@needs_postgres
def test_a_query_goes_on_when_a_standby_takes_over(spark: Any, postgres: PostgresServer, tmp_path: Path) -> None:
    """Source and sink are one broker with a standby; the process that serves is killed while the query runs."""
    pair = Pair(tmp_path, postgres.url).start()
    calls, url = HttpCalls(pair.urls, patience=HANGS), ",".join(pair.urls)

    def publish(numbers: range) -> None:
        for n in numbers:
            calls.publish_once(b'{"kind": "raw", "n": %d}' % n, producer="raw", number=n)

    try:
        calls.subscribe("cooked", "kind = 'cooked'")
        source = spark.readStream.format("tamis").schema("n long, kind string").option("filter", "kind = 'raw'")
        raw = source.options(url=url, subscription="raw", maxEventsPerTrigger="5").load()
        sink = raw.selectExpr("n", "'cooked' AS kind").writeStream.format("tamis").option("url", url)
        query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            wait_until(lambda: query.lastProgress is not None or query.exception(), "the query")
            publish(range(20))
            wait_until(lambda: logged(calls, "cooked") or query.exception(), "the first rows")
            kill_the_holder(pair)
            publish(range(20, 40))
            wait_until(lambda: len(logged(calls, "cooked")) == 40 or query.exception(), "all rows")
            assert query.exception() is None
            assert logged(calls, "cooked") == Counter({("cooked", n): 1 for n in range(40)})
        finally:
            query.stop()
    finally:
        pair.stop()


def test_offsets_are_cursors_and_the_same_give_the_same_rows(broker: BrokerProcess) -> None:
    calls = HttpCalls(broker.url)
    log = LogOptions.of(options(broker, "same", filter="kind = 'same'", eventsPerPartition=4, maxEventsPerTrigger=7))
    reader = BrokerStreamReader(log, _columns("n"))
    start = reader.initialOffset()
    calls.publish_once(b"\n".join(b'{"kind": "same", "n": %d}' % n for n in range(10)), producer="same", number=0)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end["number"] - start["number"] == 7
    for _ in range(2):
        spans = reader.partitions(start, end)
        numbers = [row["n"] for span in spans for batch in reader.read(span) for row in batch.to_pylist()]
        assert (len(spans), numbers) == (2, [*range(7)])
        reader.commit(end)  # what was acknowledged can be read again
    with pytest.raises(ModelError, match="lost its disk"):
        reader.partitions({"epoch": 1, "number": 0}, end)
    assert reader.partitions(end, end) == []
    with pytest.raises(ModelError, match="created again"):
        reader.partitions(end, start)


def test_a_gap_is_an_error_unless_the_user_says_otherwise(broker: BrokerProcess) -> None:
    calls = HttpCalls(broker.url)
    calls.subscribe("slow", "kind = 'slow'")
    for number, numbers in enumerate((range(1_000), range(1_000, 1_005))):  # 5 more than the backlog that is kept
        lines = b"\n".join(b'{"kind": "slow", "n": %d}' % n for n in numbers)
        calls.publish_once(lines, producer="slow", number=number)
    calls.acknowledge("slow", calls.read_log("slow", limit=0).last)  # caught up: it is told what it missed
    log = LogOptions.of(options(broker, "slow", startingOffsets="earliest"))
    # The gap record is written when the broker next looks.
    wait_until(lambda: log.places()["last"]["number"] >= 1_001, "the record of the gap")
    end = log.places()["last"]
    [span] = log.spans({"epoch": end["epoch"], "number": 995}, end)
    with pytest.raises(ModelError, match="5 events from .* were not kept"):
        list(log.read(span, _columns("n")))
    patient = LogOptions.of(options(broker, "slow", failOnDataLoss="false"))
    assert [row["n"] for batch in patient.read(span, _columns("n")) for row in batch.to_pylist()] == [
        *range(995, 1_000)
    ]


def _columns(*names: str, kind: T.DataType | None = None) -> T.StructType:
    return T.StructType([T.StructField(name, kind or T.LongType()) for name in names])


def _message(**event: Any) -> dict[str, Any]:
    return {"cursor": "1-1", "id": "p:1:1", "event": event, "subscriptions": ["s"]}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (T.LongType(), [(7, 7), (7.0, 7)], [7.5, True, "7x", 2**63]),
        (T.DoubleType(), [(7, 7.0), ("1/4", 0.25)], [True, "x", [1]]),
        (T.StringType(), [("x", "x"), ({"a": 1}, '{"a":1}')], [7, True]),
        (T.BooleanType(), [(True, True)], [1, "true"]),
        (T.TimestampType(), [("1970-01-01T00:00:01Z", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC))], [5, "soon"]),
        (
            T.BinaryType(),
            [("POINT (1 2)", b"\x01\x01\x00\x00\x00" + b"\x00" * 6 + b"\xf0?" + b"\x00" * 7 + b"@")],
            ["P("],
        ),
        (T.ArrayType(T.DoubleType()), [([1, 2.5], [1.0, 2.5])], [7, ["x"]]),
    ],
)
def test_values_fit_their_columns_or_are_named(kind: T.DataType, good: list[Any], bad: list[Any]) -> None:
    columns = _columns("a", kind=kind)
    for value, wanted in good:
        assert batch_of([_message(a=value), _message()], columns).to_pylist() == [{"a": wanted}, {"a": None}]
    for value in bad:
        with pytest.raises(EventError, match="a: .*expected .* in event p:1:1|in event p:1:1"):
            batch_of([_message(a=value)], columns)


def test_rows_that_are_not_events_are_named() -> None:
    for value in (float("nan"), float("inf"), dt.datetime(2026, 1, 1)):
        with pytest.raises(EventError, match="a"):
            event_of({"a": value})
    assert event_of({"a": b"\x01\x01\x00\x00\x00" + b"\x00" * 16, "_cursor": "x"}) == {"a": "POINT (0 0)"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"subscription": "s"}, "option url"),
        ({"url": "http://h"}, "option subscription"),
        ({"url": "http://h", "subscription": "s", "startingOffsets": "5"}, "option startingOffsets"),
        ({"url": "http://h", "subscription": "s", "eventsPerPartition": "0"}, "option eventsPerPartition"),
        ({"url": "http://h", "subscription": "s", "maxEventsPerTrigger": "x"}, "option maxEventsPerTrigger"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        LogOptions.of(options)


def test_a_column_that_no_log_has_is_named() -> None:
    for name, kind in (
        ("_offset", T.StringType()),
        ("_cursor", T.LongType()),
        ("a", T.MapType(T.StringType(), T.LongType())),
    ):
        with pytest.raises(SchemaError, match=name):
            check_columns(_columns(name, kind=kind))


def test_the_python_of_the_page(
    spark: Any,
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "bridges.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    HttpCalls(broker.url).subscribe("alerts", "alert IS NOT NULL")
    placed = block.replace("http://127.0.0.1:8080", broker.url).replace('"checkpoint")', f'"{tmp_path}/checkpoint")')
    exec(compile(placed, "docs/bridges.md", "exec"), {})
    printed = capsys.readouterr().out
    assert '{"mag":6.1,"place":"Alaska"}' in printed
    assert "Fiji" not in printed
    events = [message["event"] for message in HttpCalls(broker.url).read_log("alerts").messages]
    assert sorted(event["text"] for event in events) == ["alert: Alaska", "alert: Chile"]
    for option in re.findall(r"^\| `(\w+)`", page.split("## Snapshots")[0], re.MULTILINE):
        assert f'"{option}"' in (ROOT / "broker/source.py").read_text() + (ROOT / "broker/options.py").read_text()


def test_a_token_is_not_in_what_a_failed_stream_says(spark: Any, tmp_path: Path) -> None:
    """Spark prints the plan of a stream that failed, the options of its sink included."""
    spark.range(1).selectExpr("id AS n").write.parquet(str(tmp_path / "source"))
    stream = spark.readStream.schema("n long").parquet(str(tmp_path / "source"))
    options = {"url": "http://127.0.0.1:9", "token": "confidential-0123", "timeout": "1"}
    writer = stream.writeStream.format("tamis").options(**options, checkpointLocation=str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    message = f"{raised.value} {query.exception()}"
    assert "token" in message
    assert "confidential-0123" not in message
