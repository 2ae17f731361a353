"""Builds the boxes of subscriptions in columns; `boxes_of` builds those of a single filter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tamis.geometry.spaces import circle_balls
from tamis.index.packed.axes import AttributePart, Axes
from tamis.index.packed.boxes_of import Box, sides_of_circle
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.language.templates.columns import TextColumns

__all__ = ["ColumnSides", "circle_boxes", "sides_of_columns"]

#: The sides of many boxes by axis, float64[n] each.
ColumnSides = dict[int, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]


def sides_of_columns(columns: TextColumns, axes: Axes) -> ColumnSides:
    """Return the sides of texts by axis; what demands a value demands it even where it is open below."""
    sides: ColumnSides = {}
    for name, (lo, hi) in columns.ranges.items():
        sides[axes.number(name, AttributePart.NUMBER)] = np.maximum(lo, ANY_VALUE), hi
    for name, texts in columns.strings.items():
        about = columns.about(name)
        codes = np.zeros(len(texts))
        codes[about] = [axes.code(name, texts[i]) for i in about.tolist()]
        sides[axes.number(name, AttributePart.CODE)] = codes, codes
    for name, free in columns.free.items():
        axis = axes.number(name, AttributePart.NUMBER if name in columns.ranges else AttributePart.CODE)
        lo, hi = sides[axis]
        sides[axis] = np.where(free, -np.inf, lo), np.where(free, np.inf, hi)
    return sides


def circle_boxes(columns: TextColumns, axes: Axes) -> Iterator[tuple[int, list[tuple[int, Box]]]]:
    """Yield row and boxes of each text with a circle, which are numbered as those of its first filter.

    The box of the circle proposes, and its ball decides.
    """
    circles = columns.circles
    assert circles is not None
    sides = sides_of_columns(columns, axes)
    ranges = {axis: list(zip(lo.tolist(), hi.tolist(), strict=True)) for axis, (lo, hi) in sides.items()}
    x, y = (axes.number(circles.attribute, part) for part in (AttributePart.X, AttributePart.Y))
    balls = circle_balls(circles.attribute, circles.x, circles.y, circles.radii, on_sphere=circles.on_sphere)
    centers = zip(circles.x.tolist(), circles.y.tolist(), circles.radii.tolist(), strict=True)
    for i, (row, ball, (cx, cy, radius)) in enumerate(zip(columns.rows.tolist(), balls, centers, strict=True)):
        own = {axis: sides[i] for axis, sides in ranges.items()}
        around = sides_of_circle((cx, cy, cx, cy), radius, (x, y), on_sphere=circles.on_sphere)
        yield row, [(0, Box({**own, **more}, exact=False, ball=ball)) for more in around]
