"""What Spark throws, and the line in it that a reader needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tamis.errors import SchemaError, TamisError

__all__ = ["SPARK_ERRORS", "explaining_schema", "explaining_workers", "last_words", "unfit_schema"]

#: What a call to Spark may raise: its own errors, and those of the bridge to Java where it knows no better.
SPARK_ERRORS = (PySparkException, Py4JError)

_MESSAGE = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)*[\w$]+(?:Error|Exception): (.*)")


def last_words(error: Exception) -> str:
    r"""Return the line of a long story that tells what happened: the last cause of Java, or a worker's own error.

    >>> last_words(ValueError("failed: x\n\tat a.b\nCaused by: java.lang.RuntimeException: e.parquet is not a file"))
    'e.parquet is not a file'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [message[1] for line in lines if (message := _MESSAGE.fullmatch(line)) and message[1]]
    return causes[-1] if causes else (lines or [type(error).__name__])[0]


@contextmanager
def explaining_workers() -> Iterator[None]:
    """Say what to do when the Python processes of Spark do not have tamis."""
    try:
        yield
    except PySparkException as error:
        if "No module named 'tamis'" not in str(error):
            raise
        raise TamisError(
            "Spark's Python workers cannot import tamis. On one machine, set PYSPARK_PYTHON to the Python that has it "
            "before the session starts, or create the session with tamis.spark.session(); on a cluster, install tamis "
            "on every executor (docs/spark.md, Where Spark runs)."
        ) from None


@contextmanager
def explaining_schema() -> Iterator[None]:
    """Say why accepted subscriptions do not fit the schema of a call: a worker could not read one of them."""
    try:
        yield
    except SPARK_ERRORS as error:
        unreadable = re.search(r"tamis\.errors\.SubscriptionError: (.*)", str(error))
        if unreadable is None:
            raise
        raise unfit_schema(unreadable[1]) from None


def unfit_schema(problem: str) -> SchemaError:
    """Return the error for a schema that is not that of the accepted subscriptions."""
    hint = "give the schema with which they were compiled"
    return SchemaError("", f"the schema does not fit the accepted subscriptions: {problem}; {hint}")
