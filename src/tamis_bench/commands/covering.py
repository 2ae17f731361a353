"""``tamis bench covering``: who covers this box, by the exact index, a scan and the Z curve; and other conditions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import QUICK_SIZES, chosen, effort, shown, sizes_of

if TYPE_CHECKING:
    from tamis_bench.rows import Row

__all__ = ["EPILOG", "covering"]

EPILOG = examples("tamis bench covering --quick", "tamis bench covering --work intersects,or --size 10k,1M --json")


def covering(
    work: Annotated[str, typer.Option(metavar="A,B", help="Which workloads; all of them otherwise.")] = "",
    size: Annotated[str, typer.Option(metavar="N,M", help="How many boxes, as 10k or 1M; 100k,1M otherwise.")] = "",
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Measure N times; the best counts.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
) -> None:
    """Measure covering: who covers this box, by the exact index, a plain scan and the Z curve; and a whole reduction.

    Sets, alternatives, regions, balls and patterns are measured with the exact index alone. Answers that differ from
    the scan's stop the run, and so does a false cover of any system.
    """
    from tamis_bench.covering import SYSTEMS, WORKS, measure_covering
    from tamis_bench.covering_kinds import measure_kinds
    from tamis_bench.workloads.conditions import CONDITIONS

    works, systems = chosen("workload", work, (*WORKS, *CONDITIONS)), chosen("system", system, tuple(SYSTEMS))
    sizes, careful = sizes_of(size or (QUICK_SIZES if quick else "100k,1M")), effort(quick, repeat)
    boxes, kinds = ([name for name in works if name in group] for group in (WORKS, CONDITIONS))
    measured = itertools.chain(
        measure_covering(boxes, sizes, systems, careful),
        measure_kinds(kinds if "ours" in systems else (), sizes, careful),
    )
    rows = list(shown(measured, json))
    if not json:
        _print_covering(rows)


def _print_covering(rows: Sequence[Row]) -> None:
    from tamis.cli.screen import make_table, output
    from tamis_bench.report import human, size_name

    table = make_table(
        "work", "n", "system", "what", "rate", "unit", "ratio", "goal", right=("n", "rate", "ratio", "goal")
    )
    for row in rows:
        cells = ["" if number is None else human(number) for number in (row.rate, row.ratio, row.goal)]
        table.add_row(row.work, size_name(row.n), row.system, row.what, cells[0], row.unit, *cells[1:])
    console = output()
    console.print(table)
    for note in dict.fromkeys(row.note for row in rows if row.note):
        console.say(note, "dim")
    console.say("ratio: times as fast as the plain scan in this run. What the numbers mean: docs/covering.md")
