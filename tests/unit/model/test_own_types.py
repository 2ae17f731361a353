"""A type is one class: two toy types, registered here and known nowhere else, go through every door."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.algebra.evaluate import matches
from tamis.files.csv_values import typed_column, typed_value
from tamis.index.mics.space import ContentSpace
from tamis.index.zcurve.cells import domain_of
from tamis.model.columns import column_from
from tamis.model.language.compiler import compile_text
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.language.unbind import format_filters
from tamis.model.types import registry
from tamis.node.content import Content
from tamis.overlay.space import Space
from tamis.runtime.client.client_values import encode_event
from tamis.runtime.event_json import payload_as_json

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")


class Release:
    """What a user's program has for a version."""

    def __init__(self, *parts: int) -> None:
        self.parts = parts


@dataclass(frozen=True)
class Version(tamis.DiscreteType):
    """A version such as 1.22.3: three numbers, the first decides."""

    name: ClassVar[str] = "edition"
    python_types: ClassVar[tuple[type, ...]] = (Release,)
    first: ClassVar[int] = 0
    last: ClassVar[int] = 10**12 - 1

    @property
    def domain(self) -> tuple[float, float]:
        """All versions."""
        return float(self.first), float(self.last)

    def canonical(self, value: object) -> int:
        """Return a number that keeps the order."""
        parts: Any = value.parts if isinstance(value, Release) else None
        if isinstance(value, str):
            match = _VERSION.fullmatch(value)
            if match is None:
                raise tamis.UnfitError("expected a version such as 1.22.3")
            parts = tuple(map(int, match.groups()))
        if not isinstance(parts, tuple):
            raise tamis.UnfitError(f"expected a version, not {type(value).__name__}")
        return int(parts[0] * 10**8 + parts[1] * 10**4 + parts[2])

    def to_json(self, value: Any) -> str:
        """Return 1.22.3."""
        return f"{value // 10**8}.{value // 10**4 % 10**4}.{value % 10**4}"

    def to_wire(self, value: Any) -> str:
        """Return 1.22.3."""
        return self.to_json(value)

    @classmethod
    def plain(cls, value: Any) -> str:
        """Return 1.22.3."""
        return ".".join(map(str, value.parts))


@dataclass(frozen=True)
class Country(tamis.ScalarType):
    """A country's code, in either case."""

    name: ClassVar[str] = "country"
    form: ClassVar[tamis.Form] = tamis.Form.TEXT

    def canonical(self, value: object) -> str:
        """Return two capital letters."""
        if isinstance(value, str) and len(value) == 2 and value.isalpha() and value.isascii():
            return value.upper()
        raise tamis.UnfitError("expected a code of two letters")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(registry._TYPES), list(registry._IN_ORDER)
    tamis.register_type(Version)
    tamis.register_type(Country)
    yield
    registry._TYPES.clear()
    registry._TYPES.update(before[0])
    registry._IN_ORDER[:] = before[1]


SCHEMA = tamis.Schema({"v": Version(), "c": Country(), "n": tamis.Number()})
QUESTIONS = {
    "range": "v >= '1.9.0' AND v < '1.22.0'",
    "equal": "v = '1.22.3'",
    "between": "v BETWEEN '1.0.0' AND '1.10.0'",
    "among": "v IN ('1.2.3', '2.0.0') AND n > 1",
    "not": "NOT v < '2.0.0' OR c <> 'de'",
    "country": "c = 'de'",
    "countries": "c IN ('fr', 'DE') AND v IS NOT NULL",
    "missing": "v IS NULL",
}
EVENTS: list[dict[str, Any]] = [
    {"v": "1.9.0", "c": "DE", "n": 2},
    {"v": "1.10.0", "c": "fr"},
    {"v": "1.22.3", "n": 5},
    {"v": Release(1, 2, 3), "c": "de", "n": 2},
    {"v": "2.0.0", "n": 1},
    {"c": "us"},
]
ANSWERS = [
    {"range", "between", "country", "countries"},
    {"range", "between", "not", "countries"},
    {"equal"},
    {"between", "among", "country", "countries"},
    {"not"},
    {"not", "missing"},
]


@pytest.mark.parametrize("matcher", ["counting", "linear", "packed"])
def test_matchers_hold_a_type_of_ones_own(matcher: str) -> None:
    engine = tamis.Engine(SCHEMA, matcher=matcher)
    for id, text in QUESTIONS.items():
        engine.subscribe(text, id=id)
    assert [set(engine.match(event)) for event in EVENTS] == ANSWERS


def test_tables_and_snapshots(tmp_path: Path) -> None:
    engine = tamis.Engine(SCHEMA)
    table = pa.table({"id": list(QUESTIONS), "filter": list(QUESTIONS.values())})
    engine.subscribe_table(tamis.SubscriptionTable.from_arrow(table))
    texts = {
        "v": ["1.9.0", "1.10.0", "1.22.3", "1.2.3", "2.0.0", None],
        "c": ["DE", "fr", None, "de", None, "us"],
        "n": [2.0, None, 5.0, 2.0, 1.0, None],
    }
    for source in (pa.table(texts), texts):
        matches = engine.match_table(source)
        assert [set(matches.of(row)) for row in range(len(EVENTS))] == ANSWERS
    engine.save(tmp_path / "saved")
    loaded = tamis.Engine.load(tmp_path / "saved")
    assert loaded.schema == SCHEMA
    assert [set(loaded.match(event)) for event in EVENTS] == ANSWERS


@pytest.mark.parametrize("text", QUESTIONS.values())
def test_text_and_json_come_back(text: str) -> None:
    filters = compile_text(text, SCHEMA).filters
    assert compile_text(format_filters(filters, SCHEMA), SCHEMA).filters == filters
    assert compile_text(to_json(parse(text)), SCHEMA).filters == filters
    content = Content(SCHEMA)
    assert content.read_filter(content.write_filter(filters)) == filters


def test_a_broker_carries_its_values() -> None:
    writer, reader = Content(SCHEMA), Content(SCHEMA)
    for event, answers in zip(EVENTS, ANSWERS, strict=True):
        sent = msgspec.msgpack.decode(encode_event(event))
        payload = writer.write_event(sent)
        canonical = reader.read_event(payload)
        filters = {id: compile_text(text, SCHEMA).filters for id, text in QUESTIONS.items()}
        assert {id for id, some in filters.items() if any(matches(canonical, filter) for filter in some)} == answers
        shown = {name: SCHEMA[name].to_json(value) for name, value in canonical.items()}
        assert payload_as_json(payload, SCHEMA) == shown
    assert payload_as_json(writer.write_event(EVENTS[3]), SCHEMA) == {"v": "1.2.3", "c": "DE", "n": 2}


def test_cells_of_csv() -> None:
    assert typed_value("1.2.3", Version()) == "1.2.3"
    column = column_from("v", Version(), typed_column(pa.array(["1.2.3", None, "x"]), Version()))
    assert (column.value(0), column.value(1), list(column.bad)) == (100020003, None, [2])
    assert column.values.dtype == np.int64


def test_the_algebra_is_exact() -> None:
    assert tamis.covers("v < '2.0.0'", "v <= '1.9999.9999'", schema=SCHEMA)
    assert tamis.covers("v <= '1.9999.9999'", "v < '2.0.0'", schema=SCHEMA)
    answer = tamis.covers("v < '1.2.0'", "v < '1.3.0'", schema=SCHEMA)
    assert not answer
    assert answer.witness is not None
    assert "1.2.0" <= answer.witness["v"] < "1.3.0"
    assert tamis.conflicts("v > '2.0.0'", "v < '1.0.0'", schema=SCHEMA)
    assert len(tamis.simplify("v > '1.0.0' OR v > '1.2.0'", SCHEMA).filters) == 1


def test_curves_and_peers_have_cells_for_it() -> None:
    assert domain_of(SCHEMA, "v") == Version().domain
    space = ContentSpace.from_schema(SCHEMA, ["v"], bits=4)
    assert space.key_of({"v": 0}) < space.key_of({"v": Version.last})
    assert Space(SCHEMA).box_of(compile_text("v >= '5000.0.0'", SCHEMA).filters) is not None


def test_it_is_learned_from_its_own_python_class() -> None:
    engine = tamis.Engine()
    engine.match({"v": Release(1, 2, 3)})
    assert engine.schema["v"] == Version()


def test_a_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(tamis.SubscriptionError, match="it is a edition, and 'x' does not fit: expected"):
        compile_text("v = 'x'", SCHEMA)
    with pytest.raises(tamis.EventError, match="attribute 'v': expected a version such as"):
        SCHEMA.event({"v": "1.2"})


def test_schemas_name_it_in_json() -> None:
    assert tamis.Schema.from_json(SCHEMA.to_json()) == SCHEMA
    with pytest.raises(tamis.SchemaError, match="edition, country"):
        tamis.Schema.from_json('{"attributes": {"a": {"type": "colour"}}}')


def test_what_is_not_a_type_is_refused() -> None:
    class Other(Version):
        pass

    for wrong, problem in ((Other, "type 'edition' exists already"), (int, "extends tamis.AttributeType")):
        with pytest.raises(tamis.SchemaError, match=problem):
            tamis.register_type(wrong)  # type: ignore[type-var]
    tamis.register_type(Version)  # again: nothing changes
