"""``tamis bench serve``: events per second through a broker over loopback, durable, and how long each takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import chosen, shown, sizes_of

if TYPE_CHECKING:
    from tamis_bench.rows import Row

__all__ = ["EPILOG", "print_rows", "serve"]

EPILOG = examples(
    "tamis bench serve --quick",
    "tamis bench serve --size 100k --subscribers 10 --json",
    "tamis bench serve --system ours --store postgresql://tamis@localhost/tamis",
)


def serve(
    size: Annotated[str, typer.Option(metavar="N,M", help="How many subscriptions; 100k otherwise.")] = "",
    subscribers: Annotated[int, typer.Option(min=1, max=1_000, help="Clients that share them.")] = 10,
    events: Annotated[int, typer.Option(min=1, help="Events published in frames.")] = 100_000,
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    store: Annotated[
        str, typer.Option(metavar="URL", help="A PostgreSQL database: the broker runs again with its state there.")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
) -> None:
    """Measure a broker: a process of its own, durable, over loopback; beside it Mosquitto and NATS, if installed.

    Copies that are missing or too many stop the run.
    """
    from tamis.runtime.extra import demand_server

    demand_server("tamis bench serve")
    from tamis_bench.serving.serve import SYSTEMS, Load, measure_serve

    systems = chosen("system", system, SYSTEMS)
    rows: list[Row] = []
    for n in sizes_of(size or ("2k" if quick else "100k")):
        few = Load(n, subscribers, min(events, 5_000), 500, 1.0)
        rows += shown(measure_serve(few if quick else Load(n, subscribers, events), systems, store), json)
    if not json:
        print_rows(rows)


def print_rows(rows: Sequence[Row]) -> None:
    """Print measurements of servers as a table."""
    from tamis.cli.screen import make_table, output
    from tamis_bench.report import human, size_name

    table = make_table("n", "system", "what", "rate", "unit", "goal", right=("n", "rate", "goal"))
    for row in rows:
        cells = ["" if number is None else human(number) for number in (row.rate, row.goal)]
        table.add_row(size_name(row.n), row.system, row.what, cells[0], row.unit, cells[1])
    console = output()
    console.print(table)
    for note in dict.fromkeys(row.note for row in rows if row.note):
        console.say(note, "dim")
    console.say("What the numbers mean: docs/bridges.md")
