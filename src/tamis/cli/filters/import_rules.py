"""``tamis import``: rules of other systems become subscriptions; what has no equivalent is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import examples

if TYPE_CHECKING:
    from tamis.model.language.nodes import Node

__all__ = ["EPILOG", "import_rules"]

EPILOG = examples(
    "tamis import jms selectors.jsonl --out subscriptions.jsonl",
    "tamis import sql conditions.txt",
    "tamis import eventbridge rules.json --out subscriptions.jsonl",
)

#: A statement around a condition; `where = 'here'` is a condition on an attribute of that name.
_STATEMENT = re.compile(r"\s*(?:select\s+[\w*]|where\s+(?!(?:is|in|like|between|not)\b)[\w(])", re.IGNORECASE)


class Kind(StrEnum):
    """Where the rules come from."""

    SQL = "sql"
    JMS = "jms"
    EVENTBRIDGE = "eventbridge"


def import_rules(
    kind: Annotated[Kind, typer.Argument(help="sql or jms (conditions as text), eventbridge (patterns as JSON).")],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Rules by line: text, or (.jsonl) JSON with id and rule. Or .json: a list, one event pattern, or the "
            "Rules that EventBridge lists.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the subscriptions there as JSONL; printed otherwise.")
    ] = None,
) -> None:
    """Turn rules of another system into subscriptions of tamis.

    Every rule is written, or named on standard error with the reason. Exit code 0: all of them, 1: some were not.
    """
    import msgspec

    from tamis.cli.screen import errors
    from tamis.errors import TamisError
    from tamis.model.language.format import format_node

    lines, refused = [], 0
    for id, rule in _rules(kind, file):
        try:
            lines.append(msgspec.json.encode({"id": id, "filter": format_node(_read(kind, rule))}).decode())
        except TamisError as error:
            refused += 1
            errors().say(f"{file}, rule {id!r}: {error}", "red")
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")
    errors().say(f"{len(lines)} of {len(lines) + refused} rules became subscriptions")
    if refused:
        raise typer.Exit(NO)


def _read(kind: Kind, rule: Any) -> Node:
    from tamis.errors import ModelError
    from tamis.model.language.foreign.event_patterns import read_event_pattern
    from tamis.model.language.foreign.selectors import read_selector

    if kind is Kind.EVENTBRIDGE and isinstance(rule, dict):
        return read_event_pattern(rule)
    if kind is not Kind.EVENTBRIDGE and isinstance(rule, str):
        if _STATEMENT.match(rule):
            raise ModelError("not a condition: give what stands after WHERE, and nothing else")
        return read_selector(rule)
    raise ModelError(f"a rule of {kind} is {'an object' if kind is Kind.EVENTBRIDGE else 'text'}")


def _rules(kind: Kind, file: Path) -> Iterator[tuple[str | int, Any]]:
    """Yield (id, rule): from one JSON document, from lines of JSON, or from lines of text, which are numbered."""
    from tamis.errors import ModelError

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"{file}: not text in UTF-8; rules come as lines of text, as .json or as .jsonl") from None
    if file.suffix == ".json":
        document = _json(text, str(file))
        rules = document.get("Rules", [document]) if isinstance(document, dict) else document
        yield from (
            _record(number, rule) for number, rule in enumerate(rules if isinstance(rules, list) else [rules], 1)
        )
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _record(number, _json(line, f"{file}, line {number}")) if file.suffix == ".jsonl" else (number, line)


def _json(text: str, place: str) -> Any:
    from tamis.errors import ModelError
    from tamis.files.strict_json import read_value

    try:
        return read_value(text)
    except ValueError as error:
        raise ModelError(f"{place}: {error}") from None


def _record(number: int, record: Any) -> tuple[str | int, Any]:
    """Return the id and the rule of ``{"id", "rule"}``, of a rule as EventBridge lists it, or of a bare one."""
    if isinstance(record, dict) and "rule" in record:
        return record.get("id", number), record["rule"]
    if isinstance(record, dict) and "EventPattern" in record:
        pattern = record["EventPattern"]
        name = record.get("Name", number)
        return name, _json(pattern, f"rule {name!r}") if isinstance(pattern, str) else pattern
    return number, record
