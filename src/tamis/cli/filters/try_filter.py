"""``tamis try``: a dry run of one filter on a file of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.options import Events, Fix, Json, OnBad, OnBadRow, SchemaPath, Zone, examples, fixed, read_schema

if TYPE_CHECKING:
    from tamis.cli.filters.reading import Skipped, Stopwatch

__all__ = ["EPILOG", "try_filter"]

EPILOG = examples(
    'tamis try "mag >= 4" quakes.parquet',
    "tamis try \"at >= TIMESTAMP('2018-02-05T00:00:00Z')\" quakes.csv --limit 3",
    'tamis try "S_WITHIN(epicentre, BBOX(-125, 32, -114, 42))" quakes.jsonl --json',
)

#: Characters that one cell of the table of matches may take.
_CELL = 28


def try_filter(
    text: Annotated[str, typer.Argument(metavar="FILTER", help="The filter, as CQL2 text or JSON.")],
    events: Events,
    limit: Annotated[int, typer.Option(min=0, help="How many matching events to show.")] = 10,
    schema: SchemaPath = None,
    zone: Zone = None,
    on_bad: OnBadRow = OnBad.RAISE,
    json: Json = False,
    fix: Fix = False,
) -> None:
    """Count the events of a file that match one filter, and show the first of them."""
    from tamis.cli.filters.prepare import ParsedFilters, demand_columns, open_events, warn_of_unseen
    from tamis.cli.filters.reading import Skipped, Stopwatch, watched
    from tamis.files import EventFile

    skip = on_bad is OnBad.SKIP
    loaded_schema, text = read_schema(schema, zone), fixed(text, fix)
    questions, file = ParsedFilters.single(text), EventFile(events, skip=skip)
    watch, skipped = Stopwatch(), Skipped()
    prepared, batches = open_events(questions, file, loaded_schema, zone, whole=True)
    if loaded_schema is None:
        demand_columns(questions, file)
    count, first = 0, list[tuple[int, dict[str, Any]]]()
    for batch in watched(file, batches, watch, skipped):
        matches, bad = prepared.match(batch, skip=skip)
        skipped.add(file.name, bad)
        count += len(matches)
        for i in matches.event[: limit - len(first)].tolist():
            first.append((batch.rows[i], batch.event(i)))
    if json:
        _print_json(text, count, first, watch, skipped)
    else:
        _print(list(questions.kinds), count, first, watch)
    skipped.tell()
    warn_of_unseen(questions, file)


def _print_json(
    text: str, count: int, first: list[tuple[int, dict[str, Any]]], watch: Stopwatch, skipped: Skipped
) -> None:
    from tamis.cli.screen import write_json

    write_json(
        {
            "filter": text,
            "events": watch.rows,
            "matches": count,
            "share": count / watch.rows if watch.rows else 0.0,
            "rows_per_second": round(watch.rate),
            "skipped": skipped.count,
            "bad": skipped.as_json(),
            "rows": [{"row": row, "event": event} for row, event in first],
        }
    )


def _print(used: list[str], count: int, first: list[tuple[int, dict[str, Any]]], watch: Stopwatch) -> None:
    from tamis.cli.screen import make_table, output

    console = output()
    share = f" ({count / watch.rows:.1%})" if watch.rows else ""
    console.say(f"{count:,} of {watch.rows:,} events match{share}; {watch.tell()}", "bold")
    if not first:
        return
    columns = _columns(used, first)
    names = _fitting(columns, console.width)
    table = make_table(*names, right=("row",))
    for cells in zip(*(columns[name] for name in names), strict=True):
        table.add_row(*cells)
    console.print(table)
    parts = [f"{count - len(first):,} more matches (--limit)"] if count > len(first) else []
    parts += [f"{len(columns) - len(names)} more columns (--json)"] if len(columns) > len(names) else []
    if parts:
        console.say(f"not shown: {', '.join(parts)}", "dim")


def _columns(used: list[str], first: list[tuple[int, dict[str, Any]]]) -> dict[str, list[str]]:
    """Return the cells by column, those that the filter asks for first."""
    from tamis.cli.screen import shown

    names = dict.fromkeys([*used, *(name for _, event in first for name in event)])
    cells = {name: [shown(event.get(name, ""), _CELL) for _, event in first] for name in names if name != "row"}
    return {"row": [str(row) for row, _ in first], **cells}


def _fitting(columns: dict[str, list[str]], width: int) -> list[str]:
    """Return the first columns that fit a width, two at least."""
    names: list[str] = []
    for name, cells in columns.items():
        width -= max(map(len, [name, *cells])) + 2
        if width < 0 and len(names) > 1:
            break
        names.append(name)
    return names
