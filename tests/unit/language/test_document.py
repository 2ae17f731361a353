"""docs/language.md: every example is read, and matches the events it says it matches."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tamis.algebra.evaluate import matches_subscription
from tamis.errors import SubscriptionError, SubscriptionSyntaxError
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS
from tamis.model.language import limits
from tamis.model.language.compiler import compile_text
from tamis.model.language.format import format_node
from tamis.model.language.lexer import FUNCTIONS
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.types import (
    Boolean,
    Date,
    Decimal,
    Ip,
    Many,
    Mixed,
    Number,
    Region,
    String,
    Timestamp,
    Uuid,
    Vector,
    Version,
)

TEXT = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
SCHEMA = Schema(
    {"symbol": String(), "note": String(), "price": Number(), "volume": Number(), "halted": Boolean()}
    | {"at": Timestamp(), "start": Timestamp(), "stop": Timestamp(), "day": Date(), "look": Vector(2)}
    | {"area": Region(), "where": Region(geodetic=True), "ip": Ip(), "id": Uuid(), "amount": Decimal(2)}
    | {"v": Version()}
    | {"in": Number(), "price (EUR)": Number(), "größe": Number(), "tags": Many(String()), "sizes": Many(Number())}
    | {
        "bag": Many(Mixed()),
        "wanted": Many(String()),
        "detour": Region(),
        "detail.state": String(),
        "items.sku": Many(String()),
    }
)
BLOCKS = re.findall(r"^```cql2\n(.*?)^```\n(?:\n(Matches [^\n]*)\n)?", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("text", "claim"), BLOCKS, ids=[block[0].strip() for block in BLOCKS])
def test_examples_match_what_they_say(text: str, claim: str) -> None:
    node = parse(text)
    assert parse(format_node(node)) == node
    subscription = compile_text(text, SCHEMA)
    yes, _, no = claim.partition("; not ")
    for wanted, events in ((True, yes), (False, no)):
        for event in re.findall(r"`(.*?)`", events):
            assert matches_subscription(SCHEMA.event(json.loads(event)), subscription) is wanted, event


#: Rows of the tables: a subscription, events that match, events that do not.
ROWS = re.findall(r"^\| `([^`]+)` \| (`\{.*?) \| (`\{.*?) \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("text", "yes", "no"), ROWS, ids=[row[0] for row in ROWS])
def test_rows_match_what_they_say(text: str, yes: str, no: str) -> None:
    subscription = compile_text(text, SCHEMA)
    for wanted, events in ((True, yes), (False, no)):
        for event in re.findall(r"`(.*?)`", events):
            assert matches_subscription(SCHEMA.event(json.loads(event)), subscription) is wanted, event


def test_the_table_has_every_operator() -> None:
    _, _, table = TEXT.partition("## All operators")
    rules = [text for text, _, _ in ROWS if text in table]
    words = {*(f"{name}(" for name in FUNCTIONS), *(f" {op} " for op in ("=", "<>", "<", "<=", ">", ">=", "BETWEEN"))}
    words |= {f" {op} " for op in ("+", "-", "*", "/", "div", "%", "^")}
    words |= {" IN (", " LIKE ", " ILIKE ", " MATCHES ", " IS NULL"}
    assert not [word for word in words if not any(word in rule for rule in rules)]


#: Rows of the table of corrections: what is written, and what the error proposes.
ERRORS = TEXT.partition("## Errors")[2].partition("\n## ")[0]
PROPOSALS = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", ERRORS, re.MULTILINE)


@pytest.mark.parametrize(("written", "proposed"), PROPOSALS)
def test_errors_propose_what_the_page_says(written: str, proposed: str) -> None:
    with pytest.raises((SubscriptionError, SubscriptionSyntaxError)) as caught:
        parse(written)
    assert caught.value.corrected == proposed


def test_there_are_examples_with_events() -> None:
    assert len(BLOCKS) > 25
    assert len(PROPOSALS) > 7
    assert sum(bool(claim) for _, claim in BLOCKS) > 25


def test_the_json_example_is_read() -> None:
    [document] = re.findall(r"^```json\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    node = parse(document)
    assert parse(format_node(node)) == node
    assert compile_text(document, SCHEMA).filters


def test_the_error_is_what_users_see() -> None:
    [shown] = re.findall(r"^```text\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    with pytest.raises(SubscriptionSyntaxError) as caught:
        parse("price >< 10")
    assert str(caught.value) == shown.rstrip("\n")


def test_the_limits_are_those_of_the_code() -> None:
    stated = [int(number.replace(",", "")) for number in re.findall(r"^\| .* \| ([\d,]+) \|$", TEXT, re.MULTILINE)]
    names = (limits.TEXT, limits.TOTAL, limits.DEPTH, limits.IN_VALUES, limits.SET_VALUES, limits.VERTICES)
    more = (limits.REGIONS, limits.COORDINATES, limits.OPERATIONS, limits.EXPONENT, limits.POWERS)
    assert stated == [limit.most for limit in (*names, *more, limits.DISTANCE_DEGREES)]


def test_the_tables_of_functions_are_those_of_the_code() -> None:
    stated = dict(re.findall(r"^\| `(S_\w+)` \| (.*) \|$", TEXT, re.MULTILINE))
    every = {relation.value for relations in SPATIAL_FUNCTIONS.values() for relation in relations}
    for function, words in stated.items():
        named = every - {"disjoint"} if words == "all but disjoint" else set(words.split(", "))
        assert {relation.value for relation in SPATIAL_FUNCTIONS[function]} == named
    listed = set(stated) | set(re.findall(r"^\| `(RCC_\w+)`", TEXT, re.MULTILINE))
    assert listed == set(SPATIAL_FUNCTIONS) - {"S_CROSSES"}  # it is told in words: no relation of polygons is it
