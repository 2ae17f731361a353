"""Trees: their shapes, and what is refused."""

from __future__ import annotations

import pytest

from tamis.errors import ModelError
from tamis.runtime.simulation.topology import SHAPES, Topology


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_every_shape_is_a_tree(shape: str, n: int) -> None:
    tree = Topology.of(shape, n, seed=3)
    assert (len(tree.brokers), len(tree.edges)) == (n, n - 1)
    assert len(tree.draw().splitlines()) == n


def test_shapes_differ() -> None:
    assert max(len(Topology.of("line", 9).neighbours(f"b{i}")) for i in range(1, 10)) == 2
    assert len(Topology.of("star", 9).neighbours("b1")) == 8
    assert Topology.of("balanced", 7).edges == (
        ("b1", "b2"),
        ("b1", "b3"),
        ("b2", "b4"),
        ("b2", "b5"),
        ("b3", "b6"),
        ("b3", "b7"),
    )
    assert Topology.of("random", 9, seed=1) == Topology.of("random", 9, seed=1) != Topology.of("random", 9, seed=2)


def test_an_edge_has_two_sides() -> None:
    tree = Topology.of("balanced", 7)
    assert tree.side("b2", "b1") == {"b2", "b4", "b5"}
    assert tree.side("b1", "b2") == {"b1", "b3", "b6", "b7"}


@pytest.mark.parametrize(
    ("brokers", "edges", "problem"),
    [
        ("ab", [("a", "c")], "not a broker"),
        ("aab", [("a", "b")], "same name"),
        ("abc", [("a", "b")], "tree"),
        ("abc", [("a", "b"), ("a", "b")], "tree"),
        ("abc", [("a", "b"), ("b", "c"), ("c", "a")], "tree"),
        ("", [], "1 to"),
    ],
)
def test_what_is_not_a_tree_is_refused(brokers: str, edges: list[tuple[str, str]], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        Topology(tuple(brokers), tuple(edges))


def test_what_is_not_a_shape_is_refused() -> None:
    with pytest.raises(ModelError, match="balanced, line, star, random"):
        Topology.of("ring", 3)
    with pytest.raises(ModelError, match="1 to"):
        Topology.of("line", 0)
