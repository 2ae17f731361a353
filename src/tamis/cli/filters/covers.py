"""``tamis covers``: whether every event that matches one filter matches another."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Json, SchemaPath, examples, read_schema

if TYPE_CHECKING:
    from tamis.algebra.explain_covers import CoveredCondition
    from tamis.model.schema import Schema

__all__ = ["EPILOG", "covers"]

EPILOG = examples(
    'tamis covers "mag >= 4" "mag >= 5 AND depth < 70"',
    'tamis covers "mag BETWEEN 2 AND 4" "mag > 3" --json',
    'tamis covers "mag >= 4 AND depth < 70" "mag >= 5" --explain',
)


def covers(
    a: Annotated[str, typer.Argument(metavar="A", help="The wide filter.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The narrow filter.")],
    schema: SchemaPath = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show each condition of A, and which one decides.")
    ] = False,
    json: Json = False,
) -> None:
    """Say whether A covers B: every event that matches B matches A. Exit code 0: yes, 1: no.

    A "no" comes with an event that matches B and not A.
    """
    from tamis.algebra.explain_covers import explain_covers
    from tamis.cli.screen import output, write_json

    loaded_schema = read_schema(schema)
    explanation = explain_covers(a, b, loaded_schema)
    answer = explanation.answer
    witness = None if answer.witness is None else _readable(answer.witness, a, b, loaded_schema)
    document: dict[str, Any] = {
        "covers": answer.yes,
        "unknown": answer.unknown,
        "reason": answer.reason,
        "witness": witness,
    }
    if explain:
        document["conditions"] = [_as_json(condition) for condition in explanation.conditions]
    if json and witness is not None and any(isinstance(condition, Decimal) for condition in witness.values()):
        output().say(_with_digits(document, witness))
    elif json:
        write_json(document)
    else:
        console = output()
        word = "yes" if answer.yes else "unknown" if answer.unknown else "no"
        console.say(f"{word}: {answer.reason.removeprefix('unknown: ')}", "bold")
        if witness is not None:
            console.say(f"  for example {_as_text(witness)}")
        for condition in explanation.conditions if explain else ():
            console.say(f"  {condition}", "bold" if condition.decides else "")
    raise typer.Exit(0 if answer.yes else NO)


def _as_json(condition: CoveredCondition) -> dict[str, Any]:
    return {
        "condition": condition.text,
        "holds": condition.holds,
        "unknown": condition.unknown,
        "decides": condition.decides,
        "b": condition.narrow,
    }


def _readable(witness: dict[str, Any], a: str, b: str, schema: Schema | None) -> dict[str, Any]:
    """Return the witness as JSON values, including regions and vectors; long decimals stay as they are."""
    from tamis.algebra.sources import as_subscriptions
    from tamis.cli.screen import jsonable
    from tamis.model.types import Form

    _, kinds = as_subscriptions([("a", a), ("b", b)], schema)
    shown: dict[str, Any] = {}
    for name, value in witness.items():
        kind = kinds.get(name)
        is_shape = kind is not None and kind.form in (Form.REGION, Form.VECTOR)
        written = kind.to_json(value) if kind is not None and is_shape else value
        shown[name] = written if isinstance(written, Decimal) else jsonable(written)
    return shown


def _as_text(event: dict[str, Any], *, ascii: bool = False) -> str:
    """Return an event as JSON in one line, with all digits of long decimals."""
    from json import dumps

    if not event:
        return "an event without any attribute: {}"
    shown = {name: str(value) if isinstance(value, Decimal) else _dumped(value, ascii) for name, value in event.items()}
    return "{" + ",".join(f"{dumps(name, ensure_ascii=ascii)}:{value}" for name, value in shown.items()) + "}"


def _dumped(value: object, ascii: bool) -> str:
    from json import dumps

    return dumps(value, ensure_ascii=ascii, separators=(",", ":"))


def _with_digits(document: dict[str, Any], witness: dict[str, Any]) -> str:
    """Return the answer as JSON whose long decimals are numbers: the event to publish, digit by digit."""
    from json import dumps

    head = dumps({name: value for name, value in document.items() if name != "witness"}, indent=2)
    return f'{head[:-2]},\n  "witness": {_as_text(witness, ascii=True)}\n}}'
