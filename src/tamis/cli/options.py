"""Arguments and options that several commands share, so that they are the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tamis.model.schema import Schema

__all__ = [
    "Choice",
    "Events",
    "Json",
    "KeyFile",
    "Least",
    "Metrics",
    "Most",
    "OnBad",
    "OnBadRow",
    "SchemaPath",
    "Split",
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
    str | None, typer.Option("--zone", metavar="ZONE", help="The time zone of times without one, e.g. Europe/Berlin.")
]
Fix = Annotated[bool, typer.Option("--fix", help='Read ==, !=, &&, || and "text" as CQL2 has them; prints the text.')]
Split = Annotated[str, typer.Option("--split", help="How a full node of peers is split: linear, quadratic or r*.")]
Choice = Annotated[
    str,
    typer.Option("--choice", help="How a node of peers is chosen: r (growth) or r* (overlap); by default as --split."),
]
Least = Annotated[int, typer.Option("--least", min=1, help="The fewest children of a node of peers, the paper's m.")]
Most = Annotated[int, typer.Option("--most", min=2, help="The most children of a node of peers, the paper's M.")]
Metrics = Annotated[
    int | None,
    typer.Option("--metrics", metavar="PORT", min=0, max=65535, help="Serve metrics for Prometheus on 127.0.0.1."),
]
OnBadRow = Annotated[
    OnBad, typer.Option("--on-bad", help="Stop at a row that cannot be read, or skip it and list it at the end.")
]


def examples(*lines: str) -> str:
    """Return the end of a help text: one example per line."""
    return "\n\n".join(["[bold]Examples[/bold]", *(line.replace("[", "\\[") for line in lines)])


def fixed(text: str, fix: bool) -> str:
    """Return a filter; with ``fix``, corrected to CQL2 if it is in a similar language, and print the correction."""
    from tamis.cli.screen import errors
    from tamis.errors import SubscriptionError, SubscriptionSyntaxError
    from tamis.model.language.foreign.corrections import requoted
    from tamis.model.language.parse import parse

    if not fix or text.lstrip().startswith("{"):
        return text
    try:
        parse(text)
        proposal = requoted(text)
    except (SubscriptionError, SubscriptionSyntaxError) as error:
        proposal = error.corrected
    if proposal is None:
        return text
    errors().say(f"fixed: {proposal}")
    return proposal


def read_schema(path: Path | None, zone: str | None = None) -> Schema | None:
    """Return the schema of a file; timestamps without a zone get ``zone``."""
    from tamis.errors import SchemaError
    from tamis.model.schema import Schema
    from tamis.model.types import Timestamp

    zoned = Timestamp(zone)
    if path is None:
        return None
    try:
        schema = Schema.from_json(path.read_bytes())
    except SchemaError as error:
        raise SchemaError(error.attribute, f"{error.problem} (in {path})") from None
    return Schema({name: zoned if kind == Timestamp() else kind for name, kind in schema.items()})
