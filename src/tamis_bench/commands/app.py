"""``tamis bench``: how fast it is here, beside a plain scan and what else could be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands import balls as bench_balls
from tamis_bench.commands import bridge as bench_bridge
from tamis_bench.commands import covering as bench_covering
from tamis_bench.commands import curves as bench_curves
from tamis_bench.commands import network as bench_network
from tamis_bench.commands import regions as bench_regions
from tamis_bench.commands import serve as bench_serve
from tamis_bench.commands import spark as bench_spark
from tamis_bench.commands import text as bench_text
from tamis_bench.commands import webhooks as bench_webhooks
from tamis_bench.commands.options import QUICK_SIZES, chosen, effort, shown, sizes_of

if TYPE_CHECKING:
    from tamis_bench.rows import Row

__all__ = ["EPILOG", "app", "match"]

EPILOG = examples(
    "tamis bench match --quick",
    "tamis bench match --work stock,zipf4 --size 100k --system ours,scan,rtree",
    "tamis bench match --json > rows.jsonl",
    "tamis bench match --picture rates.svg",
)

app = typer.Typer(
    add_completion=False,
    help="Measure speed on this machine, beside other systems, in one run.",
    epilog=EPILOG,
    rich_markup_mode="rich",
)

_SIZES = "10k,100k,1M"


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Measure speed on this machine, beside other systems, in one run. Without a command: all of them."""
    if context.invoked_subcommand is None:
        match()
        bench_regions.regions()
        bench_covering.covering()
        bench_balls.balls()
        bench_curves.curves()


@app.command("match", epilog=EPILOG)
def match(
    work: Annotated[str, typer.Option(metavar="A,B", help="Which workloads; all of them otherwise.")] = "",
    size: Annotated[
        str, typer.Option(metavar="N,M", help=f"How many subscriptions, as 500, 10k or 1M; {_SIZES} otherwise.")
    ] = "",
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Measure N times; the best counts.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of docs/benchmarks.md.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the rates into an .svg, .png or .pdf file.")
    ] = None,
) -> None:
    """Measure matching: events per second, loading, changes, memory, latency of single events.

    Everything goes through the public engine. A system whose answers on a sample differ from the scan's stops the run.
    """
    from tamis.plots.canvas import check_kind, new_figure
    from tamis_bench.matching.match import SYSTEMS, measure_all
    from tamis_bench.workloads.boxes import WORKS

    if picture is not None:
        check_kind(picture)
        new_figure(1, 1)  # so that a missing matplotlib is known at once
    works, systems = chosen("workload", work, WORKS), chosen("system", system, tuple(SYSTEMS))
    sizes = sizes_of(size or (QUICK_SIZES if quick else _SIZES))
    rows = list(shown(measure_all(works, sizes, systems, effort(quick, repeat)), json))
    if markdown:
        _print_markdown(rows)
    elif not json:
        _print_tables(rows)
    if picture is not None:
        _draw(rows, picture)


def _print_tables(rows: Sequence[Row]) -> None:
    from tamis.cli.screen import make_table, output
    from tamis_bench.report import notes, sheets

    console = output()
    for sheet in sheets(rows, goals=False):
        table = make_table(*sheet.names, right=sheet.names[sheet.left :])
        for line in sheet.lines:
            table.add_row(*line)
        console.print(table)
        console.say("")
    for note in notes(rows):
        console.say(note, "dim")
    console.say("(12x): twelve times as fast as the linear scan in this run. What the numbers mean: docs/benchmarks.md")


def _print_markdown(rows: Sequence[Row]) -> None:
    from tamis_bench.report import machine, markdown

    print(machine(), end="\n\n")
    print(markdown(rows), end="")


def _draw(rows: Sequence[Row], path: Path) -> None:
    from tamis.cli.screen import errors
    from tamis.plots.canvas import write_figure
    from tamis_bench.plots.bench import draw_rates

    write_figure(draw_rates(rows), path)
    errors().say(f"wrote {path}", "bold")


app.command("regions", epilog=bench_regions.EPILOG)(bench_regions.regions)
app.command("covering", epilog=bench_covering.EPILOG)(bench_covering.covering)
app.command("balls", epilog=bench_balls.EPILOG)(bench_balls.balls)
app.command("curves", epilog=bench_curves.EPILOG)(bench_curves.curves)
app.command("text", epilog=bench_text.EPILOG)(bench_text.text)
app.command("serve", epilog=bench_serve.EPILOG)(bench_serve.serve)
app.command("bridge", epilog=bench_bridge.EPILOG)(bench_bridge.bridge)
app.command("webhooks", epilog=bench_webhooks.EPILOG)(bench_webhooks.webhooks)
app.command("network", epilog=bench_network.EPILOG)(bench_network.network)
app.command("spark", epilog=bench_spark.EPILOG)(bench_spark.spark)
