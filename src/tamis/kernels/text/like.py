"""Whether bytes fit a LIKE pattern, in linear time.

A pattern is a *program*: its UTF-8 bytes, with 0xFE for ``%`` and 0xFF for ``_``, neither of which occurs in UTF-8. The
pieces between ``%`` are as in `tamis.model.pattern`: the first and the last are anchored, each other one is found as
early as possible. A piece is searched for by two of its bytes, at many positions at once, while that is cheap, then by
shift-and with a bit per byte, so a piece between two ``%`` has at most `LONGEST_PIECE` bytes. The two bytes are not the
outermost: those of words are often blanks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel

__all__ = ["ANY_TEXT", "LONGEST_PIECE", "ONE_CHARACTER", "fits_like"]

ANY_TEXT, ONE_CHARACTER = 0xFE, 0xFF
LONGEST_PIECE = 64
#: Positions that are tested together.
_BLOCK = 32

_Bytes = npt.NDArray[np.uint8]
_Masks = npt.NDArray[np.uint64]


@hot_kernel
def _fits_at(program: _Bytes, i: Int, end: Int, text: _Bytes, j: Int, stop: Int) -> Int:
    """Return where the piece ``program[i:end]`` ends that starts at ``text[j]``, or -1."""
    while i < end:
        if j >= stop or (program[i] != ONE_CHARACTER and program[i] != text[j]):
            return -1
        j += 1
        if program[i] == ONE_CHARACTER:
            while j < stop and text[j] & 0xC0 == 0x80:
                j += 1
        i += 1
    return j


@hot_kernel
def _shift_and(program: _Bytes, i: Int, end: Int, text: _Bytes, j: Int, stop: Int, masks: _Masks) -> Int:
    """Return the earliest end of a fit of the piece in ``text[j:stop]``, or -1; ``masks`` are 256 zeros."""
    wild, fit_end = np.uint64(0), -1
    state: Int = np.uint64(0)
    for k in range(i, end):
        if program[k] == ONE_CHARACTER:
            wild |= np.uint64(1) << np.uint64(k - i)
        else:
            masks[program[k]] |= np.uint64(1) << np.uint64(k - i)
    done, last_is_wild = np.uint64(1) << np.uint64(end - i - 1), program[end - 1] == ONE_CHARACTER
    while j < stop:
        c = text[j]
        if c & 0xC0 == 0x80:  # a continuation byte: a wildcard that took the first byte takes it, too
            state = ((state << np.uint64(1) | np.uint64(1)) & masks[c]) | (state & wild)
        else:
            state = (state << np.uint64(1) | np.uint64(1)) & (masks[c] | wild)
        j += 1
        if state & done and not (last_is_wild and j < stop and text[j] & 0xC0 == 0x80):
            fit_end = j
            break
    for k in range(i, end):
        masks[program[k]] = 0
    return fit_end


@hot_kernel
def _has_wildcard(program: _Bytes, i: Int, end: Int) -> Int:
    while i < end and program[i] != ONE_CHARACTER:
        i += 1
    return i < end


@hot_kernel
def _may_start(text: _Bytes, first: Int, second: Int, a: Int, b: Int) -> Int:
    """Whether any of `_BLOCK` positions has byte a, counted from ``first``, and byte b, counted from ``second``."""
    met = np.uint8(0)
    for t in range(np.uint64(_BLOCK)):
        met |= np.uint8((text[np.uint64(first) + t] == a) & (text[np.uint64(second) + t] == b))
    return met != 0


@hot_kernel
def _find(program: _Bytes, i: Int, end: Int, text: _Bytes, j: Int, stop: Int, masks: _Masks) -> Int:
    """Return the earliest end of a fit of the piece ``program[i:end]`` in ``text[j:stop]``, or -1."""
    if _has_wildcard(program, i, end):
        return _shift_and(program, i, end, text, j, stop, masks)
    size = end - i
    near, far = (1, size - 2) if size > 3 else (0, size - 1)
    a, b = program[i + near], program[i + far]
    past, budget = stop - size + 1, 4 * (stop - j) + 64
    while j < past and budget > 0:
        if j + _BLOCK <= past and not _may_start(text, j + near, j + far, a, b):
            j += _BLOCK
            continue
        block_end = min(j + _BLOCK, past)
        while j < block_end and budget > 0:
            if text[j + near] == a and text[j + far] == b:
                if _fits_at(program, i, end, text, j, stop) >= 0:
                    return j + size
                budget -= size
            j += 1
    return -1 if j >= past else _shift_and(program, i, end, text, j, stop, masks)


@hot_kernel
def _start_of_end(program: _Bytes, i: Int, end: Int, text: _Bytes, j: Int, stop: Int) -> Int:
    """Return where the piece ``program[i:end]`` starts at the end of ``text[j:stop]``, or -1."""
    while end > i:
        end -= 1
        stop -= 1
        if stop < j or (program[end] != ONE_CHARACTER and program[end] != text[stop]):
            return -1
        if program[end] == ONE_CHARACTER:
            while stop > j and text[stop] & 0xC0 == 0x80:
                stop -= 1
    return stop


@hot_kernel
def fits_like(program: _Bytes, i: Int, end: Int, text: _Bytes, j: Int, stop: Int, masks: _Masks) -> Int:
    """Whether ``text[j:stop]`` fits the program ``program[i:end]``; ``masks`` are 256 zeros, and are so afterwards."""
    k = i
    while k < end and program[k] != ANY_TEXT:
        k += 1
    j = _fits_at(program, i, k, text, j, stop)
    if j < 0 or k == end:
        return j == stop
    last_piece = end
    while program[last_piece - 1] != ANY_TEXT:
        last_piece -= 1
    stop = _start_of_end(program, last_piece, end, text, j, stop)
    i = k + 1
    while stop >= 0 and i < last_piece:
        k = i
        while program[k] != ANY_TEXT:
            k += 1
        j = _find(program, i, k, text, j, stop, masks)
        if j < 0:
            return False
        i = k + 1
    return stop >= 0
