"""Decides whether a filter can be written in the language; the result of a merge must be as writable as its parts."""

from __future__ import annotations

from tamis.errors import LimitError, SubscriptionError
from tamis.model.language.parse import parse
from tamis.model.language.unbind import format_filters
from tamis.model.schema import Schema
from tamis.model.subscription import Filter

__all__ = ["is_writable", "written"]

#: Text that is short enough to keep every limit of the language.
SHORT = 2_000


def written(filters: tuple[Filter, ...], schema: Schema) -> str | None:
    """Return text that reads back as these filters; None when it would be beyond a limit of the language."""
    try:
        text = format_filters(filters, schema)
        if len(text) > SHORT:
            parse(text)
    except (LimitError, SubscriptionError):  # too large, or a long decimal, which is not a literal
        return None
    return text


def is_writable(filter: Filter, schema: Schema) -> bool:
    """Whether a filter can be written within the limits of the language.

    >>> from tamis.model.language.compiler import compile_text
    >>> is_writable(compile_text("x < 1").filters[0], Schema())
    True
    """
    return written((filter,), schema) is not None
