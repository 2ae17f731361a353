"""``tamis match``: lists every pair of an event and a subscription that it matches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.options import Events, Json, OnBad, OnBadRow, SchemaPath, Subscriptions, Zone, examples, read_schema

if TYPE_CHECKING:
    from tamis.cli.filters.pairs import Pairs
    from tamis.cli.filters.prepare import ParsedFilters, Prepared
    from tamis.cli.filters.reading import Skipped, Stopwatch

__all__ = ["EPILOG", "match"]

EPILOG = examples(
    "tamis match subscriptions.jsonl quakes.parquet",
    "tamis match subscriptions.jsonl quakes.csv --event-id id --out matches.parquet",
    "cat quakes.jsonl | tamis match alerts.txt - --on-bad skip | head",
)

#: The number of pairs shown on a terminal.
_SHOWN = 40


def match(
    subscriptions: Subscriptions,
    events: Events,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write pairs to a .jsonl, .csv or .parquet file.")
    ] = None,
    event_id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Name events by this column, not by their row (from 0).")
    ] = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Match the subscriptions of this namespace.")
    ] = "default",
    on_bad: OnBadRow = OnBad.RAISE,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="Match large batches of events on N cores.")] = 1,
    schema: SchemaPath = None,
    zone: Zone = None,
    json: Json = False,
) -> None:
    """Print all pairs (event, subscription): a table on a terminal, JSONL in a pipe."""
    from tamis.cli.filters.pairs import Pairs
    from tamis.cli.filters.prepare import open_events, warn_of_unseen
    from tamis.cli.filters.reading import Skipped, Stopwatch, watched
    from tamis.errors import TableError
    from tamis.files import EventFile

    skip, skipped = on_bad is OnBad.SKIP, Skipped()
    if subscriptions == events == "-":
        raise TableError("standard input holds the subscriptions or the events, not both; give one as a file")
    loaded_schema = read_schema(schema, zone)
    questions, file = _read_questions(subscriptions, skip), EventFile(events, skip=skip)
    watch = Stopwatch()
    extra = () if event_id is None else (event_id,)
    prepared, batches = open_events(questions, file, loaded_schema, zone, skip=skip, extra=extra)
    skipped.add(questions.name, questions.bad)
    pairs = Pairs(prepared, namespace, event_id, skip=skip, threads=threads)
    with _opened(out, json, pairs) as take:
        for batch in watched(file, batches, watch, skipped):
            batch_pairs, bad = pairs.of(batch)
            skipped.add(file.name, bad)
            take(*batch_pairs)
    _sum_up(prepared, pairs, watch, skipped, out, json)
    skipped.tell()
    if loaded_schema is None:
        warn_of_unseen(questions, file)


def _read_questions(path: str, skip: bool) -> ParsedFilters:
    from tamis.cli.filters.prepare import ParsedFilters
    from tamis.errors import TableError
    from tamis.files import SubscriptionFile

    file = SubscriptionFile(path, skip=skip)
    questions = ParsedFilters.of(file.name, file, skip=skip)
    questions.bad[:0] = file.bad
    if not questions.records and not questions.bad:
        raise TableError(f"{file.name}: no subscriptions found")
    return questions


Take = Callable[[Sequence[Any], Sequence[Any]], None]


@contextlib.contextmanager
def _opened(out: str | None, json: bool, pairs: Pairs) -> Iterator[Take]:
    """Yield the function that takes pairs: for a file, JSONL on standard output, or a table on a terminal."""
    from tamis.cli.screen import make_table, output, shown, write_json_lines
    from tamis.files import open_rows_writer

    if out is not None:
        with open_rows_writer(out, pairs.column_types) as write:
            yield lambda events, ids: write({"event": events, "subscription": ids})
    elif json or not output().is_terminal:
        yield lambda events, ids: write_json_lines(
            [{"event": event, "subscription": id} for event, id in zip(events, ids, strict=True)]
        )
    else:
        table = make_table("event", "subscription")

        def take(events: Sequence[Any], ids: Sequence[Any]) -> None:
            for event, id in zip(events, ids, strict=True):
                if table.row_count == _SHOWN:
                    break
                table.add_row(shown(event), shown(id))

        yield take
        output().print(table)


def _sum_up(prepared: Prepared, pairs: Pairs, watch: Stopwatch, skipped: Skipped, out: str | None, json: bool) -> None:
    from tamis.cli.screen import errors, output, write_json

    if json and out is not None:
        write_json(
            {
                "events": watch.rows,
                "subscriptions": len(prepared.engine),
                "matches": pairs.count,
                "rows_per_second": round(watch.rate),
                "skipped": skipped.count,
                "bad": skipped.as_json(),
                "out": out,
            }
        )
    if json:
        return
    counts = f"{watch.rows:,} events, {len(prepared.engine):,} subscriptions: {pairs.count:,} matches"
    target = f" in {out}" if out is not None else ""
    errors().say(f"{counts}{target}; {watch.tell()}", "bold")
    if out is None and output().is_terminal and pairs.count > _SHOWN:
        errors().say(f"the first {_SHOWN} are shown; for all of them: --out FILE, or --json", "dim")
