"""``tamis bench text``: rules about text, beside what else finds text."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import chosen, effort, sizes_of

__all__ = ["EPILOG", "text"]

EPILOG = examples("tamis bench text --quick", "tamis bench text --size 300,3k,30k,300k --fields 8 --json")


def text(
    size: Annotated[str, typer.Option(metavar="N,M", help="How many patterns, as 300 or 30k.")] = "300,3k,30k,300k",
    fields: Annotated[int, typer.Option(min=2, max=200, metavar="N", help="String fields of an event.")] = 8,
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all that are installed otherwise.")] = "",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Measure N times; the best counts.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
) -> None:
    """Measure rules with two patterns each, in tables and one event at a time, in processor time.

    Peers that find literals alone are asked for one of the two patterns only. The answers of tamis on a sample are
    compared with a plain evaluation first.
    """
    from tamis.cli.screen import make_table, output, write_json_lines
    from tamis_bench.text import SYSTEMS, measure_text

    names = ("system", "patterns", "fields", "events/s", "build s", "bytes/pattern")
    table = make_table(*names, right=names[1:])
    sizes, systems = sizes_of("300,3k" if quick else size), chosen("system", system, tuple(SYSTEMS))
    for row in measure_text(sizes, fields, systems, effort(quick, repeat)):
        if json:
            write_json_lines([row.as_json()])
        held = "" if row.bytes_per_pattern is None else f"{row.bytes_per_pattern:,.0f}"
        rate, build = f"{row.events_per_second:,.0f}", f"{row.build_seconds:.2f}"
        table.add_row(row.system, f"{row.patterns:,}", str(row.fields), rate, build, held)
    if not json:
        output().print(table)
