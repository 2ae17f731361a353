"""How many cubes and runs a rectangle takes: exact, at any size, without a search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from tamis.curves import zcurve as z

__all__ = ["count_all_cubes", "count_runs", "count_until", "cubes_by_side", "cubes_needed"]


def count_runs(ranges: Sequence[tuple[int, int]]) -> int:
    """Return how many runs disjoint ranges of keys form.

    >>> count_runs([(4, 7), (0, 3), (9, 9)])
    2
    """
    return 1 + sum(b[0] != a[1] + 1 for a, b in itertools.pairwise(sorted(ranges)))


def cubes_by_side(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return (i, how many standard cubes of side 2^i a rectangle falls into), the largest first: Lemma 3.4."""
    return [(i, z.count_cubes(lengths, i)) for i in range(min(lengths).bit_length() - 1, -1, -1)]


def count_all_cubes(lengths: Sequence[int]) -> int:
    """Return how many standard cubes a rectangle falls into: Lemma 3.4, summed."""
    return sum(count for _, count in cubes_by_side(lengths))


def cubes_needed(lengths: Sequence[int], coverage: float) -> int:
    """Return how many cubes, the largest first, hold a share of a rectangle.

    >>> cubes_needed((257, 257), 0.99), cubes_needed((257, 257), 1.0)
    (1, 514)
    """
    return count_until(lengths, cubes_by_side(lengths), coverage)


def count_until(lengths: Sequence[int], cubes: Sequence[tuple[int, int]], coverage: float) -> int:
    """Return how many of a rectangle's cubes, in order, hold a share of it."""
    top, bottom = Fraction(coverage).as_integer_ratio()
    wanted, searched, total, d = top * z.volume(lengths), 0, 0, len(lengths)
    for i, count in cubes:
        enough = math.ceil(Fraction(wanted - searched, bottom << i * d))
        if enough <= count:
            return total + max(enough, 0)
        total, searched = total + count, searched + bottom * (count << i * d)
    return total
