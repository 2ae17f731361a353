"""The map of deliveries: regions coloured by a count, and over them the wind fields and tracks that caused it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from tamis.errors import ModelError
from tamis.model.geometry_text import read_wkbs
from tamis.plots.canvas import new_figure

__all__ = ["View", "draw_map"]

#: West, south, east, north, in degrees.
View: TypeAlias = tuple[float, float, float, float]

_SEA, _LAND, _BORDER, _FIELD, _INK = "#eaf0f4", "#fbfaf6", "#b9b4a8", "#2f5d8a", "#22303c"
#: From a few to many; told apart in grey, too.
_SHADES = ("#fdeab0", "#fbc97b", "#f59d52", "#e56a37", "#c63a2b", "#961f2a", "#5e1027")
#: Where a shade may begin: the first series with no more steps than shades is taken.
_SERIES = ((1, 2, 5), (1, 3), (1,))

#: Points closer than this part of the map's width look like one.
_FINEST = 1 / 1500
#: More fields than this are pixels in an SVG, too: they would make most of the file.
_MAX_OUTLINES = 500
#: More storms than this are not named one by one.
_MAX_NAMES = 12


def draw_map(
    regions: pa.Table,
    fixes: pa.Table | None = None,
    *,
    title: str,
    counted: str = "deliveries per region",
    view: View | None = None,
) -> Any:
    """Return a figure: each region in the shade of its count, wind fields and tracks over them.

    Parameters
    ----------
    regions
        ``region`` (WKB polygons in degrees) and ``count`` (whole numbers; null counts as 0).
    fixes
        ``disc`` (WKB polygons or null), ``storm``, ``lon`` and ``lat``, a storm's positions in order of time.
    title
        What the map shows.
    counted
        What was counted: the title of the legend.
    view
        The part that is shown; unless told, the regions that have a count, and some room.
    """
    if not regions.num_rows:
        raise ModelError("there is no region to draw")
    shapes = read_wkbs(regions["region"].to_pylist())
    counts = pc.fill_null(regions["count"], 0).to_numpy()
    west, south, east, north = view or _around(shapes[counts > 0] if (counts > 0).any() else shapes)
    stretch = 1 / np.cos(np.radians((south + north) / 2))
    figure = new_figure(10.5, 1.0 + min(9.0, 10.5 * stretch * (north - south) / (east - west)))
    figure.set_dpi(150)
    panel = figure.subplots()
    panel.set(xlim=(west, east), ylim=(south, north), aspect=stretch, xticks=[], yticks=[], facecolor=_SEA)
    panel.spines[:].set_color(_BORDER)
    panel.set_title(title, loc="left", color=_INK, fontsize=13, fontweight="bold")
    handles = _draw_regions(panel, shapes, counts, shapely.box(west, south, east, north))
    if fixes is not None:
        handles += _draw_fixes(panel, fixes, shapely.box(west, south, east, north))
    legend = {"loc": "outside lower center", "ncols": len(handles), "frameon": False, "fontsize": 8.5}
    figure.legend(handles=handles, title=counted, **legend)
    return figure


def _around(shapes: npt.NDArray[Any]) -> View:
    west, south, east, north = (float(side) for side in shapely.total_bounds(shapes))
    room = 0.04 * max(east - west, north - south)
    return west - room, south - room, east + room, north + room


def _draw_regions(
    panel: Any, shapes: npt.NDArray[Any], counts: npt.NDArray[np.int64], view: shapely.Polygon
) -> list[Any]:
    """Draw what lies in view; return the legend's patches."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    is_visible = shapely.intersects(shapes, view)
    width = view.bounds[2] - view.bounds[0]
    # Together, so that neighbours keep one border: no gaps between them, whatever is left out.
    simple = shapely.coverage_simplify(shapes[is_visible], width * _FINEST)
    starts = _starts(int(counts.max(initial=0)))
    shades = [_LAND, *_spread(len(starts))]
    colours = [shades[step] for step in np.searchsorted(starts, counts[is_visible], side="right")]
    rings = [shapely.get_coordinates(shape) for shape in simple]
    panel.add_collection(PolyCollection(rings, facecolors=colours, edgecolors=_BORDER, linewidths=0.25))
    names = ["none", *_names(starts, int(counts.max(initial=0)))]
    return [Patch(facecolor=shade, edgecolor=_BORDER, label=name) for shade, name in zip(shades, names, strict=True)]


def _draw_fixes(panel: Any, fixes: pa.Table, view: shapely.Polygon) -> list[Any]:
    """Draw fields as outlines and storms as lines; return the legend's lines."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    discs = read_wkbs(pc.drop_null(fixes["disc"]).to_pylist())
    discs = discs[shapely.intersects(discs, view)]
    # So faint that hundreds of fields still let the land through, and a dozen can be told apart.
    faint = float(np.clip(6 / np.sqrt(max(len(discs), 1)), 0.06, 0.55))
    outlines = [shapely.get_coordinates(disc) for disc in discs]
    fields = LineCollection(outlines, colors=_FIELD, linewidths=0.7, alpha=faint)
    fields.set_rasterized(len(outlines) > _MAX_OUTLINES)
    panel.add_collection(fields)
    tracks = _tracks(fixes)
    strong = 0.9 if len(tracks) <= _MAX_NAMES else 0.25
    panel.add_collection(LineCollection(list(tracks.values()), colors=_INK, linewidths=1.2, alpha=strong))
    if len(tracks) <= _MAX_NAMES:
        for storm, points in tracks.items():
            _name_track(panel, storm, points)
    return [
        Line2D([], [], color=_FIELD, linewidth=1.4, alpha=max(faint, 0.6), label="wind field"),
        Line2D([], [], color=_INK, linewidth=1.4, alpha=max(strong, 0.6), label="track"),
    ]


def _tracks(fixes: pa.Table) -> dict[str, npt.NDArray[np.float64]]:
    points = np.column_stack((fixes["lon"].to_numpy(), fixes["lat"].to_numpy()))
    storms = np.array(fixes["storm"].to_pylist(), dtype=object)
    return {storm: points[storms == storm] for storm in dict.fromkeys(storms)}


def _name_track(panel: Any, storm: str, points: npt.NDArray[np.float64]) -> None:
    panel.plot(*points.T, linestyle="", marker="o", markersize=2.4, color=_INK)
    (west, east), (south, north) = panel.get_xlim(), panel.get_ylim()
    shown = points[(points > (west, south)).all(axis=1) & (points < (east, north)).all(axis=1)]
    if not len(shown):
        return
    point = shown[len(shown) // 3]  # early, but not at the edge, where many come in together
    # Towards the middle of the map, so that the name stays on it.
    side = 1 if point[0] < (west + east) / 2 else -1
    placement = {"xytext": (6 * side, 6), "textcoords": "offset points", "ha": "left" if side == 1 else "right"}
    looks = {"fontsize": 9, "fontweight": "bold", "color": _INK}
    panel.annotate(
        storm, point, bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1}, **placement, **looks
    )


def _starts(most: int) -> list[int]:
    """Return the counts at which the shades begin, up to the highest count: each number its own while they last.

    >>> _starts(4), _starts(90), _starts(800), _starts(0)
    ([1, 2, 3, 4], [1, 2, 5, 10, 20, 50], [1, 3, 10, 30, 100, 300], [])
    """
    starts = list(range(1, min(most, len(_SHADES) + 1) + 1))
    for series in _SERIES:
        if len(starts) <= len(_SHADES):
            break
        starts = [first * 10**power for power in range(len(str(most))) for first in series if first * 10**power <= most]
    return starts[: len(_SHADES)]


def _spread(n: int) -> list[str]:
    """Return n shades, from the lightest to the darkest, as far apart as they can be."""
    return [_SHADES[round(index)] for index in np.linspace(0, len(_SHADES) - 1, n)]


def _names(starts: list[int], most: int) -> list[str]:
    """Name the steps.

    >>> _names([1, 2, 5], 8)
    ['1', '2 to 4', '5 to 8']
    """
    ends = [*(start - 1 for start in starts[1:]), most][: len(starts)]
    return [f"{start:,}" if start == end else f"{start:,} to {end:,}" for start, end in zip(starts, ends, strict=True)]
