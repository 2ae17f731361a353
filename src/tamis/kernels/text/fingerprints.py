"""XXH64 of many strings, each with its own seed, equal to Spark's function ``xxhash64``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, kernel

__all__ = ["fold_texts"]

_Hashes = npt.NDArray[np.uint64]
_Bytes = npt.NDArray[np.uint8]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@hot_kernel
def _rotated(value: Int, left: Int) -> Int:
    return (value << np.uint64(left)) | (value >> np.uint64(64 - left))


@hot_kernel
def _word(data: _Bytes, at: Int, size: Int) -> Int:
    """Return ``size`` bytes as a number, the lowest first."""
    value = np.uint64(0)
    for i in range(size):
        value |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return value


@hot_kernel
def _round(lane: Int, word: Int) -> Int:
    return _rotated(lane + word * _P2, 31) * _P1


@hot_kernel
def _stripes(data: _Bytes, at: Int, n: Int, seed: Int) -> Int:
    """Return the state after ``n`` blocks of 32 bytes, at least one."""
    a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
    for i in range(n):
        start = at + 32 * i
        a, b = _round(a, _word(data, start, 8)), _round(b, _word(data, start + 8, 8))
        c, d = _round(c, _word(data, start + 16, 8)), _round(d, _word(data, start + 24, 8))
    state = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
    for lane in (a, b, c, d):
        state = (state ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return state


@hot_kernel
def _hash_bytes(data: _Bytes, start: Int, stop: Int, seed: Int) -> Int:
    """Return XXH64 of some bytes."""
    blocks = (stop - start) // 32
    state = _stripes(data, start, blocks, seed) if blocks else seed + _P5
    state += np.uint64(stop - start)
    at = start + 32 * blocks
    while at + 8 <= stop:
        state = _rotated(state ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= stop:
        state = _rotated(state ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < stop:
        state = _rotated(state ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    return state ^ (state >> np.uint64(32))


@kernel
def fold_texts(hashes: _Hashes, offsets: npt.NDArray[np.int64], data: _Bytes, valid: npt.NDArray[np.bool_]) -> None:
    """Replace each hash by that of its string with the hash as seed; a missing string changes nothing."""
    for i in range(len(hashes)):
        if valid[i]:
            hashes[i] = _hash_bytes(data, offsets[i], offsets[i + 1], hashes[i])
