"""The automaton of many literals (Aho and Corasick), dense over classes of bytes.

Nodes are numbered by depth. ``table[node * width + class]`` is the next node, already multiplied by the width, shifted
left by one; its lowest bit is set if a literal ends there. ``own[node]`` is the literal that ends in a node, or -1, and
``link[node]`` the nearest node on the chain of suffixes where another literal ends, or 0. Literals are short, and so
are the chains: a text costs a bounded number of steps per byte, whatever it contains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.kernels.compile import Int, kernel

__all__ = ["Automaton", "build_automaton"]

_Bytes = npt.NDArray[np.uint8]


class Automaton(NamedTuple):
    """The arrays of an automaton; ``sizes`` are the lengths of the literals, ``longest`` the largest of them."""

    classes: _Bytes
    table: npt.NDArray[np.uint32]
    own: npt.NDArray[np.int32]
    link: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int64]
    width: int
    longest: int


@kernel
def _shared(at: npt.NDArray[np.int64], text: _Bytes, i: Int) -> Int:
    """Return how many bytes literal i has in common with the one before it."""
    k = 0
    if i:
        size = at[i + 1] - at[i]
        while k < size and at[i - 1] + k < at[i] and text[at[i - 1] + k] == text[at[i] + k]:
            k += 1
    return k


@kernel
def _trie(
    at: npt.NDArray[np.int64], text: _Bytes, classes: _Bytes
) -> tuple[npt.NDArray[np.int32], _Bytes, npt.NDArray[np.int32], npt.NDArray[np.int32], Int]:
    """Return parent, class, depth and own literal of each node, in the order of the sorted literals; and the depth."""
    nodes, deep = 1, 0
    for i in range(len(at) - 1):
        nodes += at[i + 1] - at[i] - _shared(at, text, i)
        deep = max(deep, at[i + 1] - at[i])
    parent, symbol = np.zeros(nodes, np.int32), np.zeros(nodes, np.uint8)
    depth, own = np.zeros(nodes, np.int32), np.full(nodes, -1, np.int32)
    path = np.zeros(deep + 1, np.int32)
    n_made = 1
    for i in range(len(at) - 1):
        size = at[i + 1] - at[i]
        for d in range(_shared(at, text, i), size):
            parent[n_made], symbol[n_made], depth[n_made] = path[d], classes[text[at[i] + d]], d + 1
            path[d + 1] = n_made
            n_made += 1
        own[path[size]] = i
    return parent, symbol, depth, own, deep


@kernel
def build_automaton(
    at: npt.NDArray[np.int64], text: _Bytes, classes: _Bytes, width: Int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return table, own and link for literals ``text[at[i]:at[i + 1]]``, sorted and distinct, none empty."""
    parent, symbol, depth, trie_own, deep = _trie(at, text, classes)
    nodes = len(parent)
    level = np.zeros(deep + 2, np.int64)
    for s in range(nodes):
        level[depth[s] + 1] += 1
    level = np.cumsum(level)
    order, number, fill = np.empty(nodes, np.int32), np.empty(nodes, np.int32), level.copy()
    for s in range(nodes):
        number[s] = fill[depth[s]]
        order[fill[depth[s]]] = s
        fill[depth[s]] += 1
    table, fail = np.zeros(nodes * width, np.uint32), np.zeros(nodes, np.int32)
    own, link = np.full(nodes, -1, np.int32), np.zeros(nodes, np.int32)
    for d in range(1, deep + 1):
        for s in range(level[d], level[d + 1]):
            e = number[parent[order[s]]] * width + symbol[order[s]]
            fail[s], table[e], own[s] = table[e], s, trie_own[order[s]]
            link[s] = fail[s] if own[fail[s]] >= 0 else link[fail[s]]
        for s in range(level[d], level[d + 1]):
            for c in range(width):  # children of s itself overwrite this at the next level
                table[s * width + c] = table[fail[s] * width + c]
    for e in range(len(table)):
        node = np.int64(table[e])
        table[e] = node * width << 1 | (own[node] >= 0 or link[node] > 0)
    return table, own, link
