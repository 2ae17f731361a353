"""Textbook curves and sets of keys: one cell, one key at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plane_walk(bits: int) -> list[tuple[int, int]]:
    """Give the cells of a square in the order of Hilbert's own curve: four copies of itself, the outer two turned."""
    walk = [(0, 0)]
    for level in range(bits):
        n = 1 << level
        first = [(y, x) for x, y in walk]
        last = [(2 * n - 1 - y, n - 1 - x) for x, y in walk]
        walk = [*first, *((x, y + n) for x, y in walk), *((x + n, y + n) for x, y in walk), *last]
    return walk


def runs_of(keys: Iterable[int], gap: int = 0) -> list[list[int]]:
    """Give the runs of a set of keys; with a gap, as many keys between two are taken in."""
    runs: list[list[int]] = []
    for key in sorted(keys):
        if runs and key - runs[-1][1] <= 1 + gap:
            runs[-1][1] = key
        else:
            runs.append([key, key])
    return runs


def keys_of(runs: Iterable[Sequence[int]]) -> set[int]:
    """Give the keys of ranges."""
    return {key for first, last in runs for key in range(first, last + 1)}
