"""``tamis bench regions``: joins of polygons, the relation, the CR-tree, the simplifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import QUICK_SIZES, chosen, effort, shown, sizes_of

if TYPE_CHECKING:
    from tamis_bench.rows import Row

__all__ = ["EPILOG", "regions"]

EPILOG = examples("tamis bench regions --quick", "tamis bench regions --part joins --size 100k --json")


def regions(
    part: Annotated[
        str, typer.Option(metavar="A,B", help="joins, real, relation, cr-tree, simplifier; all otherwise.")
    ] = "",
    size: Annotated[str, typer.Option(metavar="N", help="How many standing regions, as 500, 10k or 100k.")] = "",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Measure N times; the best counts.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
) -> None:
    """Measure regions: joins of polygons with points and polygons, the relation, the CR-tree, the simplifier.

    Ratios are to STRtree with relate, to shapely.relate, to asking every constraint, and to no simplifier.
    """
    from tamis_bench.regions import PARTS, measure_regions

    parts = chosen("part", part, tuple(PARTS))
    n = sizes_of(size or (QUICK_SIZES if quick else "100k"))[-1]
    rows = list(shown(measure_regions(parts, n, effort(quick, repeat)), json))
    if not json:
        _print_rows(rows)


def _print_rows(rows: Sequence[Row]) -> None:
    from tamis.cli.screen import make_table, output
    from tamis_bench.report import human, size_name

    table = make_table("work", "n", "system", "rate", "unit", "ratio", "note", right=("n", "rate", "ratio"))
    for column in table.columns:
        if column.justify == "right":
            column.min_width = 6  # on a narrow screen notes are cut, not numbers
    for row in rows:
        rate = "left out" if row.rate is None else human(row.rate)
        ratio = "" if row.ratio is None else f"{human(row.ratio)}x"
        table.add_row(row.work, size_name(row.n), row.system, rate, row.unit, ratio, row.note)
    output().print(table)
