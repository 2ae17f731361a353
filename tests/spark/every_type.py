"""A value of every type, written to a table and read again."""

from __future__ import annotations

from typing import Any

from tamis.spark import read_events, write_rows

EVERY_TYPE = (
    "SELECT 1L AS event_id, 2 AS small, 0.5D AS part, 1.25BD AS money, true AS yes, X'00ff' AS raw, "
    "DATE'2024-02-29' AS day, TIMESTAMP'2024-02-29 12:00:00' AS at, TIMESTAMP_NTZ'2024-02-29 12:00:00' AS wall, "
    "array('a', NULL) AS tags, array(1, 2) AS numbers, map('k', 'v') AS labels, "
    "named_struct('x', 1, 'at', TIMESTAMP'2024-01-01 00:00:00') AS inside"
)
#: The same columns; but where Spark could prove that there is no null it cannot, and the other way round.
OTHER_NULLS = EVERY_TYPE.replace("array('a', NULL)", "array('a', 'b')").replace("array(1, 2)", "array(1, NULL)")


def check_every_type(spark: Any, format: str, target: str) -> None:
    """Write two batches in a session whose zone is not UTC, while tables have moments with a zone in UTC only."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        made = spark.sql(EVERY_TYPE)
        write_rows(made, format, target, query="q", batch=0)
        back = read_events(spark, target, format).rows
        assert [tuple(row) for row in back.collect()] == [tuple(row) for row in made.collect()]
        kinds, expected = ([field.dataType.simpleString() for field in frame.schema] for frame in (back, made))
        assert kinds == expected
        write_rows(spark.sql(OTHER_NULLS), format, target, query="q", batch=1)
        rows = read_events(spark, target, format).rows.collect()
        assert sorted((row.tags, row.numbers) for row in rows if None not in row.tags) == [(["a", "b"], [1, None])]
        assert len(rows) == 2
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
