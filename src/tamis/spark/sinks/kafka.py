"""Kafka through Spark's own connector, whose jar a session brings (``spark.jars.packages``); PyPI has none.

Each row becomes a message: the value is the row as JSON, the key its subscription_id. Kafka keeps no batch apart: a
batch that runs again is sent again, so the headers ``query`` and ``batch`` let a consumer drop what it has.
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tamis.errors import ModelError
from tamis.spark.sinks.protocol import BatchKey

__all__ = ["Kafka", "messages"]

_TARGET = re.compile(r"(?P<servers>[^/\s]+:\d+(,[^/\s]+:\d+)*)/(?P<topic>[A-Za-z0-9._-]{1,249})")


class Kafka:
    """The target is ``host:port[,host:port]/topic``."""

    def resolve(self, target: str) -> str:
        """Return the target; refuse one of another form."""
        _split(target)
        return target

    def replace(self, frame: DataFrame, target: str) -> None:
        """Refuse: a topic is added to."""
        raise ModelError(f"{target}: a topic cannot be replaced; Kafka is a sink for streams")

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Send the rows of a batch; at least once."""
        servers, topic = _split(target)
        options = {"kafka.bootstrap.servers": servers, "topic": topic, "includeHeaders": "true"}
        messages(frame, batch).write.format("kafka").options(**options).save()


def messages(frame: DataFrame, batch: BatchKey) -> DataFrame:
    """Return the rows as the connector takes them: key, value, headers."""
    key = F.col("subscription_id").cast("string") if "subscription_id" in frame.columns else F.lit(None).cast("string")
    batch_key = {"query": batch.query, "batch": str(batch.number)}
    headers = [
        F.struct(F.lit(name).alias("key"), F.lit(value).cast("binary").alias("value"))
        for name, value in batch_key.items()
    ]
    return frame.select(key.alias("key"), F.to_json(F.struct("*")).alias("value"), F.array(*headers).alias("headers"))


def _split(target: str) -> tuple[str, str]:
    match = _TARGET.fullmatch(target)
    if match is None:
        raise ModelError(f"{target!r} is not host:port/topic, with several brokers host:port,host:port/topic")
    return match["servers"], match["topic"]
