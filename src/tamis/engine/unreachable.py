"""Finds nested objects of events that no attribute refers to; they can never match, so each causes one warning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tamis.errors import shorten
from tamis.model.schema import Schema

__all__ = ["Unreachable"]

#: Largest number of names to remember; events may have any number of them.
_MOST = 256


class Unreachable:
    """The names of nested objects in events that no path of the schema begins with."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def look(self, event: Mapping[str, Any], schema: Schema) -> None:
        """Warn about each nested object that is seen for the first time and that no attribute refers to."""
        if dict not in map(type, event.values()) or len(self.names) >= _MOST:
            return
        for name, value in event.items():
            if type(value) is not dict or name in schema or name in self.names:
                continue
            if any(path.startswith(f"{name}.") for path in schema.paths):
                continue
            self.names[name] = None
            inside = next((key for key in value if isinstance(key, str)), "...")
            warnings.warn(
                f"the nested object {shorten(name)} is not matched: no attribute of the schema reaches into it; "
                f"declare one such as {f'{name}.{inside}'!r}",
                UserWarning,
                stacklevel=4,
            )
