"""The strings of events as kernels read them: a *view* is the text of an attribute, folded or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis.kernels.text.propose import Strings
from tamis.model.columns import Column
from tamis.model.schema import Event
from tamis.model.tables import EventTable
from tamis.model.text.folding import Fold, fold_text
from tamis.model.types import String

__all__ = ["View", "strings_of_event", "strings_of_table"]

#: An attribute, and what is ignored in its text.
View = tuple[str, Fold]

_Bytes = npt.NDArray[np.uint8]
_Longs = npt.NDArray[np.int64]
#: The bytes of all strings, offsets int64[n + 1] into them, and which rows have a string.
_Laid = tuple[_Bytes, _Longs, npt.NDArray[np.bool_]]


def strings_of_table(events: EventTable, views: Sequence[View]) -> Strings:
    """Return the strings of a table; a missing value is not present in any view."""
    raw = {name: _raw(events.columns.get(name), len(events)) for name, _ in views}
    return _joined([_folded(raw[name], fold) for name, fold in views], len(events))


def strings_of_event(event: Event, views: Sequence[View]) -> Strings:
    """Return the strings of one event."""
    text = bytearray()
    offsets, present = np.zeros((max(1, len(views)), 2), np.int64), np.zeros((max(1, len(views)), 1), np.bool_)
    for number, (name, fold) in enumerate(views):
        value = event.get(name)
        if isinstance(value, str):  # of the hundreds of fields that a set of rules may name, an event has a dozen
            start = len(text)
            text += fold_text(value, fold).encode()
            offsets[number], present[number] = (start, len(text)), True
    return Strings(np.frombuffer(text, np.uint8), offsets, present)


def _raw(column: Column | None, n: int) -> _Laid:
    if column is None or not isinstance(column.kind, String) or not n:
        return np.zeros(0, np.uint8), np.zeros(n + 1, np.int64), np.zeros(n, np.bool_)
    _, offsets, data = column.values.buffers()
    start = column.values.offset
    used_offsets = np.frombuffer(offsets, np.int64)[start : start + n + 1]
    return np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), used_offsets, column.present


def _folded(laid: _Laid, fold: Fold) -> _Laid:
    text, offsets, present = laid
    if not fold:
        return laid
    used = text[offsets[0] : offsets[-1]].tobytes()
    if used.isascii():
        return np.frombuffer(used.lower() if fold & Fold.CASE else used, np.uint8), offsets - offsets[0], present
    strings = pa.LargeStringArray.from_buffers(len(present), pa.py_buffer(offsets), pa.py_buffer(text)).to_pylist()
    pairs = zip(strings, present, strict=True)
    folded = [fold_text(string, fold).encode() if is_present else b"" for string, is_present in pairs]
    lengths = np.fromiter(map(len, folded), np.int64, len(folded))
    return np.frombuffer(b"".join(folded), np.uint8), np.concatenate(([0], np.cumsum(lengths))), present


def _joined(views: Sequence[_Laid], n: int) -> Strings:
    """Lay all views out in one array of bytes."""
    offsets, present = np.zeros((max(1, len(views)), n + 1), np.int64), np.zeros((max(1, len(views)), n), np.bool_)
    texts = [np.zeros(0, np.uint8)]
    start = 0
    for number, (text, view_offsets, view_present) in enumerate(views):
        texts.append(text[view_offsets[0] : view_offsets[-1]])
        offsets[number] = view_offsets - view_offsets[0] + start
        present[number] = view_present
        start = int(offsets[number, -1])
    return Strings(np.concatenate(texts), offsets, present)
