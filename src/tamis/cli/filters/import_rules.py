"""``tamis import``: rules of other systems become subscriptions; what has no equivalent is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.filters import import_sigma
from tamis.cli.options import examples

if TYPE_CHECKING:
    from tamis.model.language.nodes import Node

__all__ = ["app", "write_subscriptions"]

_SQL_EPILOG = examples("tamis import sql conditions.txt", "tamis import sql conditions.jsonl --out subscriptions.jsonl")
_JMS_EPILOG = examples("tamis import jms selectors.jsonl --out subscriptions.jsonl")
_CLOUDEVENTS_EPILOG = examples("tamis import cloudevents expressions.txt --out subscriptions.jsonl")
_AMQP_EPILOG = examples("tamis import amqp filters.txt --out subscriptions.jsonl")
_EVENTBRIDGE_EPILOG = examples("tamis import eventbridge rules.json --out subscriptions.jsonl")

#: A statement around a condition; `where = 'here'` is a condition on an attribute of that name.
_STATEMENT = re.compile(r"\s*(?:select\s+[\w*]|where\s+(?!(?:is|in|like|between|not)\b)[\w(])", re.IGNORECASE)


class RuleSource(StrEnum):
    """Where the rules come from."""

    SQL = "sql"
    JMS = "jms"
    CLOUDEVENTS = "cloudevents"
    AMQP = "amqp"
    EVENTBRIDGE = "eventbridge"


app = typer.Typer(
    help="Turn rules of another system into subscriptions of tamis.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog=examples(
        "tamis import sigma rules/ --out subscriptions.jsonl",
        "tamis import jms selectors.jsonl --out subscriptions.jsonl",
        "tamis import sql conditions.txt",
        "tamis import eventbridge rules.json --out subscriptions.jsonl",
    ),
)

Texts = Annotated[
    Path, typer.Argument(metavar="FILE", help="Conditions by line: text, or (.jsonl, .json) JSON with id and rule.")
]
Patterns = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Patterns by line as JSON, with id and rule. Or .json: a list, one event pattern, or the Rules that "
        "EventBridge lists.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the subscriptions there as JSONL; printed otherwise.")
]


@app.command("sql", epilog=_SQL_EPILOG)
def import_sql(file: Texts, out: Out = None) -> None:
    """Turn SQL conditions into subscriptions.

    Every rule is written, or named on standard error with the reason. Exit code 0: all of them, 1: some were not.
    """
    _import(RuleSource.SQL, file, out)


@app.command("jms", epilog=_JMS_EPILOG)
def import_jms(file: Texts, out: Out = None) -> None:
    """Turn JMS message selectors into subscriptions.

    Every rule is written, or named on standard error with the reason. Exit code 0: all of them, 1: some were not.
    """
    _import(RuleSource.JMS, file, out)


@app.command("cloudevents", epilog=_CLOUDEVENTS_EPILOG)
def import_cloudevents(file: Texts, out: Out = None) -> None:
    """Turn CloudEvents SQL expressions into subscriptions.

    Every rule is written, or named on standard error with the reason. Exit code 0: all of them, 1: some were not.
    """
    _import(RuleSource.CLOUDEVENTS, file, out)


@app.command("amqp", epilog=_AMQP_EPILOG)
def import_amqp(file: Texts, out: Out = None) -> None:
    """Turn SQL filters and selectors of AMQP into subscriptions.

    Every rule is written, or named on standard error with the reason. Exit code 0: all of them, 1: some were not.
    """
    _import(RuleSource.AMQP, file, out)


@app.command("eventbridge", epilog=_EVENTBRIDGE_EPILOG)
def import_eventbridge(file: Patterns, out: Out = None) -> None:
    """Turn EventBridge event patterns into subscriptions.

    Every rule is written, or named on standard error with the reason. Exit code 0: all of them, 1: some were not.
    """
    _import(RuleSource.EVENTBRIDGE, file, out)


app.command("sigma", epilog=import_sigma.EPILOG)(import_sigma.import_sigma)


def _import(kind: RuleSource, file: Path, out: Path | None) -> None:
    from tamis.cli.screen import errors
    from tamis.errors import TamisError
    from tamis.model.language.format import format_node

    records: list[dict[str, object]] = []
    refused = 0
    for id, rule in _rules(kind, file):
        try:
            records.append({"id": id, "filter": format_node(_read(kind, rule))})
        except TamisError as error:
            refused += 1
            errors().say(f"{file}, rule {id!r}: {error}", "red")
    write_subscriptions(records, len(records), refused, out)


def write_subscriptions(records: list[dict[str, object]], imported: int, refused: int, out: Path | None) -> None:
    """Write subscriptions as JSONL to a file or to standard output; end with exit code 1 when rules were refused."""
    import msgspec

    from tamis.cli.screen import errors

    text = "".join(f"{msgspec.json.encode(record).decode()}\n" for record in records)
    if out is not None:
        out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    errors().say(f"{imported} of {imported + refused} rules became subscriptions")
    if refused:
        raise typer.Exit(NO)


def _read(kind: RuleSource, rule: Any) -> Node:
    from tamis.errors import ModelError
    from tamis.model.language.foreign.event_patterns import read_event_pattern
    from tamis.model.language.foreign.message_filters import read_amqp_filter, read_cloudevents_sql
    from tamis.model.language.foreign.selectors import read_selector

    readers = {RuleSource.CLOUDEVENTS: read_cloudevents_sql, RuleSource.AMQP: read_amqp_filter}
    if kind is RuleSource.EVENTBRIDGE and isinstance(rule, dict):
        return read_event_pattern(rule)
    if kind is not RuleSource.EVENTBRIDGE and isinstance(rule, str):
        if _STATEMENT.match(rule):
            raise ModelError("not a condition: give only the text after WHERE")
        return readers.get(kind, read_selector)(rule)
    form = "a JSON object, in a .json or .jsonl file" if kind is RuleSource.EVENTBRIDGE else "text"
    raise ModelError(f"a rule of {kind} is {form}")


def _rules(kind: RuleSource, file: Path) -> Iterator[tuple[str | int, Any]]:
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


def _json(text: str, source: str) -> Any:
    from tamis.errors import ModelError
    from tamis.files.strict_json import read_value

    try:
        return read_value(text)
    except ValueError as error:
        raise ModelError(f"{source}: {error}") from None


def _record(number: int, record: Any) -> tuple[str | int, Any]:
    """Return the id and the rule of ``{"id", "rule"}``, of a rule as EventBridge lists it, or of a bare one."""
    if isinstance(record, dict) and "rule" in record:
        return record.get("id", number), record["rule"]
    if isinstance(record, dict) and "EventPattern" in record:
        pattern = record["EventPattern"]
        name = record.get("Name", number)
        return name, _json(pattern, f"rule {name!r}") if isinstance(pattern, str) else pattern
    return number, record
