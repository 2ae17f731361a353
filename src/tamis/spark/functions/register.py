"""Register the functions of SQL in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tamis.spark.columns import arrow_function
from tamis.spark.functions import evaluating

__all__ = ["FUNCTIONS", "register_functions"]

#: Name, function of the workers, type of the answer.
FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "tamis_matches": (evaluating.matches_of, "boolean"),
    "tamis_explain": (evaluating.explanation_of, "string"),
    "tamis_covers": (evaluating.covers_of, "boolean"),
    "tamis_relation": (evaluating.relation_of, "string"),
    "tamis_hilbert_key": (evaluating.hilbert_keys_of, "bigint"),
    "tamis_ranges": (evaluating.ranges_of, "array<struct<first: bigint, last: bigint>>"),
}


def register_functions(spark: SparkSession) -> list[str]:
    """Make the functions known to a session, classic or Connect, and return their names.

    ``tamis_matches(filter, struct)``, ``tamis_explain(filter, struct)``, ``tamis_covers(filter, filter)``,
    ``tamis_relation(region, region)`` for WKB or WKT, ``tamis_hilbert_key(cell, bits)`` and
    ``tamis_ranges(low, high, bits)`` for arrays of whole numbers. A null argument gives null.
    """
    for name, (function, kind) in FUNCTIONS.items():
        spark.udf.register(name, arrow_function(function, kind))
    return list(FUNCTIONS)
