"""The tree of a network of peers: who is whose child, and the boxes that they answer for, on two attributes.

Left the tree, one row per level; right the plane: thin boxes are subscriptions, thick ones the MBRs of nodes, coloured
by level. Several trees stand one above the other, as before and after a split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import ModelError
from tamis.overlay.measures import widths
from tamis.overlay.seat import Seat
from tamis.overlay.space import Box
from tamis.plots.canvas import check_kind, new_figure, write_figure

__all__ = ["draw_overlay", "narrowest_axes"]

_COLOURS = ("#8a8a8a", "#1b6ca8", "#c8552b", "#3b7d3b", "#7a3b8f", "#b8860b")
#: Seats up to which names are written.
_NAMED = 40


def draw_overlay(
    trees: Mapping[str, Sequence[Seat]],
    path: Path,
    *,
    axes: tuple[int, int] = (0, 1),
    labels: tuple[str, str] = ("", ""),
) -> None:
    """Write a picture of one or more trees, each with its title; ``axes`` are the two axes of the space to show."""
    check_kind(path)
    if not trees:
        raise ModelError("there is no tree to draw")
    figure = new_figure(11.0, 4.2 * len(trees))
    grid = figure.subplots(len(trees), 2, squeeze=False, width_ratios=(3, 2))
    for row, (title, seats) in enumerate(trees.items()):
        _draw_tree(grid[row][0], list(seats), title)
        _draw_plane(grid[row][1], list(seats), axes, labels)
    write_figure(figure, path)


def narrowest_axes(seats: Sequence[Seat]) -> tuple[int, int]:
    """Return the two axes on which subscriptions are narrowest on average: those that show most."""
    if not seats or len(seats[0].space) < 2:
        raise ModelError("a picture needs a seat and two axes")
    first, second = np.argsort(np.mean([widths(seat.box) for seat in seats], axis=0), kind="stable")[:2]
    return int(first), int(second)


def _draw_tree(ax: Any, seats: list[Seat], title: str) -> None:
    """Draw each node above its children; leaves stand in the order in which the tree visits them."""
    by_name = {seat.name: seat for seat in seats}
    positions: dict[tuple[str, int], float] = {}
    for root in (seat for seat in seats if seat.parent is None):
        _position(root, root.top, by_name, positions)
    for (name, at), x in positions.items():
        for child in by_name[name].levels[at - 1].names if at else ():
            if (child, at - 1) in positions:
                own = child == name
                ax.plot([x, positions[child, at - 1]], [at, at - 1], color="#444444", lw=1.8 if own else 0.7, zorder=1)
        ax.scatter([x], [at], s=70 if at else 28, color=_colour(at), zorder=2)
        if len(seats) <= _NAMED:
            ax.annotate(name.rpartition("/")[0], (x, at), (0, 5), textcoords="offset points", fontsize=7, ha="center")
    ax.set_title(title, loc="left", fontsize=10)
    ax.set_xticks([])
    ax.set_yticks(range(max((seat.top for seat in seats), default=0) + 1))
    ax.set_ylabel("level")
    ax.margins(0.05, 0.18)
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)


def _position(seat: Seat, at: int, by_name: dict[str, Seat], positions: dict[tuple[str, int], float]) -> float:
    """Give a node the middle of its children; leaves take the next free place."""
    if at == 0:
        x = float(sum(level == 0 for _, level in positions))
    else:
        children = [by_name[name] for name in seat.levels[at - 1].names if name in by_name]
        x = float(np.mean([_position(child, at - 1, by_name, positions) for child in children]))
    positions[seat.name, at] = x
    return x


def _draw_plane(ax: Any, seats: list[Seat], axes: tuple[int, int], labels: tuple[str, str]) -> None:
    for seat in seats:
        _draw_box(ax, seat.box, axes, 0)
        for at in range(1, seat.top + 1):
            _draw_box(ax, seat.mbr(at), axes, at)
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    ax.set_aspect("equal")


def _draw_box(ax: Any, box: Box, axes: tuple[int, int], at: int) -> None:
    x, y = axes
    low, high = np.maximum(box[0], 0.0), np.maximum(box[1], 0.0)
    sides = [low[x], high[x], high[x], low[x], low[x]], [low[y], low[y], high[y], high[y], low[y]]
    ax.plot(*sides, color=_colour(at), lw=0.6 if at == 0 else 1.0 + 0.5 * at, alpha=0.9, zorder=at + 1)


def _colour(at: int) -> str:
    return _COLOURS[min(at, len(_COLOURS) - 1)]
