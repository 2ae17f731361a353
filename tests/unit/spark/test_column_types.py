"""The columns that JSON lines and CSV are read as: repeated attributes are arrays, and objects stay whole."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

import tamis
from tamis.spark.sources.text_formats import _form

_NONE = T.StructType([])
_SEEN = T.StructType(
    [
        T.StructField("detail", T.StructType([T.StructField("state", T.StringType())])),
        T.StructField("tags", T.ArrayType(T.StringType())),
        T.StructField("sizes", T.ArrayType(T.LongType())),
    ]
)


def form(attributes: dict[str, tamis.AttributeType]) -> dict[str, str]:
    read = _form("events.jsonl", _SEEN, tamis.Schema(attributes), _NONE, extend=True)
    return {field.name: field.dataType.simpleString() for field in read}


def test_a_repeated_attribute_is_an_array_and_a_path_leaves_its_object_whole() -> None:
    kinds = {"tags": tamis.Many(tamis.String()), "sizes": tamis.Many(tamis.Number()), "detail.state": tamis.String()}
    assert form(kinds) == {"detail": "struct<state:string>", "tags": "array<string>", "sizes": "array<bigint>"}


def test_an_attribute_that_no_record_has_gets_a_column() -> None:
    kinds = {"more": tamis.Many(tamis.Number()), "other.name": tamis.String()}
    assert form(kinds).items() >= {"more": "array<double>", "other.name": "string"}.items()


def test_a_set_of_several_types_is_refused_by_name() -> None:
    with pytest.raises(tamis.SchemaError, match=r"'bag'.*Spark has no column of values of several types"):
        form({"bag": tamis.Many(tamis.Mixed())})
