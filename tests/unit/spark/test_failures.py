"""What is said when Spark's Python processes fail."""

from __future__ import annotations

import pytest
from pyspark.errors import PythonException

import tamis
from tamis.spark.running.failures import explaining_workers


def test_workers_without_tamis_are_told_what_to_do() -> None:
    text = "Traceback ...\nModuleNotFoundError: No module named 'tamis'\n"
    with pytest.raises(tamis.TamisError, match="set PYSPARK_PYTHON"), explaining_workers():
        raise PythonException(text)


def test_other_failures_of_workers_stay_as_they_are() -> None:
    with pytest.raises(PythonException, match="division by zero"), explaining_workers():
        raise PythonException("ZeroDivisionError: division by zero")
