"""How many cubes and runs a rectangle takes: exact, at any size, without a search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from tamis.curves import zcurve as z

__all__ = ["count_all_cubes", "count_runs", "cubes_needed"]


def count_runs(ranges: Sequence[tuple[int, int]]) -> int:
    """Return how many runs disjoint ranges of keys form.

    >>> count_runs([(4, 7), (0, 3), (9, 9)])
    2
    """
    return 1 + sum(b[0] != a[1] + 1 for a, b in itertools.pairwise(sorted(ranges)))


def count_all_cubes(lengths: Sequence[int]) -> int:
    """Return how many standard cubes a rectangle falls into: Lemma 3.4, summed."""
    return sum(z.count_cubes(lengths, i) for i in range(min(lengths).bit_length()))


def cubes_needed(lengths: Sequence[int], coverage: float) -> int:
    """Return how many cubes, the largest first, hold a share of a rectangle.

    >>> cubes_needed((257, 257), 0.99), cubes_needed((257, 257), 1.0)
    (1, 514)
    """
    wanted, found, d = Fraction(coverage) * z.volume(lengths), 0, len(lengths)
    searched = Fraction(0)
    for i in range(min(lengths).bit_length() - 1, -1, -1):
        count = z.count_cubes(lengths, i)
        enough = math.ceil((wanted - searched) / (1 << i * d))
        if enough <= count:
            return found + max(enough, 0)
        found, searched = found + count, searched + count * 2 ** (i * d)
    return found
