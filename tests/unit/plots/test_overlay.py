from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from tamis.errors import ModelError
from tamis.overlay.seat import Shape
from tamis.plots.overlay import draw_overlay
from tamis_lab.peers.containment import grow_tree


def trees() -> dict[str, list[object]]:
    """Return a tree before and after the split of its only node."""
    rng = np.random.default_rng(3)
    lo = rng.uniform(0, 700, (6, 2))
    hi = lo + rng.uniform(20, 200, (6, 2))
    before = list(grow_tree(lo[:5], hi[:5], Shape(2, 5)).seats())
    after = list(grow_tree(lo, hi, Shape(2, 5)).seats())
    return {"before": copy.deepcopy(before), "after": after}


def test_a_split_is_drawn_and_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    shown = trees()
    assert [max(seat.top for seat in seats) for seats in shown.values()] == [1, 2]  # type: ignore[attr-defined]
    for name in ("one.svg", "two.svg"):
        draw_overlay(shown, tmp_path / name, labels=("a", "b"))  # type: ignore[arg-type]
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert all(word in text for word in ("before", "after", "level", "p0", "p5"))
    draw_overlay({"one": shown["after"]}, tmp_path / "tree.png")  # type: ignore[dict-item]
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")


def test_a_wrong_kind_of_file_and_no_tree_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        draw_overlay({"x": []}, tmp_path / "tree.txt")
    with pytest.raises(ModelError):
        draw_overlay({}, tmp_path / "tree.svg")
