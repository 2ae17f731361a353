"""Finders: which of many literals are in which rows of a column, or at one end of them; one class for each way."""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tamis.index.packed.texts.literals import Anchor
from tamis.kernels.text.automaton import Automaton, build_automaton
from tamis.kernels.text.scan import LANES, scan_rows
from tamis.kernels.text.windows import LONGEST_WINDOW, Windows, enter_literals, find_at_ends, scan_windows

__all__ = ["Finder", "Literals", "finder_of"]

_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
#: Rows and literals of hits.
_Hits = tuple[_Ints, _Ints]

#: Literals up to which an automaton is faster than windows, and small enough: it takes some 600 bytes for each.
MOST_IN_AUTOMATON: Final = 256


#: Bytes of a literal that are asked for first, and those of more literals: words of many languages share four bytes.
_GRAM: Final = 4
_LONG_GRAM: Final = 6
_MOST_GRAMS: Final = 50_000


class Literals(NamedTuple):
    """Different literals in the order of their bytes: each as a number, its first byte highest, and its length."""

    values: npt.NDArray[np.uint64]
    sizes: _Longs


class Finder(Protocol):
    """Finds literals in the rows ``text[offsets[i]:offsets[i + 1]]``."""

    def find(self, text: _Bytes, offsets: _Longs) -> _Hits:
        """Return rows and literals of all hits; one may come twice."""

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""


def finder_of(literals: Literals, anchor: Anchor) -> Finder:
    """Return what finds literals best."""
    if anchor is not Anchor.NONE:
        return _EndFinder(literals, at_start=anchor is Anchor.START)
    return _AutomatonFinder(literals) if len(literals.values) <= MOST_IN_AUTOMATON else _WindowFinder(literals)


class _AutomatonFinder:
    def __init__(self, literals: Literals) -> None:
        self._automaton = automaton_of(literals)
        #: Scratch of `scan_rows`, one for each reader that is at work.
        self._scratch: list[_Ints] = []

    def find(self, text: _Bytes, offsets: _Longs) -> _Hits:
        seen = _taken(self._scratch, (LANES, len(self._automaton.sizes)))
        hits = scan_rows(self._automaton, text, offsets, seen)
        self._scratch.append(seen)
        return hits

    @property
    def n_bytes(self) -> int:
        return _bytes_of(self._automaton)


class _WindowFinder:
    def __init__(self, literals: Literals) -> None:
        self._windows, self._n_literals = windows_of(literals), len(literals.values)
        self._scratch: list[_Ints] = []

    def find(self, text: _Bytes, offsets: _Longs) -> _Hits:
        seen = _taken(self._scratch, (self._n_literals,))
        hits = scan_windows(self._windows, text, offsets, seen)
        self._scratch.append(seen)
        return hits

    @property
    def n_bytes(self) -> int:
        return _bytes_of(self._windows)


class _EndFinder:
    def __init__(self, literals: Literals, *, at_start: bool) -> None:
        self._windows, self._at_start = windows_of(literals), at_start

    def find(self, text: _Bytes, offsets: _Longs) -> _Hits:
        return find_at_ends(self._windows, text, offsets, self._at_start)

    @property
    def n_bytes(self) -> int:
        return _bytes_of(self._windows)


def _taken(scratch: list[_Ints], shape: tuple[int, ...]) -> _Ints:
    """Return scratch that no other reader has, all -1."""
    try:
        return scratch.pop()
    except IndexError:
        return np.full(shape, -1, np.int32)


def _bytes_of(arrays: tuple[Any, ...]) -> int:
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def windows_of(literals: Literals) -> Windows:
    """Return the hash table of literals, two thirds full at most.

    The factor of its hash is a digest of all literals: a set whose members collide cannot be made on purpose.
    """
    n = len(literals.values)
    digest = hashlib.blake2b(literals.values.tobytes() + literals.sizes.tobytes(), digest_size=8).digest()
    slot_bits, map_bits = (3 * n // 2).bit_length(), max(15, min(18, (128 * n).bit_length()), (16 * n).bit_length())
    factor = int.from_bytes(digest, "little") | 1
    windows = Windows(
        np.zeros(1 << slot_bits, np.uint64),
        np.full(1 << slot_bits, -1, np.int32),
        np.zeros(1 << map_bits - 5, np.uint32),
        np.unique(literals.sizes),
        np.array([factor, 64 - slot_bits, 64 - map_bits], np.uint64),
        _GRAM if n <= _MOST_GRAMS else _LONG_GRAM,
    )
    enter_literals(literals.values, literals.sizes, windows)
    return windows


def automaton_of(literals: Literals) -> Automaton:
    """Return the automaton of literals."""
    padded = literals.values.astype(">u8").view(np.uint8).reshape(-1, LONGEST_WINDOW)
    text = padded[np.arange(LONGEST_WINDOW) < literals.sizes[:, None]]
    used = np.unique(text)
    classes = np.zeros(256, np.uint8)
    classes[used] = np.arange(1, len(used) + 1)
    width = len(used) + 1
    at = np.concatenate((np.zeros(1, np.int64), np.cumsum(literals.sizes)))
    table, own, link = build_automaton(at, text, classes, width)
    return Automaton(classes, table, own, link, literals.sizes, width, int(literals.sizes.max()))
