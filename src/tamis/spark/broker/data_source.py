"""The format ``tamis``: a broker as a source and as a sink of Spark.

>>> register_broker(spark)  # doctest: +SKIP
>>> stream = (  # doctest: +SKIP
...     spark.readStream.format("tamis")
...     .schema("mag double, place string")
...     .option("url", "http://127.0.0.1:8080")
...     .option("subscription", "strong")
...     .option("filter", "mag >= 5")
...     .load()
... )
"""

from __future__ import annotations

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from tamis.errors import ModelError

__all__ = ["BrokerDataSource", "register_broker"]


def register_broker(spark: SparkSession) -> None:
    """Teach a session the format ``tamis``; `tamis.spark.session` has done so already. Needs PySpark 4.2."""
    spark.dataSource.register(BrokerDataSource)


class BrokerDataSource(DataSource):
    """What Spark asks for by ``format("tamis")``; it travels pickled to wherever Spark runs Python."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tamis"

    def schema(self) -> T.StructType:
        """Return the columns when the user names none."""
        from tamis.spark.broker.rows import LOG_COLUMNS

        return LOG_COLUMNS

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """Read a log as a table."""
        _demand_version()
        from tamis.spark.broker.source import BrokerReader, LogOptions

        return BrokerReader(LogOptions.of(self.options), schema)

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:
        """Read a log as a stream."""
        _demand_version()
        from tamis.spark.broker.source import BrokerStreamReader, LogOptions

        return BrokerStreamReader(LogOptions.of(self.options), schema)

    def writer(self, schema: T.StructType, overwrite: bool) -> DataSourceWriter:
        """Publish a table."""
        _demand_version()
        from tamis.spark.broker.options import calls_of
        from tamis.spark.broker.sink import BrokerWriter

        if overwrite:
            raise ModelError("events cannot be overwritten: use mode('append')")
        return BrokerWriter(calls_of(self.options))

    def streamWriter(self, schema: T.StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Publish a stream."""
        _demand_version()
        from tamis.spark.broker.options import calls_of
        from tamis.spark.broker.sink import BrokerStreamWriter

        if overwrite:
            raise ModelError("events cannot be overwritten: use outputMode('append')")
        return BrokerStreamWriter(calls_of(self.options))


def _demand_version() -> None:
    """Raise `ModelError` where Spark's Python sources cannot do what is needed; parts are imported after that."""
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2):
        raise ModelError(f"the format tamis needs PySpark 4.2 or newer, this is {pyspark.__version__}")
