"""``tamis covers``: whether every event that matches one filter matches another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Json, SchemaPath, examples, read_schema

if TYPE_CHECKING:
    from tamis.model.schema import Schema

__all__ = ["EPILOG", "covers"]

EPILOG = examples(
    'tamis covers "mag >= 4" "mag >= 5 AND depth < 70"',
    'tamis covers "mag BETWEEN 2 AND 4" "mag > 3" --json',
)


def covers(
    a: Annotated[str, typer.Argument(metavar="A", help="The wide filter.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The narrow filter.")],
    schema: SchemaPath = None,
    json: Json = False,
) -> None:
    """Say whether A covers B: every event that matches B matches A. Exit code 0: yes, 1: no.

    A "no" comes with an event that matches B and not A.
    """
    from tamis.algebra.covers import covers as library_covers
    from tamis.cli.screen import output, write_json

    known = read_schema(schema)
    answer = library_covers(a, b, known)
    witness = None if answer.witness is None else _readable(answer.witness, a, b, known)
    if json:
        write_json({"covers": answer.yes, "unknown": answer.unknown, "reason": answer.reason, "witness": witness})
    else:
        console = output()
        word = "yes" if answer.yes else "unknown" if answer.unknown else "no"
        console.say(f"{word}: {answer.reason.removeprefix('unknown: ')}", "bold")
        if witness is not None:
            console.say(f"  for example {_as_text(witness)}")
    raise typer.Exit(0 if answer.yes else NO)


def _readable(witness: dict[str, Any], a: str, b: str, schema: Schema | None) -> dict[str, Any]:
    """Return the witness as one would write the event: moments as text, not as microseconds."""
    from tamis.algebra.sources import as_subscriptions
    from tamis.cli.screen import jsonable
    from tamis.model.language.literals import instant_text
    from tamis.model.language.nodes import Instant
    from tamis.model.types import Timestamp

    _, kinds = as_subscriptions([("a", a), ("b", b)], schema)
    return {
        name: instant_text(Instant(value)) if isinstance(kinds.get(name), Timestamp) else jsonable(value)
        for name, value in witness.items()
    }


def _as_text(event: dict[str, Any]) -> str:
    import msgspec

    return "an event without any attribute: {}" if not event else msgspec.json.encode(event).decode()
