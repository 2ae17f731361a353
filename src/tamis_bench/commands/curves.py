"""``tamis bench curves``: Hilbert keys, ranges of boxes, the range table of MICS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tamis.cli.options import Json, examples

__all__ = ["EPILOG", "curves"]

EPILOG = examples(
    "tamis bench curves --quick",
    "tamis bench curves --json > curves.jsonl",
    "tamis bench curves --picture insertion.svg",
)

#: A quick run is this part of a whole one.
_QUICK_SCALE = 0.01


def curves(
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Measure N times; the best counts.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the time of insertion into an .svg, .png or .pdf file.")
    ] = None,
) -> None:
    """Measure curves: keys and ranges per second, the range table, the time to insert into small and large tables.

    Ranges are compared with a second system that goes through all cells of a box; wrong answers stop the run.
    """
    from tamis.cli.screen import make_table, output, write_json_lines
    from tamis.plots.canvas import check_kind, new_figure, write_figure
    from tamis_bench.curves import measure_curves
    from tamis_bench.plots.curves import draw_insertion
    from tamis_bench.report import human
    from tamis_bench.timing import Effort

    if picture is not None:
        check_kind(picture)
        new_figure(1, 1)  # a missing matplotlib is reported before the measurement
    effort = Effort(repeat=1, seconds=0.05, chunk=100) if quick else Effort(repeat=repeat)
    rows = []
    for row in measure_curves(effort, _QUICK_SCALE if quick else 1.0):
        rows.append(row)
        if json:
            write_json_lines([row.as_json()])
    if not json:
        names = ("work", "n", "system", "what", "rate", "unit", "ratio", "goal")
        table = make_table(*names, right=("n", "rate", "ratio", "goal"))
        for row in rows:
            numbers = [human(number) if number is not None else "" for number in (row.rate, row.ratio, row.goal)]
            table.add_row(row.work, human(row.n), row.system, row.what, numbers[0], row.unit, *numbers[1:])
        output().print(table)
    if picture is not None:
        write_figure(draw_insertion(rows), picture)
