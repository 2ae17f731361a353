"""[zcurve] as printed and as repaired: its worked examples, lemmas and theorems, by their numbers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.curves import zcurve as z
from tamis.curves.hilbert import hilbert_key
from tamis.index.zcurve.index import ZCurveIndex
from tamis.index.zcurve.sfc_array import SfcArray
from tamis.kernels.curves.zcurve import COUNT, SIDE, STATE_SIZE, search_cubes, write_z_keys
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.model.types import Number

K = 3
small_lengths = st.lists(st.integers(1, 2**K), min_size=1, max_size=3)


def cells_of_cube(i: int, cube: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(c << i, (c + 1) << i) for c in cube))


def rectangle(lengths: Sequence[int], k: int = K) -> set[tuple[int, ...]]:
    return set(itertools.product(*(range(2**k - length, 2**k) for length in lengths)))


def count_runs(keys: list[int]) -> int:
    ordered = sorted(keys)
    return sum(1 for a, b in zip([-2, *ordered], ordered, strict=False) if b != a + 1)


def naive_greedy(lengths: Sequence[int], k: int = K) -> set[tuple[int, tuple[int, ...]]]:
    """Take the largest standard cube that fits, again and again."""
    left, taken = rectangle(lengths, k), set()
    for i in range(k, -1, -1):
        for cube in itertools.product(range(2 ** (k - i)), repeat=len(lengths)):
            own = set(cells_of_cube(i, cube))
            if own <= left:
                left -= own
                taken.add((i, cube))
    return taken


def naive_hilbert(cube: Sequence[int], bits: int) -> int:
    """The textbook Hilbert curve in the plane, from the largest quadrant down."""
    x, y = cube
    key = 0
    for bit in range(bits - 1, -1, -1):
        side = 1 << bit
        rx, ry = int(x & side > 0), int(y & side > 0)
        key = key << 2 | (3 * rx ^ ry)
        x, y = x & side - 1, y & side - 1
        if ry == 0:
            if rx == 1:
                x, y = side - 1 - x, side - 1 - y
            x, y = y, x
    return key


# ---- worked examples


@pytest.mark.parametrize(("side", "cubes", "runs"), [(256, 1, 1), (257, 514, 385)])
def test_squares_of_section_3_1(side: int, cubes: int, runs: int) -> None:
    pieces = list(z.greedy_decomposition((side, side), 9))
    assert len(pieces) == cubes == sum(z.count_cubes((side, side), i) for i in range(10))
    ranges = sorted(z.key_range(cube, i, 9) for i, cube in pieces)
    assert 1 + sum(b[0] != a[1] + 1 for a, b in itertools.pairwise(ranges)) == runs
    assert sum(last - first + 1 for first, last in ranges) == side * side


def test_one_run_holds_99_percent_of_257_by_257() -> None:
    points = SfcArray(2, 9)
    search = points.begin((512 - 257, 512 - 257), skipped=(1, 100), most=1_000)
    assert list(points.runs(search)) == []
    assert (search.cubes, search.searched) == (1, 256 * 256)
    assert Fraction(search.searched, search.volume) > Fraction(99, 100)


def test_the_rectangles_of_figure_5() -> None:
    assert list(z.enumerate_rectangles((7, 5), 0, {0})) == [(0, 2)]
    assert list(z.enumerate_rectangles((7, 5), 0, {1})) == [(2, 0), (1, 0)]
    assert list(z.enumerate_rectangles((7, 5), 0, {0, 1})) == [(0, 0)]
    sides = [
        tuple(2**r for r in rectangle) for m in ({0}, {1}, {0, 1}) for rectangle in z.enumerate_rectangles((7, 5), 0, m)
    ]
    assert sorted(sides) == [(1, 1), (1, 4), (2, 1), (4, 1)]


def test_the_cubes_of_the_example_of_algorithm_2() -> None:
    assert list(z.enumerate_standard_cubes((7, 5), (1, 0), 0, 3)) == [(0b010, 0b011), (0b011, 0b011)]


# ---- where the printed text is wrong (docs/papers/errata.md)


def printed_algorithm_1(lengths: Sequence[int], i: int, fixed: set[int]) -> list[tuple[int, ...]]:
    """As printed: a dimension that is not fixed starts at b(l) - 1, even if that is i itself."""
    choices = []
    for j, length in enumerate(lengths):
        above = [b for b in range(length.bit_length() - 1, i, -1) if length >> b & 1]
        choices.append([i] if j in fixed else above or [length.bit_length() - 1])
    return list(itertools.product(*choices))


def test_deviation_z_3_1_the_printed_algorithm_1_counts_cubes_again() -> None:
    def counted(algorithm) -> int:
        total = 0
        for i in range(2, -1, -1):
            own = [j for j in (0, 1) if (7, 5)[j] >> i & 1]
            for m in range(1, len(own) + 1):
                for fixed in itertools.combinations(own, m):
                    total += sum(2 ** sum(r) for r in algorithm((7, 5), i, set(fixed)))
        return total

    assert counted(printed_algorithm_1) == 67
    assert counted(lambda lengths, i, fixed: list(z.enumerate_rectangles(lengths, i, fixed))) == 35


def test_deviation_z_3_4_a_side_of_the_whole_universe_stays_inside() -> None:
    """Eq. (1) as printed gives index 8 of 0 to 7 for a side of 2**k."""
    [(i, cube)] = z.greedy_decomposition((8,), 3)
    assert (i, cube) == (3, (0,))
    assert {cell for i, cube in z.greedy_decomposition((8, 3), 3) for cell in cells_of_cube(i, cube)} == rectangle(
        (8, 3)
    )


def test_deviation_z_3_6_the_stated_bound_of_lemma_3_6_is_too_small() -> None:
    d, alpha, m = 4, 0, 2
    lengths = (0b1100,) * d
    cubes = sum(z.count_cubes([z.truncate(length, m) for length in lengths], i) for i in range(5))
    stated = m * (2**alpha * (2**m - 1)) ** (d - 1)
    assert (cubes, stated) == (66, 54)
    assert cubes <= d * stated


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_deviation_z_3_10_a_hit_is_verified_and_the_search_goes_on(epsilon: float) -> None:
    """Two boxes in the same cells: the first does not cover, the second does."""
    index = ZCurveIndex(Schema({"x": Number(0, 32)}), epsilon=epsilon, k=5)
    table = SubscriptionTable.from_boxes(["x"], [[10.4], [10.1]], [[20.6], [20.9]])
    index.add_boxes(np.array([0, 1], np.int32), table)
    question = SubscriptionTable.from_boxes(["x"], [[10.2]], [[20.8]]).box_subscription(0, 0)
    assert index.find_cover(question) in ((1,) if epsilon == 0 else (1, None))
    assert ZCurveIndex(Schema({"x": Number(0, 32)}), epsilon=0.0, k=5).find_cover(question) is None


# ---- lemmas and theorems


@given(st.integers(0, 2**12 - 1), st.integers(0, 2**12 - 1), st.integers(0, 3), st.integers(0, 3))
def test_lemma_2_1_standard_cubes_are_nested_or_disjoint(a: int, b: int, i: int, j: int) -> None:
    """The runs of keys of two cubes are nested or disjoint just as their cells are."""
    cube_a, cube_b = ((a >> 6 >> i, (a & 63) >> i), i), ((b >> 6 >> j, (b & 63) >> j), j)
    x, y = (set(cells_of_cube(level, cube)) for cube, level in (cube_a, cube_b))
    (first, last), (start, end) = (z.key_range(cube, level, 6) for cube, level in (cube_a, cube_b))
    assert (x <= y, y <= x) == (start <= first and last <= end, first <= start and end <= last)
    assert (not x & y) == (last < start or end < first)
    assert x <= y or y <= x or not x & y


@pytest.mark.parametrize("curve", [z.z_key, naive_hilbert, hilbert_key])
def test_fact_2_1_a_standard_cube_is_one_run(curve: z.CurveKey) -> None:
    for i in range(4):
        for cube in itertools.product(range(2 ** (3 - i)), repeat=2):
            first, last = z.key_range(cube, i, 3, curve)
            assert sorted(curve(cell, 3) for cell in cells_of_cube(i, cube)) == list(range(first, last + 1))


@given(st.lists(st.integers(0, 255), min_size=1, max_size=8), st.integers(0, 8))
def test_fact_2_1_on_the_hilbert_curve_in_many_dimensions(cell: list[int], i: int) -> None:
    """The key of a cube is the beginning of the keys of its cells."""
    cube = tuple(index >> i for index in cell)
    first, last = z.key_range(cube, i, 8, hilbert_key)
    assert first <= hilbert_key(cell, 8) <= last


@given(st.lists(st.integers(1, 2**20), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_lemma_3_1_truncation_keeps_the_volume(lengths: list[int], epsilon: float) -> None:
    m = z.coverage_bits(len(lengths), epsilon)
    kept = z.volume([z.truncate(length, m) for length in lengths])
    assert Fraction(kept, z.volume(lengths)) >= 1 - Fraction(epsilon)


@given(small_lengths)
def test_lemma_3_2_the_decomposition_is_the_greedy_one(lengths: list[int]) -> None:
    cubes = list(z.greedy_decomposition(lengths, K))
    assert len(set(cubes)) == len(cubes)
    assert set(cubes) == naive_greedy(lengths)
    assert [i for i, _ in cubes] == sorted((i for i, _ in cubes), reverse=True)


@given(small_lengths)
def test_lemma_3_3_cubes_down_to_a_side_fill_the_truncated_rectangle(lengths: list[int]) -> None:
    cubes = list(z.greedy_decomposition(lengths, K))
    shortest = min(lengths).bit_length()
    for i in range(K + 1):
        assert bool([1 for j, _ in cubes if j == i]) == (i < shortest and any(length >> i & 1 for length in lengths))
        cells = {cell for j, cube in cubes if j >= i for cell in cells_of_cube(j, cube)}
        kept = [z.keep_from(length, i) for length in lengths]
        assert cells == (rectangle(kept) if i < shortest else set())


@given(small_lengths)
def test_lemma_3_4_counts_the_cubes_of_each_side(lengths: list[int]) -> None:
    levels = [i for i, _ in z.greedy_decomposition(lengths, K)]
    assert [levels.count(i) for i in range(K + 1)] == [z.count_cubes(lengths, i) for i in range(K + 1)]


@given(small_lengths)
def test_observation_3_1_runs_are_not_more_than_cubes(lengths: list[int]) -> None:
    """Printed strict; a single cell has one run and one cube (erratum Z.3.5)."""
    runs = count_runs([z.z_key(cell, K) for cell in rectangle(lengths)])
    assert runs <= len(list(z.greedy_decomposition(lengths, K)))


@pytest.mark.parametrize("d", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("alpha", [0, 1, 2])
@pytest.mark.parametrize("epsilon", [0.05, 0.25, 0.5])
def test_theorem_3_1_bounds_the_cubes_of_the_truncated_rectangle(d: int, alpha: int, epsilon: float) -> None:
    rng = random.Random(d * 100 + alpha)
    m = z.coverage_bits(d, epsilon)
    for shortest in (4, 8, 12):
        full = [2**shortest - 1, *[2 ** (shortest + alpha) - 1] * (d - 1)]
        some = [rng.randrange(2 ** (x.bit_length() - 1), x + 1) for x in full]
        for lengths in (full, some):
            kept = [z.truncate(length, m) for length in lengths]
            cubes = sum(z.count_cubes(kept, i) for i in range(shortest + 1))
            assert cubes <= z.cube_bound(lengths, epsilon)


@pytest.mark.parametrize(("d", "gamma", "alpha"), [(2, 2, 0), (2, 3, 1), (2, 2, 3), (3, 2, 0), (3, 2, 1), (3, 1, 2)])
def test_theorem_4_1_its_rectangle_needs_that_many_runs(d: int, gamma: int, alpha: int) -> None:
    k = gamma + alpha
    lengths = (*[2 ** (gamma + alpha) - 1] * (d - 1), 2**gamma - 1)  # the short side owns the last bit of the key
    keys = [z.z_key(cell, k) for cell in rectangle(lengths, k)]
    assert z.aspect_ratio(lengths) == alpha
    assert count_runs(keys) >= z.run_bound(lengths)


# ---- the search


@given(st.lists(st.integers(0, 2**K - 1), min_size=1, max_size=3), st.integers(0, 99), st.integers(0, 2**32))
def test_the_search_sees_all_but_epsilon_and_only_dominating_points(point: list[int], percent: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = len(point)
    cells = rng.integers(0, 2**K, (12, d))
    narrow, wide = SfcArray(d, K), SfcArray(d, K, key=lambda cube, bits: z.z_key(cube, bits))
    parts = []
    for points in (narrow, wide):
        points.insert_all(cells, np.arange(12, dtype=np.int32))
        search = points.begin(point, (percent, 100), most=10_000)
        parts.append(sorted(row for rows in points.runs(search) for row in rows.tolist()))
        assert search.searched * 100 >= (100 - percent) * search.volume
        assert search.searched <= search.volume
        assert set(parts[-1]) <= set(points.dominating(point).tolist())
    if percent == 0:
        assert parts[0] == parts[1] == sorted(narrow.dominating(point).tolist())


@given(st.lists(st.integers(0, 2**K - 1), min_size=1, max_size=3))
def test_the_kernel_looks_up_the_cubes_of_the_generator(point: list[int]) -> None:
    lengths = z.side_lengths(point, K)
    d = len(lengths)
    cells = np.array(sorted(rectangle(lengths)), np.int64).reshape(-1, d)
    keys = np.empty(len(cells), np.int64)
    write_z_keys(cells, K, keys)
    assert keys.tolist() == [z.z_key(cell, K) for cell in cells.tolist()]
    keys.sort()
    for search in (search_cubes, search_cubes.py_func):
        state, cursor, starts = np.zeros(STATE_SIZE, np.int64), np.zeros((2, d), np.int64), []
        state[SIDE] = min(lengths).bit_length() - 1
        while (start := search(keys, np.array(lengths), K, (10**9, 10**9), state, cursor)) >= 0:
            starts.append((int(state[SIDE]), int(keys[start])))
        expected = [(i, z.key_range(cube, i, K)[0]) for i, cube in z.greedy_decomposition(lengths, K)]
        assert sorted(starts) == sorted(expected)
        assert state[COUNT] == len(expected)


def test_a_search_that_would_take_too_long_scans() -> None:
    points = SfcArray(2, 10)
    points.insert((0, 1), row=4)  # in the shell that is searched last
    search = points.begin((0, 1), skipped=(0, 1), most=5)
    assert [rows.tolist() for rows in points.runs(search)] == [[4]]
    assert (search.capped, search.cubes) == (True, 5)


def test_points_come_and_go() -> None:
    points = SfcArray(2, 40)  # keys of 80 bits
    points.insert((2**39, 5), row=1)
    points.insert((2**39, 5), row=2)
    points.delete((2**39, 5), row=1)
    assert points.dominating((0, 0)).tolist() == [2]
    with pytest.raises(KeyError):
        points.delete((2**39, 5), row=1)


@pytest.mark.parametrize("curve", [z.z_key, naive_hilbert, hilbert_key])
def test_epsilon_zero_is_exhaustive_on_any_curve(curve: z.CurveKey) -> None:
    rng = np.random.default_rng(2)
    ends = np.sort(rng.random((300, 1, 2)), axis=2)
    table = SubscriptionTable.from_boxes(["x"], ends[:200, :, 0], ends[:200, :, 1])
    questions = SubscriptionTable.from_boxes(["x"], ends[200:, :, 0], ends[200:, :, 1])
    index = ZCurveIndex(Schema({"x": Number(0, 1)}), epsilon=0.0, k=6, curve=curve)
    index.add_boxes(np.arange(200, dtype=np.int32), table)
    covers = (ends[None, :200, 0, 0] <= ends[200:, 0, :1]) & (ends[None, :200, 0, 1] >= ends[200:, 0, 1:])
    assert index.find_covers(questions).tolist() == np.where(covers.any(1), covers.argmax(1), -1).tolist()


def test_statistics_stand_beside_the_bounds() -> None:
    rng = np.random.default_rng(3)
    ends = np.sort(rng.random((50, 2, 2)), axis=2)
    index = ZCurveIndex(Schema({"x": Number(0, 1), "y": Number(0, 1)}), epsilon=0.25, k=8)
    index.add_boxes(
        np.arange(50, dtype=np.int32), SubscriptionTable.from_boxes(["x", "y"], ends[:, :, 0], ends[:, :, 1])
    )
    tiny = SubscriptionTable.from_boxes(["x", "y"], [[0.5, 0.5]], [[0.51, 0.51]]).box_subscription(0, 0)
    wide = SubscriptionTable.from_boxes(["x", "y"], [[0.01, 0.01]], [[0.99, 0.99]]).box_subscription(0, 0)
    index.find_cover(wide)
    details = index.statistics().details
    assert details["volume_searched"] >= 0.75
    assert 0 < details["last_cubes"] <= details["cube_bound"]
    index.find_cover(tiny)
    assert index.statistics().details["searches"] == 2
    assert math.isfinite(float(index.statistics().details["run_bound"]))
