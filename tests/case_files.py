"""The shared cases: a subscription, an event and the answer, thought out by hand.

``tests/cases/README.md`` describes the files. `load_cases` is for everything that matches: the library's
tests, the command line, the broker and Spark read the same cases and must give the same answers.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from tamis.model.schema import Schema
from tamis.model.types import AttributeType, Boolean, Date, Ip, Many, Mixed, Number, Region, Timestamp, Vector, Version
from tamis.model.types import Decimal as DecimalType
from tamis.model.values import INT64_MAX

__all__ = ["DIRECTORY", "Case", "arrow_row", "each_case", "load_cases"]

DIRECTORY = Path(__file__).parent / "cases"

_KEYS = {"name", "subscription", "event", "expected", "error", "mentions", "why"}
#: What JSON cannot say, written as an object with one key.
_SPECIAL = {"$decimal": Decimal, "$float": float}


@dataclass(frozen=True)
class Case:
    """One subscription put to one event. ``expected`` is the answer, or None where ``error`` is raised."""

    file: str
    name: str
    #: None: the engine learns the types from the subscription and the event.
    schema: Schema | None
    subscription: str | dict[str, Any]
    event: Any
    expected: bool | None
    #: The name of the error's class in `tamis.errors`, and what its message must contain.
    error: str | None = None
    mentions: tuple[str, ...] = ()
    #: Whether the event can travel as JSON: it has no decimal, no NaN, no infinity.
    is_json: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def has_columns(self) -> bool:
        """Whether the event fits columns with types: a list of Arrow or Spark has values of one type."""
        kinds = [] if self.schema is None else self.schema.values()
        return not any(isinstance(kind.element, Mixed) for kind in kinds)


@cache
def load_cases() -> tuple[Case, ...]:
    """Return every case, ordered by file and place in it."""
    return tuple(case for path in sorted(DIRECTORY.glob("*.json")) for case in _read(path))


def each_case(cases: Iterable[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test, whose first parameter is a case, on each of these cases.

    The cases of a file are one item of pytest: thousands of items would cost more than the answers. All are run,
    and a failure names every case that failed. The environment variable CASE runs the case of that name alone.
    """
    files: dict[str, list[Case]] = {}
    for case in cases:
        if os.environ.get("CASE", case.name) == case.name:
            files.setdefault(case.file, []).append(case)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(cases: list[Case], **fixtures: Any) -> None:
            failures = [error for case in cases if (error := _failure(test, case, fixtures)) is not None]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} cases failed", failures)

        signature = inspect.signature(test)
        first, *others = signature.parameters.values()
        assert first.name == "case"
        replaced = first.replace(name="cases", annotation=list[Case])
        run.__signature__ = signature.replace(parameters=[replaced, *others])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("cases", list(files.values()), ids=list(files))(run)

    return decorate


def _failure(test: Callable[..., None], case: Case, fixtures: dict[str, Any]) -> BaseException | None:
    """Return what a test raised about a case."""
    try:
        test(case, **fixtures)
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(f"the case is {case.name!r} of {case.file}.json; CASE={case.name!r} runs it alone")
        return error
    return None


def _read(path: Path) -> list[Case]:
    document = json.loads(path.read_text(encoding="utf-8"))
    described = document["schema"]
    schema = None if described is None else Schema.from_json(json.dumps(described))
    return [_case(path.stem, schema, case) for case in document["cases"]]


def _case(file: str, schema: Schema | None, case: dict[str, Any]) -> Case:
    if wrong := case.keys() - _KEYS:
        raise ValueError(f"{file}: {case.get('name')!r} has unknown keys: {sorted(wrong)}")
    if ("expected" in case) == ("error" in case):
        raise ValueError(f"{file}: {case['name']!r} needs one of expected and error")
    if not isinstance(case.get("expected", True), bool):
        raise ValueError(f"{file}: {case['name']!r}: expected is true or false")
    event = _restored(case["event"])
    is_json = event == case["event"]
    answer, error, mentions = case.get("expected"), case.get("error"), tuple(case.get("mentions", ()))
    expectations = (answer, error, mentions, is_json)
    return Case(file, case["name"], schema, case["subscription"], event, *expectations)


def _restored(value: Any) -> Any:
    """Return an event's value with decimals, NaN and infinities in their places."""
    if isinstance(value, dict):
        for key, make in _SPECIAL.items():
            if value.keys() == {key}:
                return make(value[key])
        return {key: _restored(item) for key, item in value.items()}
    return [_restored(item) for item in value] if isinstance(value, list) else value


def arrow_row(raw: Mapping[str, Any], schema: Schema) -> pa.Table:
    """Return a table of two rows: an event, and one in which everything is missing."""
    event: dict[str, Any] = schema.event(raw)
    event |= {name: value for name, value in raw.items() if isinstance(value, Decimal)}  # Arrow has decimals too
    columns = {name: _arrow_column(event.get(name), kind) for name, kind in schema.items()}
    return pa.table(columns or {"nothing": pa.nulls(2)})


def _arrow_column(value: Any, kind: AttributeType) -> pa.Array:
    if value is not None and isinstance(kind, Region):
        value = shapely.to_wkb(value)
    if value is not None and isinstance(kind, Vector):
        value = value.tolist()
    if value is not None and isinstance(kind, Version):
        value = kind.to_json(value)
    if value is not None and isinstance(kind, Ip | DecimalType):
        value = kind.to_wire(value) if isinstance(kind, DecimalType) and isinstance(value, int) else value
        value = kind.to_json(value) if isinstance(kind, Ip) else str(value)
    if isinstance(kind, Many):
        return pa.array([None if value is None else list(value), None], pa.list_(_element_type(value, kind.of)))
    return pa.array([value, None], _arrow_type(value, kind))


def _element_type(elements: Any, kind: AttributeType) -> pa.DataType | None:
    """Return the Arrow type of the elements of a list: that of its largest number, of any other type the usual one."""
    whole = isinstance(kind, Number) and all(isinstance(element, int) for element in elements or [0.5])
    return pa.int64() if whole else _arrow_type(None, kind)


def _arrow_type(value: Any, kind: AttributeType) -> pa.DataType | None:
    if isinstance(kind, Vector):
        return pa.list_(pa.float64(), kind.n)
    if isinstance(kind, Number):
        if isinstance(value, int):
            return pa.int64() if value <= INT64_MAX else pa.uint64()
        return None if isinstance(value, Decimal) else pa.float64()  # None: as many digits as it takes
    types = {Boolean: pa.bool_(), Timestamp: pa.timestamp("us", "UTC"), Region: pa.binary(), Date: pa.date32()}
    return types.get(type(kind), pa.string())
