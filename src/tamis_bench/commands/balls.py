"""``tamis bench balls``: covers and matches of balls, in 2 to 384 dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import QUICK_SIZES, chosen, effort, shown, sizes_of

if TYPE_CHECKING:
    from tamis_bench.report import Sheet

__all__ = ["EPILOG", "balls"]

EPILOG = examples("tamis bench balls --quick", "OPENBLAS_NUM_THREADS=1 tamis bench balls")


def balls(
    work: Annotated[str, typer.Option(metavar="A,B", help="Which workloads; all of them otherwise.")] = "",
    size: Annotated[str, typer.Option(metavar="N,M", help="How many balls, as 500, 10k or 1M; 100k otherwise.")] = "",
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Measure N times; the best counts.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
) -> None:
    """Measure balls: covers sought per second, and events matched per second, in 2 to 384 dimensions.

    Set OPENBLAS_NUM_THREADS=1 to compare one thread with one. A system whose answers on a sample differ from those of
    the scan stops the run.
    """
    from tamis_bench.balls import SYSTEMS, WORKS, ball_sheet, measure_balls

    works, systems = chosen("workload", work, tuple(WORKS)), chosen("system", system, SYSTEMS)
    sizes = sizes_of(size or (QUICK_SIZES if quick else "100k"))
    rows = list(shown(measure_balls(works, sizes, systems, effort(quick, repeat)), json))
    if not json:
        _print_balls(ball_sheet(rows))


def _print_balls(sheet: Sheet) -> None:
    from tamis.cli.screen import make_table, output

    console = output()
    table = make_table(*sheet.names, right=sheet.names[sheet.left :])
    for line in sheet.lines:
        table.add_row(*line)
    console.print(table)
