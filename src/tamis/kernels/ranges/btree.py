"""A B+-tree in flat arrays: entries in order, leaves linked, insert and delete in O(log n).

An entry of a leaf is ``(key, tie)``, by which it is ordered, and a number ``low``. An entry of an inner node is a
child: ``key, tie`` is that of its first entry, ``low`` the least number below it. A number can be added to all entries
of a subtree at once: it is noted in ``add`` of the child's entry and counts for everything below. So

    value of an entry = its ``low`` + the ``add`` of every inner entry on the way to it,
    ``low`` of an inner entry = its ``add`` + the least ``low`` of its child's entries.

Two structures live in such trees. In `tamis.kernels.ranges.counts` the entries are steps of a function and the value is
how many ranges lie over that step. In `tamis.kernels.ranges.owners` the entries are ranges by their start, ``tie`` is
the owner and ``low`` minus the end, so that the least one says how far a subtree reaches.

A node that falls below a quarter is joined with a neighbour where both fit; an empty one is freed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, hot_kernel, inline_kernel

__all__ = [
    "FANOUT",
    "HEIGHT",
    "NO_KEY",
    "N_ENTRIES",
    "N_FREE",
    "ROOT",
    "SPARSE",
    "BTree",
    "delete_entry",
    "delete_here",
    "descend",
    "insert_entry",
    "insert_here",
    "least_of",
    "make_tree",
    "nodes_needed",
    "shift_entries",
]

#: Entries of a node; with half of them in use, six levels hold sixteen million.
FANOUT: Final = 32
SPARSE: Final = FANOUT // 4
_JOINED: Final = FANOUT * 3 // 4

#: Places in ``state``.
ROOT: Final = 0
HEIGHT: Final = 1  # inner levels above the leaves
FREE: Final = 2  # the first free node; they are linked by ``next``
N_FREE: Final = 3
N_ENTRIES: Final = 4

_MAX_LEVELS: Final = 24
_NONE: Final = -1
#: The key of places that are not in use, so that a search may look at all places of a node and needs no count.
NO_KEY: Final = np.iinfo(np.int64).max


class BTree(NamedTuple):
    """The arrays of a tree of up to n nodes; see the module's text."""

    key: npt.NDArray[np.int64]
    tie: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    add: npt.NDArray[np.int64]
    child: npt.NDArray[np.int32]
    size: npt.NDArray[np.int32]
    #: The next and the previous leaf, -1 at the ends.
    next: npt.NDArray[np.int32]
    previous: npt.NDArray[np.int32]
    state: npt.NDArray[np.int64]
    #: Two ways from the root to a leaf, as (node, place); scratch of the writer.
    path: npt.NDArray[np.int64]
    #: Keys and numbers of a leaf while it is written again; scratch of the writer.
    spare: npt.NDArray[np.int64]


def make_tree(n_nodes: int, smaller: BTree | None = None) -> BTree:
    """Return an empty tree with room for ``n_nodes``, or a larger copy of another one."""
    wide = (n_nodes, FANOUT)
    tree = BTree(
        key=np.full(wide, NO_KEY),
        tie=np.zeros(wide, np.int64),
        low=np.zeros(wide, np.int64),
        add=np.zeros(wide, np.int64),
        child=np.zeros(wide, np.int32),
        size=np.zeros(n_nodes, np.int32),
        next=np.zeros(n_nodes, np.int32),
        previous=np.zeros(n_nodes, np.int32),
        state=np.zeros(5, np.int64),
        path=np.zeros((2, _MAX_LEVELS, 2), np.int64),
        spare=np.zeros((2, FANOUT + 2), np.int64),
    )
    first = 1 if smaller is None else len(smaller.size)
    if smaller is None:
        tree.next[0] = tree.previous[0] = _NONE
    else:
        for name in ("key", "tie", "low", "add", "child", "size", "next", "previous"):
            getattr(tree, name)[:first] = getattr(smaller, name)
        tree.state[:] = smaller.state
    tree.next[first:] = np.arange(first + 1, n_nodes + 1)
    tree.next[-1] = _NONE if smaller is None or not smaller.state[N_FREE] else smaller.state[FREE]
    tree.state[FREE] = first
    tree.state[N_FREE] += n_nodes - first
    return tree


@inline_kernel
def nodes_needed(tree: BTree) -> Int:
    """Return how many free nodes one insertion may take."""
    return tree.state[HEIGHT] + 2


@inline_kernel
def least_of(tree: BTree, node: Int) -> Int:
    """Return the least ``low`` of a node."""
    least = tree.low[node, 0]
    for i in range(1, tree.size[node]):
        least = min(least, tree.low[node, i])
    return least


@hot_kernel
def descend(tree: BTree, key: Int, tie: Int, path: npt.NDArray[np.int64]) -> Int:
    """Write the way to the last entry at or before ``(key, tie)``; return what is added to it on the way.

    When every entry comes after it, the way leads to the first.
    """
    node = tree.state[ROOT]
    height = tree.state[HEIGHT]
    added = np.int64(0)
    for depth in range(height + 1):
        place = np.int64(-1)
        for i in range(FANOUT):
            place += tree.key[node, i] <= key
        while place > 0 and tree.key[node, place] == key and tree.tie[node, place] > tie:
            place -= 1
        place = max(place, np.int64(0))
        path[depth, 0] = node
        path[depth, 1] = place
        if depth < height:
            added += tree.add[node, place]
            node = np.int64(tree.child[node, place])
    return added


@inline_kernel
def shift_entries(tree: BTree, node: Int, start: Int, stop: Int, amount: Int, is_leaf: bool) -> None:
    """Add an amount to the values of entries ``start`` to ``stop - 1`` of a node, and to all below them."""
    for i in range(start, stop):
        tree.low[node, i] += amount
    if not is_leaf:
        for i in range(start, stop):
            tree.add[node, i] += amount


@inline_kernel
def _take_node(tree: BTree) -> Int:
    node = tree.state[FREE]
    tree.state[FREE] = tree.next[node]
    tree.state[N_FREE] -= 1
    tree.size[node] = 0
    tree.key[node, :] = NO_KEY
    tree.next[node] = _NONE
    tree.previous[node] = _NONE
    return node


@inline_kernel
def _free_node(tree: BTree, node: Int) -> None:
    """Take a node out of the chain of leaves (inner nodes are in none) and free it."""
    previous_leaf, next_leaf = tree.previous[node], tree.next[node]
    if previous_leaf >= 0:
        tree.next[previous_leaf] = next_leaf
    if next_leaf >= 0:
        tree.previous[next_leaf] = previous_leaf
    tree.next[node] = tree.state[FREE]
    tree.state[FREE] = node
    tree.state[N_FREE] += 1


@inline_kernel
def _copy_entry(tree: BTree, source: Int, i: Int, target: Int, j: Int) -> None:
    tree.key[target, j] = tree.key[source, i]
    tree.tie[target, j] = tree.tie[source, i]
    tree.low[target, j] = tree.low[source, i]
    tree.add[target, j] = tree.add[source, i]
    tree.child[target, j] = tree.child[source, i]


@hot_kernel
def _split(tree: BTree, node: Int, is_leaf: bool) -> Int:
    """Move the upper half of a full node to a new one, which follows it; return the new one."""
    right = _take_node(tree)
    half = FANOUT // 2
    for i in range(half, FANOUT):
        _copy_entry(tree, node, i, right, i - half)
        tree.key[node, i] = NO_KEY
    tree.size[node] = half
    tree.size[right] = FANOUT - half
    if is_leaf:
        next_leaf = tree.next[node]
        tree.next[right] = next_leaf
        tree.previous[right] = node
        tree.next[node] = right
        if next_leaf >= 0:
            tree.previous[next_leaf] = right
    return right


@hot_kernel
def _place_entry(tree: BTree, node: Int, at: Int, entry: tuple[Int, Int, Int, Int, Int]) -> None:
    """Write an entry ``(key, tie, low, add, child)`` at a place of a node that has room."""
    for i in range(tree.size[node], at, -1):
        _copy_entry(tree, node, i - 1, node, i)
    tree.key[node, at], tree.tie[node, at], tree.low[node, at], tree.add[node, at] = entry[:4]
    tree.child[node, at] = entry[4]
    tree.size[node] += 1


@hot_kernel
def _grow_root(tree: BTree, left: Int, right: Int) -> None:
    """Put a new root above two nodes that were one."""
    root = _take_node(tree)
    zero = np.int64(0)
    key, tie = tree.key[right, 0], tree.tie[right, 0]
    _place_entry(tree, root, 0, (tree.key[left, 0], tree.tie[left, 0], least_of(tree, left), zero, left))
    _place_entry(tree, root, 1, (key, tie, least_of(tree, right), zero, right))
    tree.state[ROOT] = root
    tree.state[HEIGHT] += 1


@hot_kernel
def _refresh(tree: BTree, depth: Int) -> None:
    """Bring ``low`` of the inner entries above a depth of the first path up to date."""
    path = tree.path[0]
    for above in range(depth - 1, -1, -1):
        node, place = path[above, 0], path[above, 1]
        tree.low[node, place] = tree.add[node, place] + least_of(tree, path[above + 1, 0])


@hot_kernel
def insert_entry(tree: BTree, key: Int, tie: Int, low: Int) -> None:
    """Insert an entry that is not there; the tree must have `nodes_needed` free. ``low`` is relative to its leaf."""
    descend(tree, key, tie, tree.path[0])
    insert_here(tree, key, tie, low)


@hot_kernel
def insert_here(tree: BTree, key: Int, tie: Int, low: Int) -> None:
    """Insert an entry as `insert_entry` does, where the first path already leads to its place."""
    path = tree.path[0]
    depth = tree.state[HEIGHT]
    is_leaf = True
    node = path[depth, 0]
    at = path[depth, 1]
    if tree.size[node] > 0:
        key_here = tree.key[node, at]
        at += key_here < key or (key_here == key and tree.tie[node, at] <= tie)
    if at == 0:  # before all others: every node on the way begins with it
        for above in range(depth):
            tree.key[path[above, 0], 0] = key
            tree.tie[path[above, 0], 0] = tie
    entry = (np.int64(key), np.int64(tie), np.int64(low), np.int64(0), np.int64(0))
    tree.state[N_ENTRIES] += 1
    while tree.size[node] == FANOUT:
        right = _split(tree, node, is_leaf)
        half = np.int64(tree.size[node])
        if at <= half:
            _place_entry(tree, node, at, entry)
        else:
            _place_entry(tree, right, at - half, entry)
        is_leaf = False
        if depth == 0:
            _grow_root(tree, node, right)
            return
        depth -= 1
        parent, place = path[depth, 0], path[depth, 1]
        added = tree.add[parent, place]
        tree.low[parent, place] = added + least_of(tree, node)
        entry = (tree.key[right, 0], tree.tie[right, 0], added + least_of(tree, right), added, np.int64(right))
        node, at = parent, place + 1
    _place_entry(tree, node, at, entry)
    _refresh(tree, depth)


@hot_kernel
def _remove_place(tree: BTree, node: Int, at: Int) -> None:
    for i in range(at, tree.size[node] - 1):
        _copy_entry(tree, node, i + 1, node, i)
    tree.size[node] -= 1
    tree.key[node, tree.size[node]] = NO_KEY


@hot_kernel
def _join(tree: BTree, parent: Int, at: Int, is_leaf: bool) -> None:
    """Move the child at ``at + 1`` of a node into the child at ``at``, and free it."""
    left, right = np.int64(tree.child[parent, at]), np.int64(tree.child[parent, at + 1])
    begin = np.int64(tree.size[left])
    for i in range(tree.size[right]):
        _copy_entry(tree, right, i, left, begin + i)
    tree.size[left] += tree.size[right]
    moved = tree.add[parent, at + 1] - tree.add[parent, at]
    shift_entries(tree, left, begin, np.int64(tree.size[left]), moved, is_leaf)
    _free_node(tree, right)
    _remove_place(tree, parent, at + 1)
    tree.low[parent, at] = tree.add[parent, at] + least_of(tree, left)


@hot_kernel
def _shrink_root(tree: BTree) -> None:
    """Let the only child of the root be the root; an empty inner root becomes an empty leaf."""
    root = tree.state[ROOT]
    while tree.state[HEIGHT] > 0 and tree.size[root] <= 1:
        tree.state[HEIGHT] -= 1
        if tree.size[root] == 0:
            tree.state[HEIGHT] = 0
            return
        child = np.int64(tree.child[root, 0])
        is_leaf = tree.state[HEIGHT] == 0
        shift_entries(tree, child, np.int64(0), np.int64(tree.size[child]), tree.add[root, 0], is_leaf)
        _free_node(tree, root)
        tree.state[ROOT] = child
        root = child


@hot_kernel
def _move_start(tree: BTree, depth: Int) -> None:
    """Tell the inner entries above a node of the first path that it begins elsewhere.

    Otherwise a key between the old and the new beginning would lead here, where no entry is at or before it.
    """
    path = tree.path[0]
    node = path[depth, 0]
    for above in range(depth - 1, -1, -1):
        parent, place = path[above, 0], path[above, 1]
        tree.key[parent, place] = tree.key[node, 0]
        tree.tie[parent, place] = tree.tie[node, 0]
        if place > 0:
            return


@hot_kernel
def delete_entry(tree: BTree, key: Int, tie: Int) -> bool:
    """Delete an entry; False when it is not there."""
    path = tree.path[0]
    descend(tree, key, tie, path)
    depth = tree.state[HEIGHT]
    node, at = path[depth, 0], path[depth, 1]
    if tree.key[node, at] != key or tree.tie[node, at] != tie:
        return False
    delete_here(tree)
    return True


@hot_kernel
def delete_here(tree: BTree) -> None:
    """Delete the entry to which the first path leads."""
    path = tree.path[0]
    depth = tree.state[HEIGHT]
    node, at = path[depth, 0], path[depth, 1]
    _remove_place(tree, node, at)
    tree.state[N_ENTRIES] -= 1
    if at == 0 and tree.size[node] > 0:
        _move_start(tree, depth)
    while depth > 0:
        is_leaf = depth == tree.state[HEIGHT]
        node = path[depth, 0]
        parent, place = path[depth - 1, 0], path[depth - 1, 1]
        size, siblings = tree.size[node], tree.size[parent]
        if size == 0:
            _free_node(tree, node)
            _remove_place(tree, parent, place)
            if place == 0 and siblings > 1:
                _move_start(tree, depth - 1)
        elif size < SPARSE and place + 1 < siblings and size + tree.size[tree.child[parent, place + 1]] <= _JOINED:
            _join(tree, parent, place, is_leaf)
        elif size < SPARSE and place > 0 and size + tree.size[tree.child[parent, place - 1]] <= _JOINED:
            _join(tree, parent, place - 1, is_leaf)
        else:
            tree.low[parent, place] = tree.add[parent, place] + least_of(tree, node)
        depth -= 1
    _shrink_root(tree)
