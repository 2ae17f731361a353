"""The picture of a backtest: firings per day for the busiest rules, or per rule where no day is known."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from tamis.plots.canvas import new_figure
from tamis.reduction.backtest import Backtest

__all__ = ["draw_backtest"]

#: Rules that get a row of their own; the rest are one row.
_MOST: Final = 20


def draw_backtest(report: Backtest) -> Any:
    """Return a figure: a map of rules and days where days are known, bars of firings otherwise."""
    busiest = sorted(report.rules, key=lambda rule: -report.tally.fired[rule])[:_MOST]
    figure = new_figure(9.0, 1.5 + 0.28 * max(len(busiest), 3))
    axes = figure.subplots()
    texts = [report.titles[rule] or str(rule) for rule in busiest]
    names = [text if len(text) <= 40 else f"{text[:37]}..." for text in texts]
    days = sorted({day for rule in busiest for day in report.tally.by_day.get(rule, ())})
    if days:
        counts = [[report.tally.by_day.get(rule, Counter())[day] for day in days] for rule in busiest]
        shown = axes.imshow(counts, aspect="auto", cmap="Blues")
        figure.colorbar(shown, ax=axes, label="firings")
        step = max(1, len(days) // 12)
        axes.set_xticks(range(0, len(days), step), days[::step], rotation=45, ha="right", fontsize=7)
        axes.set_yticks(range(len(names)), names, fontsize=7)
    else:
        axes.barh(range(len(names)), [report.tally.fired[rule] for rule in busiest], color="#4878a8")
        axes.set_yticks(range(len(names)), names, fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("firings")
    axes.set_title(f"{report.tally.events:,} events, {len(report.rules):,} rules, {len(report.never):,} never fired")
    return figure
