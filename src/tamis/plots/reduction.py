"""The picture of a reduction: the subscriptions before, each in the colour of its fate, and what remains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tamis.index.dominance.outline import Side, outline_of
from tamis.model.subscription import Subscription
from tamis.plots.canvas import new_figure
from tamis.reduction import Reduction

__all__ = ["draw_reduction"]

#: Colour and order of the fates; what remains is drawn last, on top.
_FATES: Final = {
    "impossible": "#d9d9d9",
    "covered": "#9db8d2",
    "equivalent": "#c9a9d6",
    "subsumed": "#9ccfae",
    "merged": "#e3b96b",
    "kept": "#b3261e",
}
#: Boxes that one panel shows; of more an even sample.
_MOST: Final = 2_000


def draw_reduction(before: Sequence[Subscription], reduction: Reduction) -> Any:
    """Return a figure: boxes on the two numeric attributes most often bounded, before and after.

    With one such attribute the boxes are bars, one below the other; without any, the figure shows counts only.
    """
    figure = new_figure(9.0, 4.4)
    names = _axes(before)
    left, right, counts = figure.subplots(1, 3, width_ratios=[4, 4, 2])
    fates = _fates(reduction)
    _draw_boxes(left, before, names, [fates.get(subscription.id, "kept") for subscription in before])
    after = list(reduction.subscriptions)
    _draw_boxes(
        right, after, names, ["merged" if subscription.id in reduction.merged else "kept" for subscription in after]
    )
    right.sharex(left)
    right.sharey(left)
    left.set_title(f"before: {reduction.before:,}")
    right.set_title(f"after: {reduction.after:,}")
    _draw_counts(counts, reduction)
    return figure


def _fates(reduction: Reduction) -> Mapping[object, str]:
    fates: dict[object, str] = {}
    for fate in ("covered", "equivalent", "subsumed"):
        fates |= dict.fromkeys(getattr(reduction, fate), fate)
    fates |= dict.fromkeys(reduction.impossible, "impossible")
    return fates | {id: "merged" for ids in reduction.merged.values() for id in ids}


def _sides(subscription: Subscription) -> dict[str, Side]:
    """Return the outer sides of a subscription by attribute."""
    outline = outline_of(subscription.filters)
    return {} if outline is None else {name: side for (name, part), side in outline.outer.items() if part == ""}


def _axes(subscriptions: Sequence[Subscription]) -> list[str]:
    often = Counter(
        name
        for subscription in subscriptions[:_MOST]
        for name, side in _sides(subscription).items()
        if any(map(math.isfinite, side))
    )
    return [name for name, _ in sorted(often.items(), key=lambda pair: (-pair[1], pair[0]))[:2]]


def _draw_boxes(panel: Any, subscriptions: Sequence[Subscription], names: list[str], fates: Sequence[str]) -> None:
    from matplotlib.patches import Rectangle

    step = max(1, -(-len(subscriptions) // _MOST))
    chosen = [
        (subscription, fate)
        for subscription, fate in zip(subscriptions[::step], fates[::step], strict=True)
        if fate != "impossible"
    ]
    spans = [_spans(subscription, names, row) for row, (subscription, _) in enumerate(chosen)]
    limits = [_limits([span[k] for span in spans]) for k in (0, 1)]
    for (_, fate), span in sorted(zip(chosen, spans, strict=True), key=lambda pair: list(_FATES).index(pair[0][1])):
        (x, right), (y, top) = ((max(a, low), min(b, high)) for (a, b), (low, high) in zip(span, limits, strict=True))
        colour = _FATES[fate]
        panel.add_patch(
            Rectangle((x, y), right - x, top - y, facecolor=colour, edgecolor=colour, alpha=0.35, linewidth=0.8)
        )
    panel.set_xlim(*limits[0])
    panel.set_ylim(*limits[1])
    panel.set_xlabel(names[0] if names else "")
    panel.set_ylabel(names[1] if len(names) > 1 else "")
    panel.spines[["top", "right"]].set_visible(False)


def _spans(subscription: Subscription, names: list[str], row: int) -> tuple[Side, Side]:
    """Return where a subscription lies on two axes; on an axis that is none it has a line of its own."""
    sides, unbounded = _sides(subscription), (-math.inf, math.inf)
    first = sides.get(names[0], unbounded) if names else unbounded
    return first, sides.get(names[1], unbounded) if len(names) > 1 else (float(row), row + 0.8)


def _limits(sides: Sequence[Side]) -> tuple[float, float]:
    """Return the range of all finite ends, with some room for open ones."""
    ends = [end for side in sides for end in side if abs(end) < 1e300]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _draw_counts(panel: Any, reduction: Reduction) -> None:
    counts = {
        "kept": len(reduction.kept),
        "merged": sum(map(len, reduction.merged.values())),
        "subsumed": len(reduction.subsumed),
        "equivalent": len(reduction.equivalent),
        "covered": len(reduction.covered),
        "impossible": len(reduction.impossible),
    }
    names = [name for name, count in counts.items() if count]
    bars = panel.barh(names, [counts[name] for name in names], color=[_FATES[name] for name in names])
    panel.bar_label(bars, labels=[f"{counts[name]:,}" for name in names], padding=2)
    panel.invert_yaxis()
    panel.xaxis.set_visible(False)
    panel.margins(x=0.35)
    panel.spines[["top", "right", "bottom"]].set_visible(False)
