"""Rules in Spark's workers: columns with several values per row, readers that are kept, and what readers remember."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

import tamis
from tamis.algebra import compiling_texts
from tamis.algebra.compiling_texts import TextReader
from tamis.model.schema import Schema
from tamis.spark.subscriptions.rule_texts import reader_of
from tamis.spark.subscriptions.typed import _conditions


def test_a_list_in_a_typed_column_is_the_problem_of_its_row() -> None:
    batch = pa.record_batch({"names": pa.array([["a"], None, ["b", "c"]], pa.list_(pa.string()))})
    written = _conditions(batch, "names", "name", "=", Schema({"name": tamis.String()}))
    assert set(written.errors) == {0, 2}
    assert written.texts.to_pylist() == [None, None, None]


@dataclass
class Doubled:
    """A function without a hash: a plain dataclass compares by value."""

    factor: int = 2

    def __call__(self, value: float) -> float:
        return value * self.factor


@pytest.fixture
def doubled() -> Iterator[None]:
    tamis.register_function("doubled", Doubled(), returns=tamis.Number())
    yield
    tamis.unregister_function("doubled")


@pytest.mark.usefixtures("doubled")
def test_functions_without_a_hash_have_a_reader() -> None:
    schema = Schema({"price": tamis.Number()}).to_json()
    reader = reader_of(schema)
    assert reader_of(schema) is reader
    tamis.unregister_function("doubled")
    tamis.register_function("doubled", Doubled(3), returns=tamis.Number())
    assert reader_of(schema) is not reader


def test_what_a_reader_remembers_is_bounded_by_the_length_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    original = compiling_texts.compile_source

    def count(text: str, *arguments: object, **options: object) -> object:
        parsed.append(text)
        return original(text, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling_texts, "compile_source", count)
    monkeypatch.setattr(compiling_texts, "_CHARACTERS_REMEMBERED", 30)
    reader = TextReader(Schema({"price": tamis.Number()}))
    short, long = "price IS NULL", "price IS NOT NULL OR price IS NULL"
    for _ in range(3):
        reader.read([short], columns=False)
        reader.read([long], columns=False)
    assert parsed.count(short) == 1
    assert parsed.count(long) == 2, "the second parsed text of a shape becomes its template"
