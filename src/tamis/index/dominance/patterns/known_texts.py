"""Finds strings by their parts: a string that a pattern covers contains the literals that the pattern requires.

Strings are numbered: those that stored components accept, or those that are equated. Each view, an attribute and a
fold, has the numbers under each window of three bytes of their strings. It is made when a pattern first asks by that
view, and extended with the new numbers whenever it is used again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.index.packed.texts.literals import LiteralKey
from tamis.index.protocols import Rows
from tamis.model.text.folding import Fold, fold_text

__all__ = ["KnownTexts"]

_BoolArray = npt.NDArray[np.bool_]
_WINDOW: Final = 3
#: Windows that a question is narrowed by.
_MOST_WINDOWS: Final = 8
_EMPTY: Final = array("i")


class KnownTexts:
    """Strings by attribute for the numbers 0, 1, ...

    >>> texts = KnownTexts()
    >>> texts.append([{"name": "earthquake"}, {"name": "flood"}])
    >>> texts.find([LiteralKey("name", Fold.NONE, b"quake")]).tolist()
    [0]
    """

    def __init__(self) -> None:
        self._texts: list[Mapping[str, str] | None] = []
        self._views: dict[tuple[str, Fold], _View] = {}

    def append(self, texts: Iterable[Mapping[str, str]]) -> None:
        """Add the strings of the next numbers."""
        self._texts += texts

    def remove(self, number: int) -> None:
        """Forget the strings of a number."""
        self._texts[number] = None

    def at(self, number: int) -> Mapping[str, str]:
        """Return the strings of a number; empty if it was removed."""
        return self._texts[number] or {}

    def find(self, keys: Iterable[LiteralKey]) -> Rows | None:
        """Return all numbers whose strings hold all literals, and perhaps others, ascending; None if all are too short.

        Numbers that were removed may be among them.
        """
        lists = sorted((self._list(key, at) for key in keys for at in _places(key)), key=len)
        if not lists:
            return None
        numbers: Rows = np.array(lists[0], np.int32)
        for others in lists[1:_MOST_WINDOWS]:
            numbers = numbers[_are_in(numbers, others)]
        return numbers

    def _list(self, key: LiteralKey, at: int) -> array[int]:
        view = self._views.setdefault((key.attribute, key.fold), _View(key.attribute, key.fold))
        view.read(self._texts)
        return view.lists.get(key.literal[at : at + _WINDOW], _EMPTY)


class _View:
    """Numbers, ascending, by the windows of their strings."""

    def __init__(self, attribute: str, fold: Fold) -> None:
        self._attribute, self._fold = attribute, fold
        self.lists: dict[bytes, array[int]] = {}
        self._n_read = 0

    def read(self, texts: Sequence[Mapping[str, str] | None]) -> None:
        """Read the numbers that were added since the last call."""
        for number in range(self._n_read, len(texts)):
            texts_of_number = texts[number]
            text = texts_of_number.get(self._attribute) if texts_of_number is not None else None
            if text is not None:
                written = fold_text(text, self._fold).encode()
                for window in {written[at : at + _WINDOW] for at in range(len(written) - _WINDOW + 1)}:
                    self.lists.setdefault(window, array("i")).append(number)
        self._n_read = len(texts)


def _places(key: LiteralKey) -> range:
    return range(len(key.literal) - _WINDOW + 1)


def _are_in(numbers: Rows, ascending: array[int]) -> _BoolArray:
    """Return which numbers are in an ascending list, which is not empty unless ``numbers`` are."""
    others = np.array(ascending, np.int32)
    positions = np.minimum(np.searchsorted(others, numbers), max(len(others) - 1, 0))
    return others[positions] == numbers if len(others) else np.zeros(len(numbers), np.bool_)
