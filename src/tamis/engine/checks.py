"""What comes with a subscription besides its filter: a namespace, metadata, an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tamis.errors import ModelError
from tamis.model.values import UnfitError, moment

__all__ = ["check_words", "checked_moment"]


def check_words(namespace: object, metadata: Mapping[Any, Any]) -> None:
    """Refuse what could be kept but not saved."""
    if not isinstance(namespace, str):
        raise ModelError(f"a namespace is a string, not {namespace!r}")
    if not isinstance(metadata, Mapping) or not all(isinstance(one, str) for pair in metadata.items() for one in pair):
        raise ModelError(f"metadata is a mapping from strings to strings, not {metadata!r}")


def checked_moment(value: object) -> int:
    """Return the end of a subscription in microseconds UTC, or raise `ModelError`."""
    try:
        return moment(value)
    except UnfitError as error:
        raise ModelError(f"expires: {error}") from None
