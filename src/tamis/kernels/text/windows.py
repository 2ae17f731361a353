"""Literals of at most eight bytes in a hash table: found anywhere in the rows of a column, or at one end of each.

A literal is a number: its bytes, the first one highest, and for fewer than eight bytes a highest byte that UTF-8
does not use, which encodes the length. To find literals anywhere, a bitmap tells for each position, without a branch,
whether a literal may end there. One pass over the column tests the *gram*, the last bytes of each longer literal; one
more pass for each length below that of a gram tests the whole literal. Positions that pass are looked up, once for each
length. At an end of a row there is one window of each length.

The work is bounded for every text: a position has at most one literal of each length. Literals cannot be chosen so that
they collide, because the factor of the hash depends on all of them (`tamis.index.packed.texts.finders`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, kernel

__all__ = ["LONGEST_WINDOW", "Windows", "enter_literals", "find_at_ends", "scan_windows"]

LONGEST_WINDOW = 8
#: Bytes whose windows are tested in the bitmap before any is looked up.
_CHUNK = 4096
#: The highest byte of a shorter literal is this, plus its length.
_TAG = 0xF8

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]


class Windows(NamedTuple):
    """The table: ``literals[slot]`` is the number of the literal ``keys[slot]``, or -1; some slots are free.

    ``lengths`` are those of the literals, ascending, ``gram`` is the length of a gram. ``bitmap`` has a bit for each
    literal and for the gram of each literal that is not shorter. ``hashing`` has the factor of the hash, and its shifts
    for a slot and for a bit.
    """

    keys: _Keys
    literals: _Ints
    bitmap: npt.NDArray[np.uint32]
    lengths: _Longs
    hashing: _Keys
    gram: int


@hot_kernel
def _hash(key: Int, factor: Int) -> Int:
    return (key ^ key >> np.uint64(29)) * factor


@hot_kernel
def _mask_and_tag(length: Int) -> tuple[Int, Int]:
    """Return the mask of the bytes of a window of a length, and the tag that encodes the length."""
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


@hot_kernel
def _has_bit(windows: Windows, key: Int) -> Int:
    bit = _hash(key, windows.hashing[0]) >> windows.hashing[2]
    return windows.bitmap[bit >> np.uint64(5)] >> np.uint32(bit & np.uint64(31)) & np.uint32(1)


@hot_kernel
def _set_bit(windows: Windows, key: Int) -> None:
    bit = _hash(key, windows.hashing[0]) >> windows.hashing[2]
    windows.bitmap[bit >> np.uint64(5)] |= np.uint32(1) << np.uint32(bit & np.uint64(31))


@kernel
def enter_literals(values: _Keys, sizes: _Longs, windows: Windows) -> None:
    """Insert distinct literals, given as their bytes from the highest byte down, and their lengths."""
    last = np.uint64(len(windows.keys) - 1)
    gram_mask, gram_tag = _mask_and_tag(windows.gram)
    for i in range(len(values)):
        _, tag = _mask_and_tag(sizes[i])
        key = values[i] >> np.uint64(8 * (LONGEST_WINDOW - sizes[i])) | tag
        slot = _hash(key, windows.hashing[0]) >> windows.hashing[1]
        while windows.literals[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        windows.keys[slot], windows.literals[slot] = key, i
        _set_bit(windows, key)
        if sizes[i] >= windows.gram:
            _set_bit(windows, key & gram_mask | gram_tag)


@hot_kernel
def _candidates(
    text: _Bytes, span: tuple[Int, Int, Int], length: Int, windows: Windows, out: tuple[_Longs, _Keys]
) -> Int:
    """Write to ``out`` where in ``text[start:stop]`` a literal may end, by a window of a length; return how many.

    Each position comes with the eight bytes that end there, none of them before ``first``.
    """
    first, start, stop = span
    positions, keys = out
    mask, tag = _mask_and_tag(length)
    factor, shift, bitmap = windows.hashing[0], windows.hashing[2], windows.bitmap
    key: Int = np.uint64(0)
    for p in range(max(first, start - LONGEST_WINDOW + 1), start):
        key = key << np.uint64(8) | np.uint64(text[p])
    n: Int = np.uint64(0)
    for p in range(np.uint64(start), np.uint64(stop)):
        key = key << np.uint64(8) | np.uint64(text[p])
        bit = _hash(key & mask | tag, factor) >> shift
        positions[n], keys[n] = p, key
        n += np.uint64(bitmap[bit >> np.uint64(5)] >> np.uint32(bit & np.uint64(31)) & np.uint32(1))
    return np.int64(n)


@kernel
def scan_windows(windows: Windows, text: _Bytes, offsets: _Longs, seen: _Ints) -> tuple[_Ints, _Ints]:
    """Return rows and literals of all hits, each once.

    ``offsets`` int64[n + 1] are positions in ``text``; ``seen`` int32[literals] holds -1 before and after.
    """
    rows, literals, n = np.empty(4096, np.int32), np.empty(4096, np.int32), 0
    candidates = np.empty(_CHUNK + 1, np.int64), np.empty(_CHUNK + 1, np.uint64)
    first, last, first_row = offsets[0], offsets[-1], 0
    short = int(np.searchsorted(windows.lengths, windows.gram))
    for start in range(first, last, _CHUNK):
        stop = min(start + _CHUNK, last)
        while offsets[first_row + 1] <= start:
            first_row += 1
        for i in range(min(short + 1, len(windows.lengths))):
            lengths = windows.lengths[i : i + 1] if i < short else windows.lengths[short:]
            row, window = first_row, lengths[0] if i < short else windows.gram
            for c in range(_candidates(text, (first, start, stop), window, windows, candidates)):
                end, key = candidates[0][c], candidates[1][c]
                while offsets[row + 1] <= end:
                    row += 1
                if n + LONGEST_WINDOW > len(rows):
                    rows, literals = np.append(rows, rows), np.append(literals, literals)
                for length in lengths:
                    if end - length + 1 < offsets[row]:
                        break
                    mask, tag = _mask_and_tag(length)
                    literal = _look_up(windows, key & mask | tag) if _has_bit(windows, key & mask | tag) else -1
                    if literal >= 0 and seen[literal] != row:
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
