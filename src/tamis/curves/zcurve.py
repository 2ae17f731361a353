"""The Z curve of the covering paper: keys, standard cubes, and the cubes of an extremal rectangle.

The universe is ``[0, 2**k)`` in each of d dimensions. Halving it in every dimension, again and again, gives the
*standard cubes*: sides of ``2**i`` cells that begin at a multiple of ``2**i``. A cube is named by its index in each
dimension, a number of ``k - i`` bits; its key interleaves these bits, and the keys of its cells are one run:
``d * i`` bits follow, all zeros for the first cell and all ones for the last.

A box becomes a point, its corner (`transform`); every box that covers it lies in the *extremal rectangle* from that
point to the far corner of the universe, which is given by its side ``lengths`` alone. The greedy decomposition
of that rectangle takes cubes from the largest down. A side of length l is cut at the ones of l in binary:
position r of a one is a stretch of ``2**r`` cells, and a choice of one position per dimension is a rectangle.

Symbols: k, d, i, m and lengths (the paper's l) as in the paper; alpha is `aspect_ratio`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import Protocol

__all__ = [
    "Cube",
    "CurveKey",
    "aspect_ratio",
    "count_cubes",
    "coverage_bits",
    "cube_bound",
    "enumerate_rectangles",
    "enumerate_standard_cubes",
    "gray_key",
    "greedy_decomposition",
    "keep_from",
    "key_range",
    "run_bound",
    "set_bits",
    "side_lengths",
    "truncate",
    "volume",
    "z_key",
]

#: Index of a standard cube in each dimension.
Cube = tuple[int, ...]
#: Position of a one in the binary form of each side: the rectangle's side is two to that power.
Exponents = tuple[int, ...]


class CurveKey(Protocol):
    """The key of a cube whose indexes have this many bits; the key of a cube is the beginning of its cells' keys."""

    def __call__(self, cube: Sequence[int], bits: int) -> int:
        """Return the key of a cube from its indexes of ``bits`` bits each."""


def z_key(cube: Sequence[int], bits: int) -> int:
    """Return the key of a cell or cube on the Z curve: its indexes' bits in turn, the highest first.

    Implements: [zcurve] section 2, key of a standard cube; section 5, interleaving.

    >>> f"{z_key((0b10, 0b11), 2):04b}"
    '1101'
    """
    key = 0
    for bit in range(bits - 1, -1, -1):
        for index in cube:
            key = key << 1 | index >> bit & 1
    return key


def gray_key(cube: Sequence[int], bits: int) -> int:
    """Return the key of a cell or cube on the Gray curve: neighbours on it differ in one bit of their Z keys.

    >>> [gray_key(cell, 1) for cell in ((0, 0), (0, 1), (1, 1), (1, 0))]
    [0, 1, 2, 3]
    """
    rest, key = z_key(cube, bits), 0
    while rest:
        key, rest = key ^ rest, rest >> 1
    return key


def side_lengths(point: Sequence[int], k: int) -> tuple[int, ...]:
    """Return the sides of the extremal rectangle of a point: what dominates the point lies in it."""
    return tuple(2**k - x for x in point)


def volume(lengths: Sequence[int]) -> int:
    """Return the number of cells of a rectangle, exactly (it exceeds float64 soon)."""
    return math.prod(lengths)


def truncate(x: int, m: int) -> int:
    """Return x with its m most significant bits only, the paper's t(x, m).

    Implements: [zcurve] section 3.1, t(x, m).
    Deviation: the identity for m at or beyond the bits of x, which the paper leaves open and uses.

    >>> truncate(0b1011, 2), truncate(0b1011, 9)
    (8, 11)
    """
    return keep_from(x, max(x.bit_length() - m, 0))


def keep_from(x: int, i: int) -> int:
    """Return x with its bits from position i upwards only, the paper's S_i(x); 0 beyond its bits.

    >>> keep_from(0b1011, 1), keep_from(0b1011, 4)
    (10, 0)
    """
    return x >> i << i


def aspect_ratio(lengths: Sequence[int]) -> int:
    """Return how many bits the longest side has more than the shortest, the paper's alpha."""
    return max(lengths).bit_length() - min(lengths).bit_length()


def count_cubes(lengths: Sequence[int], i: int) -> int:
    """Return how many cubes of side ``2**i`` the greedy decomposition has.

    Implements: [zcurve] Lemma 3.4, N_i; 0 above the shortest side, Lemma 3.3.

    >>> [count_cubes((7, 5), i) for i in (2, 1, 0)], sum(count_cubes((257, 257), i) for i in range(9))
    ([1, 2, 11], 514)
    """
    if i >= min(lengths).bit_length():
        return 0
    inside, outside = (math.prod(keep_from(length, j) for length in lengths) for j in (i + 1, i))
    return (outside - inside) >> i * len(lengths)


def set_bits(x: int, above: int = -1) -> list[int]:
    """Return the positions of the ones of x above a position, the highest first.

    >>> set_bits(0b1011), set_bits(0b1011, above=0)
    ([3, 1, 0], [3, 1])
    """
    return [bit for bit in range(x.bit_length() - 1, above, -1) if x >> bit & 1]


def enumerate_rectangles(lengths: Sequence[int], i: int, fixed: Collection[int]) -> Iterator[Exponents]:
    """Yield each rectangle whose side is ``2**i`` in the dimensions ``fixed`` and longer in the others.

    Implements: [zcurve] Algorithm 1 EnumerateRectangle, section 5.
    Deviation: a generator replaces initFlag, the static vectors and the (-1, ...) end mark; a dimension that is
    not fixed and has no one above i gives no rectangle, where the printed algorithm starts from b(l) - 1 = i and
    counts the same cubes again and again (erratum Z.3.1); the lost body of the last ``else`` is "return" (Z.3.2).

    >>> list(enumerate_rectangles((7, 5), i=0, fixed={1}))  # the paper's Fig. 5: 4 x 1 and 2 x 1
    [(2, 0), (1, 0)]
    """
    choices = [[i] if j in fixed else set_bits(length, above=i) for j, length in enumerate(lengths)]
    yield from itertools.product(*choices)


def enumerate_standard_cubes(lengths: Sequence[int], rectangle: Exponents, i: int, k: int) -> Iterator[Cube]:
    """Yield the standard cubes of side ``2**i`` that make up a rectangle.

    Implements: [zcurve] Algorithm 2 EnumStdCube and Eq. (1), section 5.
    Deviation: a generator; the first index is ``(2**k - S_r(l)) >> i``, which is Eq. (1) where that holds and also
    right for a side of ``2**k`` (erratum Z.3.4); the printed subscript x of the last branch is x - i (Z.3.3).

    >>> [tuple(f"{c:03b}" for c in cube) for cube in enumerate_standard_cubes((7, 5), (1, 0), i=0, k=3)]
    [('010', '011'), ('011', '011')]
    """
    stretches = []
    for length, r in zip(lengths, rectangle, strict=True):
        first = (2**k - keep_from(length, r)) >> i
        stretches.append(range(first, first + 2 ** (r - i)))
    yield from itertools.product(*stretches)


def greedy_decomposition(lengths: Sequence[int], k: int) -> Iterator[tuple[int, Cube]]:
    """Yield ``(i, cube)`` for every cube of the minimum partition of an extremal rectangle, the largest first.

    Implements: [zcurve] section 5, the two-step enumeration of D_i for falling i; greedy by Lemma 3.2.

    >>> [i for i, _ in greedy_decomposition((3, 2), 2)]
    [1, 0, 0]
    """
    for i in range(min(lengths).bit_length() - 1, -1, -1):
        own = [j for j, length in enumerate(lengths) if length >> i & 1]  # NonZeroDim
        for m in range(1, len(own) + 1):
            for fixed in itertools.combinations(own, m):  # FixedDim
                for rectangle in enumerate_rectangles(lengths, i, fixed):
                    yield from ((i, cube) for cube in enumerate_standard_cubes(lengths, rectangle, i, k))


def key_range(cube: Cube, i: int, k: int, key: CurveKey = z_key) -> tuple[int, int]:
    """Return the keys of the first and last cell of a cube of side ``2**i``: one run (Fact 2.1).

    >>> key_range((1, 1), 1, 2)
    (12, 15)
    """
    free = len(cube) * i
    first = key(cube, k - i) << free
    return first, first + (1 << free) - 1


def cube_bound(lengths: Sequence[int], epsilon: float) -> int:
    """Return how many cubes an approximate search needs at most; independent of the lengths for one aspect ratio.

    Implements: [zcurve] Theorem 3.1 through Lemmas 3.1 and 3.6.
    Deviation: times d; the stated bound is too small where ``2**alpha <= d - 1`` (erratum Z.3.6), as 66 > 54 for
    d = 4, alpha = 0, m = 2.
    """
    d = len(lengths)
    m = coverage_bits(d, epsilon)
    return int(d * m * (2 ** aspect_ratio(lengths) * (2**m - 1)) ** (d - 1))


def coverage_bits(d: int, epsilon: float) -> int:
    """Return the least m with ``m >= log2(2 d / epsilon)``: the top m bits of each side leave out epsilon at most.

    Implements: [zcurve] Lemma 3.1.

    >>> coverage_bits(4, 0.25), coverage_bits(8, 0.05)
    (5, 9)
    """
    needed = Fraction(2 * d) / Fraction(epsilon)
    m = 0
    while 2**m < needed:
        m += 1
    return m


def run_bound(lengths: Sequence[int]) -> float:
    """Return the order of runs that an exhaustive search of the worst rectangle of this shape needs at least.

    Implements: [zcurve] Theorem 4.1.
    """
    exponent = len(lengths) - 1
    return float((Fraction(2) ** (aspect_ratio(lengths) - 1) * min(lengths)) ** exponent)
