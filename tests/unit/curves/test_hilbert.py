"""The Hilbert curve: a bijection of unit steps, the textbook's order, exact and minimal ranges, clear refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.curves.hilbert import MAX_RANGES, HilbertCurve, _make_tables
from tamis.curves.runs import covers
from tamis.errors import LimitError, ModelError
from tamis.kernels.curves import hilbert as kernels
from tests.unit.curves.naive_curves import plane_walk, runs_of

#: (dimensions, bits) small enough to walk every cell.
GRIDS = [(1, 6), (2, 5), (3, 4), (4, 3), (5, 2), (6, 2), (7, 1), (8, 1)]


def every_cell(d: int, bits: int) -> np.ndarray:
    return np.array(list(itertools.product(range(1 << bits), repeat=d)))


@pytest.mark.parametrize(("d", "bits"), GRIDS)
def test_every_cell_has_one_key_and_neighbours_on_the_curve_are_neighbours(d: int, bits: int) -> None:
    curve, cells = HilbertCurve(d, bits), every_cell(d, bits)
    keys = curve.keys(cells)
    assert sorted(keys.tolist()) == list(range(curve.n_keys))
    steps = np.abs(np.diff(cells[np.argsort(keys)], axis=0)).sum(axis=1)
    assert (steps == 1).all()
    assert (curve.cells(keys) == cells).all()


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
def test_in_the_plane_it_is_hilberts_curve_up_to_symmetry(bits: int) -> None:
    ours = HilbertCurve(2, bits).cells(np.arange(4**bits))
    walk = np.array(plane_walk(bits))
    turned = [walk[:, order] for order in ([0, 1], [1, 0])]
    assert any((ours == image).all() for image in turned)


@pytest.mark.parametrize(("d", "bits"), [grid for grid in GRIDS if grid[1] > 1])
def test_every_aligned_block_of_keys_is_a_cube(d: int, bits: int) -> None:
    cells = HilbertCurve(d, bits).cells(np.arange(1 << (d * bits)))
    for level in range(1, bits):
        blocks = cells.reshape(-1, 1 << (d * level), d)
        assert (blocks.max(axis=1) - blocks.min(axis=1) == (1 << level) - 1).all()


@pytest.mark.parametrize(("d", "bits"), [(2, 3), (3, 2), (8, 1)])
def test_kernels_are_the_same_compiled_and_plain(d: int, bits: int) -> None:
    tables, cells = _make_tables(d), every_cell(d, bits)
    keys = HilbertCurve(d, bits).keys(cells)
    plain = np.empty(len(cells), np.int64)
    kernels.hilbert_keys.py_func(tables, cells, bits, 0, np.zeros(len(cells), np.int32), plain)
    assert (plain == keys).all()
    back = np.zeros_like(cells)
    kernels.hilbert_cells.py_func(tables, keys, bits, 0, np.zeros(len(cells), np.int32), back)
    assert (back == cells).all()


@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
@pytest.mark.parametrize(("d", "bits"), [(1, 5), (2, 4), (3, 3), (4, 2)])
def test_ranges_are_the_cells_of_the_box_and_as_few_as_can_be(d: int, bits: int, plain: bool) -> None:
    rng, curve = np.random.default_rng(bits), HilbertCurve(d, bits)
    kernel = kernels.box_ranges.py_func if plain else kernels.box_ranges
    stack, out = np.empty((bits + 1, kernels.STACK_WIDTH), np.int64), np.empty((1 << (d * bits), 2), np.int64)
    for _ in range(10 if plain else 100):
        box = np.sort(rng.integers(0, 1 << bits, (2, d)), axis=0)
        count = kernel(_make_tables(d).to_label, box, bits, 0, stack, out)
        inside = list(itertools.product(*(range(lo, hi + 1) for lo, hi in box.T)))
        assert out[:count].tolist() == runs_of(curve.keys(inside).tolist())
        assert curve.ranges(*box).tolist() == out[:count].tolist()


def test_many_boxes_at_once_grow_the_output() -> None:
    rng, curve = np.random.default_rng(3), HilbertCurve(3, 6)
    boxes = np.sort(rng.integers(0, 64, (60, 2, 3)), axis=1)
    offsets, ranges = curve.ranges_of(boxes)
    assert len(ranges) > 16 * len(boxes)
    for i, box in enumerate(boxes):
        assert ranges[offsets[i] : offsets[i + 1]].tolist() == curve.ranges(*box).tolist()


@pytest.mark.parametrize("most", [1, 2, 5, 40])
@pytest.mark.parametrize(("d", "bits"), [(1, 8), (2, 6), (4, 3), (8, 2)])
def test_coarsening_goes_outward_and_keeps_to_the_cap(d: int, bits: int, most: int) -> None:
    rng, curve = np.random.default_rng(most), HilbertCurve(d, bits)
    boxes = np.sort(rng.integers(0, 1 << bits, (30, 2, d)), axis=1)
    offsets, ranges = curve.ranges_of(boxes, most)
    for i, box in enumerate(boxes):
        rough = ranges[offsets[i] : offsets[i + 1]]
        assert 1 <= len(rough) <= most
        assert (rough[1:, 0] > rough[:-1, 1] + 1).all()
        assert covers(rough, curve.ranges(*box))


def test_a_cube_with_two_million_ranges_is_capped_quickly() -> None:
    curve = HilbertCurve(4, 8)
    ranges = curve.ranges([60] * 4, [187] * 4)
    assert len(ranges) <= MAX_RANGES
    assert (ranges[:, 1] - ranges[:, 0] + 1).sum() < 2 * 128**4


def test_keys_wider_than_a_word_are_python_integers() -> None:
    rng, curve = np.random.default_rng(1), HilbertCurve(8, 16)
    cells = rng.integers(0, 1 << 16, (40, 8))
    keys = curve.keys(cells)
    assert keys.dtype == object
    assert max(keys).bit_length() > 120
    assert (curve.cells(keys) == cells).all()
    following = curve.cells([key + 1 for key in keys])
    assert (np.abs(following - cells).sum(axis=1) == 1).all()
    with pytest.raises(LimitError, match="128 is more than the 62 accepted"):
        curve.ranges([0] * 8, [1] * 8)


def test_widest_key_of_one_word() -> None:
    curve = HilbertCurve(6, 10)
    cells = np.random.default_rng(2).integers(0, 1 << 10, (20, 6))
    keys = curve.keys(cells)
    assert keys.dtype == np.int64
    assert (curve.cells(keys) == cells).all()
    assert curve.ranges([0] * 6, [1023] * 6).tolist() == [[0, 2**60 - 1]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HilbertCurve(9, 2), "1 to 8 dimensions, not 9"),
        (lambda: HilbertCurve(0, 2), "1 to 8 dimensions, not 0"),
        (lambda: HilbertCurve(2, 17), "1 to 16 bits, not 17"),
        (lambda: HilbertCurve(2, 3).keys([[0, 8]]), "numbered from 0 to 7"),
        (lambda: HilbertCurve(2, 3).keys([[-1, 0]]), "numbered from 0 to 7"),
        (lambda: HilbertCurve(2, 3).keys([[0.5, 0.5]]), "integers"),
        (lambda: HilbertCurve(2, 3).keys([[1, 2, 3]]), "integers"),
        (lambda: HilbertCurve(2, 3).cells([64]), "from 0 to 63"),
        (lambda: HilbertCurve(2, 3).ranges([2, 2], [1, 3]), "low corner"),
        (lambda: HilbertCurve(2, 3).ranges([2, 2], [3, 3], most=5_000), "4,096 accepted"),
    ],
)
def test_refusals_name_the_limit(call, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        call()


def test_nothing_in_nothing_out() -> None:
    curve = HilbertCurve(2, 3)
    assert curve.keys(np.empty((0, 2), np.int64)).tolist() == []
    assert curve.cells([]).tolist() == []
    assert curve.ranges_of(np.empty((0, 2, 2), np.int64))[0].tolist() == [0]
