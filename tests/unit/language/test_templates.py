"""Texts that are read by template or by their words: named cases of what `test_texts_in_bulk` finds at random."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from tamis.algebra.compiling import compile_filters, compile_source
from tamis.algebra.compiling_texts import TextTemplates, compile_texts
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.nodes import Between, Compare
from tamis.model.language.parse import parse
from tamis.model.language.templates.alike import literals_between, numbers_between
from tamis.model.language.templates.columns import TextColumns, number_ends, read_numbers
from tamis.model.language.templates.columns import columns_of as columns_by_template
from tamis.model.language.templates.documents import JsonTemplates
from tamis.model.language.templates.texts import Template, make_template, split_text, with_values
from tamis.model.language.templates.wording import TextDocuments, filled_words
from tamis.model.schema import Schema
from tamis.model.subscription import Filter
from tamis.model.types import Number, Region, String, Timestamp

SCHEMA = Schema(
    {"x": Number(), "y": Number(), "name": String(), "at": Timestamp(), "globe": Region(geodetic=True)},
)
INF = math.inf


def template_of(text: str) -> Template:
    parts = split_text(text)
    assert parts is not None
    template = make_template(text, parts, SCHEMA)
    assert template is not None
    return template


def filled(first: str, later: str) -> tuple[Filter, ...] | None:
    """Return the filters of a text by the template of an earlier one, None if the text must be parsed."""
    parts = split_text(later)
    assert parts is not None
    return template_of(first).fill(parts[1])


def columns_of(texts: list[str]) -> tuple[TextColumns, list[int]]:
    """Return the only columns of texts, and the rows of the others."""
    compiled = compile_texts(texts, SCHEMA)
    assert compiled.bad is None
    (columns,) = compiled.columns
    return columns, [row for row, _ in compiled.others]


# ---- columns


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [
        ("=", 5.0, 5.0),
        (">=", 5.0, INF),
        (">", math.nextafter(5.0, INF), INF),
        ("<=", -INF, 5.0),
        ("<", -INF, math.nextafter(5.0, -INF)),
    ],
)
def test_the_ends_of_a_comparison(op: str, low: float, high: float) -> None:
    ends = number_ends(op, np.array([5.0, math.nan]))
    assert [end[0] for end in ends] == [low, high]
    assert np.isnan(ends[0][1])


def test_integers_that_float64_rounds_are_left_out() -> None:
    written = ["9007199254740991", "-9007199254740992", "9007199254740992", "9007199254740993", "'a'", "POINT(1 2)"]
    assert read_numbers(written)[0] == 2.0**53 - 1
    assert np.isnan(read_numbers(written)[1:]).all()


def test_the_tightest_of_several_bounds_counts() -> None:
    words = ("x > {} AND x >= {} AND x < {} AND x <= {}", "x BETWEEN {} AND {} AND x BETWEEN {} AND {}")
    texts = [words[0].format(9, 3 + i % 2, 70, 80) for i in range(40)]
    columns, others = columns_of(texts)
    assert set(zip(*columns.ranges["x"], strict=True)) == {(math.nextafter(9, INF), math.nextafter(70, -INF))}
    assert len(columns.rows) + len(others) == 40
    columns, _ = columns_of([words[1].format(7, 60, 3, 50 + i % 2) for i in range(40)])
    assert set(columns.ranges["x"][0].tolist()) == {7.0}


def test_the_tightest_of_several_bounds_counts_in_a_template() -> None:
    template = template_of("x > 1 AND x >= 2 AND x < 9 AND x <= 8")
    written = [["5", "3", "7", "8"], ["3", "5", "8", "7"]]
    columns, left_out = columns_by_template(template, [4, 6], written)
    assert (columns.rows.tolist(), left_out) == ([4, 6], [])
    lower, upper = columns.ranges["x"]
    assert lower.tolist() == [math.nextafter(5, INF), 5.0]
    assert upper.tolist() == [math.nextafter(7, -INF), 7.0]


def test_a_bound_that_a_text_repeats_with_the_same_words() -> None:
    """The texts have different shapes, so they are read by their words."""
    texts = [" AND ".join(["y < 100", *(f"x > {3 - j}" for j in range(1 + i % 3))]) for i in range(9)]
    texts += [f"x < {i} AND {text}" for i, text in enumerate(texts, 20)]
    compiled = compile_texts(texts, SCHEMA)
    lows = {}
    for columns in compiled.columns:
        lows |= dict(zip(columns.rows.tolist(), columns.ranges["x"][0].tolist(), strict=True))
    assert {row: low for row, low in lows.items() if low > -INF} == {
        row: math.nextafter(3.0, INF) for row in lows if lows[row] > -INF
    }
    assert len([low for low in lows.values() if low > -INF]) >= 12


@pytest.mark.parametrize("text", ["name = 'a' AND name = 'b'", "y < 5 AND name = 'a' AND x > 2 AND name = 'b'"])
def test_two_strings_for_one_attribute_match_nothing(text: str) -> None:
    compiled = compile_texts([text], SCHEMA)
    assert not any(len(columns.rows) for columns in compiled.columns)
    assert compiled.others == [(0, ())]


def test_a_moment_that_is_excluded_is_not_in_the_column() -> None:
    day = 86_400_000_000
    texts = [f"at > DATE('1970-01-{i % 9 + 2:02}') AND at <= DATE('1970-02-{i % 9 + 1:02}')" for i in range(40)]
    columns, _ = columns_of(texts)
    first = int(columns.rows[0]) % 9
    low, high = (float(end[0]) for end in columns.ranges["at"])
    assert low == (first + 1) * day + 1
    assert math.floor(high) == (first + 31) * day


@pytest.mark.parametrize("point", ["POINT(0 91)", "POINT(0 -90.5)", "POINT(181 0)"])
def test_a_circle_off_the_globe_is_refused(point: str) -> None:
    texts = [f"S_DWITHIN(globe, POINT({i} {i}), 5.5, 'km')" for i in range(40)]
    compiled = compile_texts([*texts, f"S_DWITHIN(globe, {point}, 5.5, 'km')"], SCHEMA)
    assert compiled.bad is not None
    assert compiled.bad.row == 40


def test_circles_off_the_globe_are_left_out_of_columns() -> None:
    template = template_of("S_DWITHIN(globe, POINT(1 2), 5.5, 'km')")
    points = ["POINT(0 90)", "POINT(0 90.5)", "POINT(-180 0)", "POINT(181 0)", "POINT(1e1 2)"]
    columns, left_out = columns_by_template(template, range(5), [[point, "5.0", "'km'"] for point in points])
    assert (columns.rows.tolist(), left_out) == ([0, 2], [1, 3, 4])
    assert columns.circles is not None
    assert columns.circles.radii.tolist() == [5_000.0, 5_000.0]


def test_rows_that_are_taken_out_keep_what_they_leave_free() -> None:
    rows = np.arange(3, dtype=np.int32)
    bounds = np.array([1.0, 2.0, 3.0])
    free = np.array([True, False, False])
    columns = TextColumns(rows, {"x": (bounds, bounds + 1)}, {"name": ["a", "b", "c"]}, free={"x": free})
    taken = columns.take(np.array([1, 2]), np.array([7, 8], np.int32))
    assert (taken.rows.tolist(), taken.strings) == ([7, 8], {"name": ["b", "c"]})
    assert taken.about("x").tolist() == [0, 1]
    assert [end.tolist() for end in taken.ranges["x"]] == [[2.0, 3.0], [3.0, 4.0]]


# ---- texts of one shape


def test_words_in_another_order_are_another_shape() -> None:
    words = ("a > ", " AND b < ", "")
    assert literals_between(words, ["a > 1 AND b < 2", " AND b < 1a > 2"]) is None
    assert numbers_between(words, ["a > 1 AND b < 2", "a > -0.0 AND b < 2.5"]) == [[1, 0.0], [2, 2.5]]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("name = 'a' OR x = 1", "name = 5 OR x = 1"),
        ("x = 1 OR y = 2", "x = 'a' OR y = 2"),
        ("x < 7 AND x > 3", "x < 3 AND x > 7"),
        ("x <= 7 AND x > 3", "x <= 7 AND x > 7"),
        ("x > 3 AND x > 4", "x > 4 AND x > 4"),
    ],
)
def test_an_unusual_literal_is_not_filled_in(first: str, later: str) -> None:
    assert filled(first, later) is None


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("name ILIKE 'A%'", "name ILIKE 'Straße%'"),
        ("name ILIKE 'A%' OR x < 3", "name ILIKE 'STRASSE%' OR x < 4"),
        ("x NOT BETWEEN 1 AND 2", "x NOT BETWEEN 3 AND 4"),
        ("x NOT IN (1, 2) OR name NOT LIKE 'a%'", "x NOT IN (3, 4) OR name NOT LIKE 'b%'"),
        ("x > 3 AND x <= 7 AND name = 'a'", "x > 4 AND x <= 5 AND name = 'b'"),
    ],
)
def test_another_literal_gives_the_filters_of_its_text(first: str, later: str) -> None:
    assert repr(filled(first, later)) == repr(compile_source(later, SCHEMA).filters)


def test_a_tree_with_other_literals_keeps_its_operators() -> None:
    node = with_values(Between("x", 1, 2, negated=True), iter([3, 4]))
    assert node == Between("x", 3, 4, negated=True)


def test_templates_know_their_schema() -> None:
    templates, text = TextTemplates(), "at < '2026-01-01T00:00:00Z'"
    for schema in (Schema({"at": String()}), Schema({"at": Timestamp()})):
        for _ in range(4):
            assert templates.compile(text, schema) == compile_source(text, schema)


# ---- documents


def json_of(text: str) -> bytes:
    return msgspec.json.encode(to_json(parse(text)))


def json_templates(*texts: str) -> JsonTemplates:
    """Return templates that have met each of some texts as a document."""
    templates = JsonTemplates()
    for text in texts:
        assert templates.find(json_of(text), SCHEMA) is None
        templates.add(json_of(text), parse(text), open=False, write=lambda filters: b"")
    return templates


def test_a_document_has_the_filters_of_its_text() -> None:
    templates = json_templates("x BETWEEN 1 AND 2")
    document = templates.find(b'{"op":"between","args":[{"property":"x"},-0.0,4]}', SCHEMA)
    assert document is not None
    assert repr(document.filters) == repr(compile_source("x BETWEEN 0.0 AND 4", SCHEMA).filters)
    text = templates.text(b'{"op":"between","args":[{"property":"x"},-0.0,4]}', SCHEMA)
    assert text == "x BETWEEN 0.0 AND 4"
    other = Schema({"x": String()})
    assert templates.find(json_of("x BETWEEN 3 AND 4"), other) is None


@pytest.mark.parametrize(("bounds", "is_canonical"), [("3,4", True), ("2,2", False), ("1.50,2", False)])
def test_a_document_whose_bounds_are_equal_is_written_otherwise(bounds: str, is_canonical: bool) -> None:
    templates, first = JsonTemplates(), b'{"op":"between","args":[{"property":"x"},1,2]}'
    assert templates.find(first, SCHEMA) is None
    templates.add(first, Between("x", 1, 2), open=False, write=lambda filters: first)
    document = templates.find(first.replace(b"1,2", bounds.encode()), SCHEMA)
    assert document is not None
    assert document.is_canonical == is_canonical


def test_every_document_is_a_column_or_left_over() -> None:
    templates = json_templates("x BETWEEN 1 AND 2")
    documents = [json_of(f"x BETWEEN {i} AND {i + 1}") for i in range(40)]
    documents[7] = json_of("x BETWEEN 9 AND 3")
    documents[9] = json_of("x BETWEEN 9 AND 9007199254740993")
    for _ in range(2):  # the second time their shape is a usual one
        columns, others = templates.columns(documents, range(40), SCHEMA)
        assert others == [7, 9]
        rows = [row for part in columns for row in part.rows.tolist()]
        assert sorted([*rows, *others]) == list(range(40))


def test_a_string_is_written_as_a_literal() -> None:
    assert filled_words(("name = ", " AND x > ", ""), ("it's", 2.5)) == "name = 'it''s' AND x > 2.5"
    documents = TextDocuments()
    texts = [f"name = '{name}' AND x > 2" for name in ("a", "b", "it''s")]
    assert [documents.find(text) for text in texts] == [None, None, json_of(texts[2])]
    read = from_json(msgspec.json.decode(json_of(texts[2])))
    assert compile_filters(read, SCHEMA) == compile_source(texts[2], SCHEMA).filters
    assert compile_filters(Compare("name", "=", "it's"), SCHEMA) == compile_source("name = 'it''s'", SCHEMA).filters
