"""The packed tree: its order, its blocks, its answers, compiled and plain."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.kernels.boxes import match, tree

FORMS = pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])


def pick(function, plain):
    return function.py_func if plain else function


@FORMS
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 700])
def test_order_is_a_permutation(plain, n):
    corners = np.random.default_rng(n).integers(0, 50, (n, 4)).astype(np.int16)
    order = pick(tree.order_boxes, plain)(corners)
    assert sorted(order.tolist()) == list(range(n))


@FORMS
@pytest.mark.parametrize("n", [0, 1, 16, 17, 700])
def test_hulls_hold_what_lies_below(plain, n):
    columns = 2
    rng = np.random.default_rng(n)
    low = rng.integers(-2, 90, (n, columns))
    corners = np.stack((low, low + rng.integers(0, 9, (n, columns))), 2).reshape(n, 2 * columns).astype(np.int16)
    order = np.arange(n, dtype=np.int32)
    levels = tree.levels_of(n)
    blocks = np.zeros(levels[-1] * 32 * columns, np.int16)
    pick(tree.fill_blocks, plain)(corners, order, levels, blocks)
    cube = blocks.reshape(-1, columns, 2, 16)
    leaves = cube[levels[-2] :].transpose(0, 3, 1, 2).reshape(-1, 2 * columns)
    assert np.array_equal(leaves[:n], corners)
    assert (leaves[n:].reshape(-1, columns, 2) == (32767, -3)).all()
    below = leaves.reshape(-1, 16, columns, 2)
    for level in range(len(levels) - 3, -1, -1):
        hulls = cube[levels[level] : levels[level + 1]].transpose(0, 3, 1, 2).reshape(-1, columns, 2)
        assert np.array_equal(hulls[: len(below), :, 0], below[:, :, :, 0].min(1))
        assert np.array_equal(hulls[: len(below), :, 1], below[:, :, :, 1].max(1))
        below = hulls.reshape(-1, 16, columns, 2)
    assert levels[1] == 1


@FORMS
def test_appended_lanes_are_blocks(plain):
    corners = np.arange(40 * 4).reshape(40, 4).astype(np.int16)
    blocks = np.zeros(48 * 4, np.int16)
    pick(tree.append_lanes, plain)(blocks, corners[:10], 0)
    pick(tree.append_lanes, plain)(blocks, corners[10:], 10)
    assert np.array_equal(blocks.reshape(3, 4, 16).transpose(0, 2, 1).reshape(48, 4)[:40], corners)


def test_scratch_is_large_enough_for_the_deepest_tree():
    """A pop pushes at most sixteen children; 2**31 boxes are eight levels of sixteen."""
    assert match.make_scratch(1).stack.size >= 16 * 8
