"""Literals of at most eight bytes in a hash table: found anywhere in the rows of a column, or at one end of each.

A literal is a number: its bytes, the first one highest, and for fewer than eight bytes a highest byte that no UTF-8
has, which tells the length. To find literals anywhere, each length has a pass over the column: a bitmap says, without a
branch, which windows of that length may be literals; what it lets through is looked up. At an end of a row there is one
window of each length.

The work is bounded whatever a text holds: a position has at most one literal of each length. Literals cannot be chosen
so that they collide, because the factor of the hash depends on all of them (`tamis.index.packed.texts.finders`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, kernel

__all__ = ["LONGEST_WINDOW", "Windows", "enter_literals", "find_at_ends", "scan_windows"]

LONGEST_WINDOW = 8
#: Bytes whose windows are looked at before any is looked up.
_CHUNK = 4096
#: The highest byte of a shorter literal is this, plus its length.
_TAG = 0xF8

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]


class Windows(NamedTuple):
    """The table: ``literals[slot]`` is the number of the literal ``keys[slot]``, or -1; some slots are free.

    ``lengths`` are those of the literals, ``bitmap`` has a bit for each literal. ``hashing`` is the factor of the hash,
    and by how much it is shifted for a slot and for a bit.
    """

    keys: _Keys
    literals: _Ints
    bitmap: npt.NDArray[np.uint32]
    lengths: _Longs
    hashing: _Keys


@hot_kernel
def _hash(key: Int, factor: Int) -> Int:
    return (key ^ key >> np.uint64(29)) * factor


@hot_kernel
def _mask_and_tag(length: Int) -> tuple[Int, Int]:
    """Return which bytes of eight a window of a length has, and what tells its length."""
    if length >= LONGEST_WINDOW:
        return ~np.uint64(0), np.uint64(0)
    return (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1), np.uint64(_TAG + length) << np.uint64(56)


@hot_kernel
def _look_up(windows: Windows, key: Int) -> Int:
    """Return the number of a literal, or -1."""
    slot = _hash(key, windows.hashing[0]) >> windows.hashing[1]
    last = np.uint64(len(windows.keys) - 1)
    while windows.literals[slot] >= 0:
        if windows.keys[slot] == key:
            return np.int64(windows.literals[slot])
        slot = (slot + np.uint64(1)) & last
    return -1


@kernel
def enter_literals(values: _Keys, sizes: _Longs, windows: Windows) -> None:
    """Enter different literals, given as their bytes from the highest byte down, and their lengths."""
    last = np.uint64(len(windows.keys) - 1)
    for i in range(len(values)):
        _, tag = _mask_and_tag(sizes[i])
        key = values[i] >> np.uint64(8 * (LONGEST_WINDOW - sizes[i])) | tag
        hashed = _hash(key, windows.hashing[0])
        slot, bit = hashed >> windows.hashing[1], hashed >> windows.hashing[2]
        while windows.literals[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        windows.keys[slot], windows.literals[slot] = key, i
        windows.bitmap[bit >> np.uint64(5)] |= np.uint32(1) << np.uint32(bit & np.uint64(31))


@hot_kernel
def _candidates(
    text: _Bytes, span: tuple[Int, Int, Int], length: Int, windows: Windows, met: tuple[_Longs, _Keys]
) -> Int:
    """Note where windows end in ``text[start:stop]`` that may be literals, none before ``first``; return how many."""
    first, start, stop = span
    where, keys = met
    mask, tag = _mask_and_tag(length)
    factor, shift, bitmap = windows.hashing[0], windows.hashing[2], windows.bitmap
    key: Int = np.uint64(0)
    for p in range(max(first, start - length + 1), start):
        key = key << np.uint64(8) | np.uint64(text[p])
    n: Int = np.uint64(0)
    for p in range(np.uint64(start), np.uint64(stop)):
        key = key << np.uint64(8) | np.uint64(text[p])
        window = key & mask | tag
        bit = _hash(window, factor) >> shift
        where[n], keys[n] = p, window
        n += np.uint64(bitmap[bit >> np.uint64(5)] >> np.uint32(bit & np.uint64(31)) & np.uint32(1))
    return np.int64(n)


@kernel
def scan_windows(windows: Windows, text: _Bytes, offsets: _Longs, seen: _Ints) -> tuple[_Ints, _Ints]:
    """Return rows and literals of all hits, each once.

    ``offsets`` int64[n + 1] are positions in ``text``; ``seen`` int32[literals] holds -1 before and after.
    """
    rows, literals, n = np.empty(4096, np.int32), np.empty(4096, np.int32), 0
    met = np.empty(_CHUNK + 1, np.int64), np.empty(_CHUNK + 1, np.uint64)
    first, last, first_row = offsets[0], offsets[-1], 0
    for start in range(first, last, _CHUNK):
        stop = min(start + _CHUNK, last)
        while offsets[first_row + 1] <= start:
            first_row += 1
        for length in windows.lengths:
            row = first_row
            for c in range(_candidates(text, (first, start, stop), length, windows, met)):
                literal = _look_up(windows, met[1][c])
                if literal < 0:
                    continue
                while offsets[row + 1] <= met[0][c]:
                    row += 1
                if seen[literal] == row or met[0][c] - length + 1 < offsets[row]:
                    continue
                if n == len(rows):
                    rows, literals = np.append(rows, rows), np.append(literals, literals)
                seen[literal] = row
                rows[n], literals[n] = row, literal
                n += 1
    for h in range(n):
        seen[literals[h]] = -1
    return rows[:n], literals[:n]


@kernel
def find_at_ends(windows: Windows, text: _Bytes, offsets: _Longs, at_start: bool) -> tuple[_Ints, _Ints]:
    """Return rows and literals of all rows that start or end with a literal, each once."""
    rows, literals, n = np.empty(4096, np.int32), np.empty(4096, np.int32), 0
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        for length in windows.lengths:
            if stop - start < length:
                break
            _, tag = _mask_and_tag(length)
            key: Int = np.uint64(0)
            begin = start if at_start else stop - length
            for p in range(begin, begin + length):
                key = key << np.uint64(8) | np.uint64(text[p])
            literal = _look_up(windows, key | tag)
            if literal >= 0:
                if n == len(rows):
                    rows, literals = np.append(rows, rows), np.append(literals, literals)
                rows[n], literals[n] = row, literal
                n += 1
    return rows[:n], literals[:n]
