"""Converts the cells of a CSV column to numbers or booleans, or leaves them as text.

The type of a column comes from a schema, from the literals of the filters, or else from the cells of the first
batch. A cell that cannot be converted to its column's type stays text, so that the engine refuses only that row.
Digits with leading zeros (``00123``) are a code and not a number, unless a filter uses the column as a number.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tamis.model.types import AttributeType
from tamis.model.types.registry import type_of_cells

__all__ = ["learned_kind", "typed_column", "typed_value"]


def learned_kind(texts: pa.Array) -> AttributeType | None:
    """Return the type that all cells of a column can be read as; None when there is nothing to read yet.

    >>> learned_kind(pa.array(["1", None, "2.5"])), learned_kind(pa.array(["007"]))
    (Number(lo=None, hi=None), String(coerce=False))
    """
    return None if texts.null_count == len(texts) else type_of_cells(pc.utf8_trim_whitespace(texts))


def typed_column(texts: pa.Array, kind: AttributeType) -> Any:
    """Return the cells as an Arrow array of their type, or as a list in which the misfits are text."""
    return kind.from_cells(texts)


def typed_value(text: str | None, kind: AttributeType) -> object:
    """Return the value of one cell, the text itself when it does not fit.

    >>> from tamis.model.types import Boolean, Number
    >>> typed_value("1e999", Number()), typed_value("TRUE", Boolean())
    ('1e999', True)
    """
    return None if text is None else kind.from_cell(text)
