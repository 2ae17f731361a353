"""The types in which Delta and Iceberg tables hold the columns of a DataFrame."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame

from tamis.spark.columns import arrow_form

__all__ = ["stored_form"]


def stored_form(frame: DataFrame) -> pa.Schema:
    """Return the columns of a DataFrame as tables hold them: every value may be null, moments with a zone are in UTC.

    Whether Spark can prove that a value is never null differs from one batch to the next, and the zone is that of the
    session: neither belongs to a table.
    """
    return pa.schema([_stored(field) for field in arrow_form(frame.schema, frame)])


def _stored(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _stored_type(field.type))


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with all zones replaced by UTC, and everything in it optional.

    >>> _stored_type(pa.list_(pa.field("item", pa.timestamp("us", "Europe/Berlin"), nullable=False)))
    ListType(list<item: timestamp[us, tz=UTC]>)
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(_stored(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_stored_type(kind.key_type), _stored(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_stored(field) for field in kind])
    return kind
