"""``tamis bench``: how fast it is here, beside a plain scan and what else could be used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.workload.bench.rows import Row
    from tamis.workload.bench.timing import Effort

__all__ = ["EPILOG", "app", "covering", "match"]

EPILOG = examples(
    "tamis bench match --quick",
    "tamis bench match --work stock,zipf4 --size 100k --system ours,scan,rtree",
    "tamis bench match --json > rows.jsonl",
    "tamis bench match --picture rates.svg",
)

COVERING_EPILOG = examples("tamis bench covering --quick", "tamis bench covering --work boxes4 --size 1M --json")

app = typer.Typer(
    help="Measure speed on this machine, beside other systems, in one run.", epilog=EPILOG, rich_markup_mode="rich"
)

_SIZES, _QUICK_SIZES = "10k,100k,1M", "2k"


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Measure speed on this machine, beside other systems, in one run. Without a command: all of them."""
    if context.invoked_subcommand is None:
        match()
        covering()


@app.command("match", epilog=EPILOG)
def match(
    work: Annotated[str, typer.Option(metavar="A,B", help="Which workloads; all of them otherwise.")] = "",
    size: Annotated[
        str, typer.Option(metavar="N,M", help=f"How many subscriptions, as 500, 10k or 1M; {_SIZES} otherwise.")
    ] = "",
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="The best of so many times counts.")] = 5,
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
    from tamis.workload.bench.match import SYSTEMS, measure_all
    from tamis.workload.boxes import WORKS

    if picture is not None:
        check_kind(picture)
        new_figure(1, 1)  # so that a missing matplotlib is known at once
    works, systems = _chosen("workload", work, WORKS), _chosen("system", system, tuple(SYSTEMS))
    sizes = _sizes(size or (_QUICK_SIZES if quick else _SIZES))
    rows = list(_shown(measure_all(works, sizes, systems, _effort(quick, repeat)), json))
    if markdown:
        _print_markdown(rows)
    elif not json:
        _print_tables(rows)
    if picture is not None:
        _draw(rows, picture)


@app.command("covering", epilog=COVERING_EPILOG)
def covering(
    work: Annotated[str, typer.Option(metavar="A,B", help="Which workloads; all of them otherwise.")] = "",
    size: Annotated[str, typer.Option(metavar="N,M", help="How many boxes, as 10k or 1M; 100k,1M otherwise.")] = "",
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="The best of so many times counts.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
) -> None:
    """Measure covering: who covers this box, by the exact index, a plain scan and the Z curve; and a whole reduction.

    Answers of the exact index that differ from the scan's stop the run, and so does a false cover of any system.
    """
    from tamis.workload.bench.covering import SYSTEMS, WORKS, measure_covering

    works, systems = _chosen("workload", work, tuple(WORKS)), _chosen("system", system, tuple(SYSTEMS))
    sizes = _sizes(size or (_QUICK_SIZES if quick else "100k,1M"))
    rows = list(_shown(measure_covering(works, sizes, systems, _effort(quick, repeat)), json))
    if not json:
        _print_covering(rows)


def _effort(quick: bool, repeat: int) -> Effort:
    from tamis.workload.bench.timing import Effort

    return Effort(repeat=2, seconds=0.03, batch=512, chunk=200, fresh=False) if quick else Effort(repeat=repeat)


def _chosen(what: str, given: str, known: Sequence[str]) -> list[str]:
    from tamis.errors import ModelError

    names = [name.strip() for name in given.split(",")] if given else list(known)
    for name in names:
        if name not in known:
            raise ModelError(f"there is no {what} {name!r}; choose from {', '.join(known)}")
    return list(dict.fromkeys(names))


def _sizes(given: str) -> list[int]:
    """Read sizes.

    >>> _sizes("500, 10k,1M")
    [500, 10000, 1000000]
    """
    from tamis.errors import ModelError

    sizes = []
    for text in given.split(","):
        number, unit = text.strip(), 1
        if number[-1:] in ("k", "M"):
            number, unit = number[:-1], 1_000 if number[-1] == "k" else 1_000_000
        if not (number.isdecimal() and 0 < int(number) * unit <= 100_000_000):
            raise ModelError(f"a size is a number as 500, 10k or 1M, at most 100M; not {text.strip()!r}")
        sizes.append(int(number) * unit)
    return sorted(set(sizes))


def _shown(rows: Iterable[Row], json: bool) -> Iterator[Row]:
    """Pass rows on; as JSON each is printed at once, so that a run that is stopped leaves what it found."""
    from tamis.cli.screen import errors, write_json_lines
    from tamis.workload.bench.report import size_name

    told, console = "", errors()
    for row in rows:
        if json:
            write_json_lines([row.as_json()])
        now = f"{row.work}, {size_name(row.n)} subscriptions: {row.system}"
        if now != told and console.is_terminal:
            console.say(now, "dim")
        told = now
        yield row


def _print_tables(rows: Sequence[Row]) -> None:
    from tamis.cli.screen import make_table, output
    from tamis.workload.bench.report import notes, sheets

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


def _print_covering(rows: Sequence[Row]) -> None:
    from tamis.cli.screen import make_table, output
    from tamis.workload.bench.report import human, size_name

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


def _print_markdown(rows: Sequence[Row]) -> None:
    from tamis.workload.bench.report import machine, markdown

    print(machine(), end="\n\n")
    print(markdown(rows), end="")


def _draw(rows: Sequence[Row], path: Path) -> None:
    from tamis.cli.screen import errors
    from tamis.plots.bench import draw_rates
    from tamis.plots.canvas import write_figure

    write_figure(draw_rates(rows), path)
    errors().say(f"wrote {path}", "bold")
