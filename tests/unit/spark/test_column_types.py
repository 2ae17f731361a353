"""The columns that JSON lines and CSV are read as: repeated attributes are arrays, and objects stay whole."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

import tamis
from tamis.spark.columns import has_path
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


@pytest.mark.parametrize(
    ("path", "exists"),
    [
        ("price", True),
        ("price.x", False),
        ("prise", False),
        ("detail", True),
        ("detail.state", True),
        ("detail.stat", False),
        ("detail.inner", True),
        ("detail.inner.n", True),
        ("detail.inner.m", False),
        ("detail.labels.any", True),
        ("detail.labels.any.deeper", True),
        ("items.n", True),
        ("raw.any", True),
        ("dotted.name", True),
        ("dotted.nam", False),
        ("det", False),
    ],
)
def test_a_path_is_there_if_events_may_have_it(path: str, exists: bool) -> None:
    inner = T.StructType().add("n", "long")
    detail = T.StructType().add("state", "string").add("inner", inner)
    detail.add("labels", T.MapType(T.StringType(), T.StringType()))
    events = T.StructType().add("price", "double").add("detail", detail).add("items", T.ArrayType(inner))
    events.add("raw", T.VariantType()).add("dotted.name", "string")
    assert has_path(events, path) is exists
