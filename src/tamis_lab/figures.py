"""Pictures of an experiment: drawn from its rows and charts, written beside the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tamis.plots.canvas import write_figure
from tamis_lab.experiment import Experiment
from tamis_lab.plots.charts import draw_chart
from tamis_lab.results import Results

__all__ = ["KINDS", "draw_figures"]

KINDS: Final = ("svg", "png")


def draw_figures(experiment: Experiment, results: Results) -> list[Path]:
    """Draw every chart of an experiment as SVG and PNG; returns the files."""
    rows, written = results.read(experiment), []
    for number, chart in enumerate(experiment.charts, 1):
        figure = draw_chart(rows, chart)
        for kind in KINDS:
            written.append(results.picture(experiment, number, kind))
            write_figure(figure, written[-1])
    return written
