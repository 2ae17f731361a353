"""``tamis explain``: why an event matches a filter, or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Fix, Json, SchemaPath, Zone, examples, fixed, read_schema

if TYPE_CHECKING:
    from tamis.algebra.explain import Explanation
    from tamis.cli.filters.prepare import ParsedFilters, Prepared
    from tamis.model.schema import Schema

__all__ = ["EPILOG", "explain", "show_explanation"]

EPILOG = examples(
    'tamis explain "mag >= 4 AND depth < 70" \'{"mag": 5.1, "depth": 110}\'',
    'tamis explain "felt > 10 OR mag >= 5" quakes.parquet --row 3',
)


def explain(
    text: Annotated[str, typer.Argument(metavar="FILTER", help="The filter, as CQL2 text or JSON.")],
    event: Annotated[str, typer.Argument(metavar="EVENT", help="An event as a JSON object, or a file; then --row.")],
    row: Annotated[int | None, typer.Option(min=0, help="Which event of the file, counted from 0.")] = None,
    schema: SchemaPath = None,
    zone: Zone = None,
    json: Json = False,
    fix: Fix = False,
) -> None:
    """Show each condition of a filter with the value it met. Exit code 0: it matches, 1: it does not."""
    from tamis.cli.filters.prepare import ParsedFilters
    from tamis.cli.screen import output, write_json
    from tamis.errors import TableError

    loaded_schema, questions = read_schema(schema, zone), ParsedFilters.single(fixed(text, fix))
    if event.lstrip().startswith("{"):
        if row is not None:
            raise TableError("--row needs a file of events, but the event itself was given")
        prepared, raw = _given_event(questions, event, loaded_schema, zone)
    elif row is None:
        raise TableError(f"{event}: choose an event of the file with --row N, counted from 0, or give an event as JSON")
    else:
        prepared, raw = _event_of_file(questions, event, row, loaded_schema, zone)
    explanation = prepared.engine.explain(prepared.event(raw), "filter")
    if json:
        write_json({name: value for name, value in explanation.as_json().items() if name != "id"})
    else:
        output().say(show_explanation(explanation))
    raise typer.Exit(0 if explanation.matched else NO)


def show_explanation(explanation: Explanation, head: str = "") -> str:
    """Return an explanation as text; ``head`` replaces the first line."""
    _, *conditions = str(explanation).splitlines()
    return "\n".join([head or ("match" if explanation.matched else "no match"), *conditions])


def _given_event(
    questions: ParsedFilters, text: str, schema: Schema | None, zone: str | None
) -> tuple[Prepared, dict[str, Any]]:
    from tamis.cli.filters.prepare import prepare
    from tamis.errors import TableError
    from tamis.files.batches import Batch, tight_column
    from tamis.files.strict_json import read_object

    try:
        event = read_object(text)
    except ValueError as error:
        raise TableError(f"the event: {error}") from None
    columns = {name: tight_column([value]) for name, value in event.items()}
    return prepare(questions, Batch([0], None, columns, lambda _: event), "the event", schema, zone), event


def _event_of_file(
    questions: ParsedFilters, path: str, row: int, schema: Schema | None, zone: str | None
) -> tuple[Prepared, dict[str, Any]]:
    from tamis.cli.filters.prepare import demand_columns, open_events
    from tamis.errors import TableError
    from tamis.files import EventFile

    file = EventFile(path, skip=True)
    prepared, batches = open_events(questions, file, schema, zone)
    if schema is None:
        demand_columns(questions, file)
    last_row = -1
    for batch in batches:
        problem = next((bad for bad in batch.bad if bad.row == row), None)
        if problem is not None:
            raise TableError(f"{file.name}, {problem.place}: {problem.problem}")
        if row in batch.rows:
            return prepared, batch.event(batch.rows.index(row))
        last_row = max([last_row, *batch.rows[-1:], *(bad.row for bad in batch.bad)])
    raise TableError(f"{file.name}: there is no row {row}; the last one is row {last_row}")
