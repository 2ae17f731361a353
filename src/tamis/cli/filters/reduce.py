"""``tamis reduce``: which subscriptions of a file are redundant, and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.options import Json, SchemaPath, Subscriptions, examples, read_schema

if TYPE_CHECKING:
    from tamis.cli.filters.prepare import ParsedFilters
    from tamis.model.schema import Schema
    from tamis.model.subscription import Subscription
    from tamis.reduction import Reduction
    from tamis.reduction.reduce import Progress

__all__ = ["EPILOG", "reduce"]

EPILOG = examples(
    "tamis reduce subscriptions.jsonl",
    "tamis reduce subscriptions.csv --json",
    "tamis reduce subscriptions.jsonl --out smaller.jsonl",
    "tamis reduce subscriptions.jsonl --picture before-after.svg",
)


def reduce(
    subscriptions: Subscriptions,
    schema: SchemaPath = None,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write what remains to a .jsonl, .csv or .parquet file.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the sets before and after to an .svg, .png or .pdf file.")
    ] = None,
    json: Json = False,
) -> None:
    """List the subscriptions that others cover, that are equal, or that can never match, and those that remain.

    Reducing shrinks what a link between brokers has to carry; every client still gets all its deliveries.
    """
    from tamis.cli.screen import errors, output, write_json
    from tamis.reduction import reduce as library_reduce

    if picture is not None:
        _check_picture(picture)
    compiled, learned = _compiled(subscriptions, read_schema(schema))
    with _progress_bar() as progress:
        reduction = library_reduce(compiled, learned, progress=progress)
    if picture is not None:
        _draw(compiled, reduction, picture)
    if out is not None:
        _write(out, reduction, learned)
    if json:
        write_json(reduction.as_json())
    else:
        output().say(reduction.report())
        if out is not None:
            errors().say(f"wrote {reduction.after:,} subscriptions to {out}", "bold")


@contextlib.contextmanager
def _progress_bar() -> Iterator[Progress]:
    """Show the progress of a reduction on a terminal."""
    from rich import progress

    from tamis.cli.screen import errors

    console = errors()
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn())
    with progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, progress.TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield show


def _check_picture(path: Path) -> None:
    from tamis.plots.canvas import check_kind, new_figure

    check_kind(path)
    new_figure(1, 1)  # raises at once if matplotlib is missing


def _draw(subscriptions: list[Subscription], reduction: Reduction, path: Path) -> None:
    from tamis.cli.screen import errors
    from tamis.plots.canvas import write_figure
    from tamis.plots.reduction import draw_reduction

    write_figure(draw_reduction(subscriptions, reduction), path)
    errors().say(f"wrote {path}", "bold")


def _compiled(path: str, schema: Schema | None) -> tuple[list[Subscription], Schema]:
    """Read and compile a file of subscriptions; an error names its line."""
    from dataclasses import replace
    from json import dumps

    from tamis.algebra.sources import as_subscriptions
    from tamis.cli.filters.prepare import ParsedFilters
    from tamis.errors import SubscriptionError, TableError
    from tamis.files import SubscriptionFile
    from tamis.model.values import UnfitError, moment

    file = SubscriptionFile(path)
    questions = ParsedFilters.of(file.name, file)
    if not questions.records:
        raise TableError(f"{file.name}: no subscriptions found")
    try:
        subscriptions, learned = as_subscriptions(
            [(record.id, record.source) for record, _ in questions.records], schema
        )
    except SubscriptionError:
        _name_culprit(questions, schema)
        raise
    compiled = []
    for subscription, (record, _) in zip(subscriptions, questions.records, strict=True):
        try:
            expires = None if record.expires is None else moment(record.expires)
        except UnfitError as error:
            raise TableError(f"{file.name}, {record.place}: expires: {error}") from None
        text = record.source if isinstance(record.source, str) else dumps(record.source)
        compiled.append(replace(subscription, text=text, namespace=record.namespace, expires=expires))
    return compiled, learned


def _name_culprit(questions: ParsedFilters, schema: Schema | None) -> None:
    """Raise the error of the first bad subscription, with its position in the file."""
    from tamis.algebra.sources import as_subscription
    from tamis.errors import SubscriptionError

    for record, _ in questions.records:
        try:
            as_subscription(record.source, schema)
        except SubscriptionError as error:
            questions.refuse(record, error, skip=False)


def _write(path: str, reduction: Reduction, schema: Schema) -> None:
    """Write what remains as a file of subscriptions."""
    import pyarrow as pa

    from tamis.files import open_rows_writer
    from tamis.model.language.literals import instant_text
    from tamis.model.language.nodes import Instant
    from tamis.reduction.writable import written

    remaining = reduction.subscriptions
    are_ints = bool(remaining) and all(isinstance(subscription.id, int) for subscription in remaining)
    kinds = {"id": pa.int64() if are_ints else pa.string(), "filter": pa.string()}
    rows: dict[str, list[Any]] = {
        "id": [subscription.id for subscription in remaining],
        # A simplified filter may exceed the limit of text; its original text did not.
        "filter": [written(subscription.filters, schema) or subscription.text for subscription in remaining],
    }
    if any(subscription.namespace != "default" for subscription in remaining):
        kinds["namespace"], rows["namespace"] = pa.string(), [subscription.namespace for subscription in remaining]
    if any(subscription.expires is not None for subscription in remaining):
        ends = [
            None if subscription.expires is None else instant_text(Instant(subscription.expires))
            for subscription in remaining
        ]
        kinds["expires"], rows["expires"] = pa.string(), ends
    with open_rows_writer(path, kinds) as write:
        write(rows)
