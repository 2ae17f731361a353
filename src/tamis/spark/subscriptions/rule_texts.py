"""Inside the workers: compiles the texts of rules. A worker keeps compiled shapes from one stage to the next."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tamis.algebra.compiling_texts import TextReader
from tamis.model.derived.functions import find_function, function_names
from tamis.model.schema import Schema
from tamis.model.subscription import Filter

__all__ = ["filters_of", "reader_of"]

#: Schemas whose readers are kept.
_KEPT = 2

#: A reader serves one thread, and in a driver several streams may compile rules at once.
_of_thread = threading.local()


def reader_of(schema: str) -> TextReader:
    """Return the reader of this thread for a schema, given as JSON.

    It knows the shapes of the rules that were checked, indexed, tiled or reduced here before. Another function under
    the same name makes another reader.
    """
    readers: dict[object, tuple[TextReader, list[object]]] = _of_thread.__dict__.setdefault("readers", {})
    functions: list[object] = [find_function(name) for name in function_names()]
    key = (
        schema,
        *map(id, functions),
    )  # not every callable has a hash; kept functions keep their ids
    if key not in readers:
        while len(readers) >= _KEPT:
            readers.pop(next(iter(readers)))
        readers[key] = TextReader(Schema.from_json(schema)), functions
    return readers[key][0]


def filters_of(texts: Sequence[str], reader: TextReader) -> list[tuple[Filter, ...]]:
    """Return the filters of accepted texts."""
    compiled = reader.read(texts, columns=False)
    if compiled.bad is not None:
        raise compiled.bad.error
    return [filters for _, filters in compiled.others]
