"""Arguments and options that several commands share, so that they read alike everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tamis.model.schema import Schema

__all__ = [
    "Events",
    "Json",
    "KeyFile",
    "OnBad",
    "OnBadRow",
    "SchemaPath",
    "Subscriptions",
    "Zone",
    "examples",
    "read_schema",
]


class OnBad(StrEnum):
    """What to do with a row that cannot be read."""

    RAISE = "raise"
    SKIP = "skip"


Events = Annotated[
    str, typer.Argument(metavar="EVENTS", help="A .jsonl, .json, .csv or .parquet file; - is JSONL on standard input.")
]
Subscriptions = Annotated[
    str,
    typer.Argument(
        metavar="SUBSCRIPTIONS",
        help="A .jsonl, .json, .csv or .parquet file with id and filter, or a .txt file with a filter per line.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        envvar="TAMIS_SNAPSHOT_KEY_FILE",
        help="The key that saved engines are signed with; unsigned ones are then refused.",
    ),
]
SchemaPath = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="The attributes and their types, as JSON; learned otherwise."),
]
Zone = Annotated[
    str | None, typer.Option("--zone", metavar="ZONE", help="Where times without a zone are meant, as Europe/Berlin.")
]
OnBadRow = Annotated[
    OnBad, typer.Option("--on-bad", help="Stop at a row that cannot be read, or skip it and list it at the end.")
]


def examples(*lines: str) -> str:
    """Return the end of a help text: one example per line."""
    return "\n\n".join(["[bold]Examples[/bold]", *(line.replace("[", "\\[") for line in lines)])


def read_schema(path: Path | None, zone: str | None = None) -> Schema | None:
    """Read a schema file; ``zone`` is given to its timestamps that have none."""
    from tamis.errors import SchemaError
    from tamis.model.schema import Schema
    from tamis.model.types import Timestamp

    there = Timestamp(zone)
    if path is None:
        return None
    try:
        schema = Schema.from_json(path.read_bytes())
    except SchemaError as error:
        raise SchemaError(error.attribute, f"{error.problem} (in {path})") from None
    return Schema({name: there if kind == Timestamp() else kind for name, kind in schema.items()})
