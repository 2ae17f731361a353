"""Texts that are compiled together mean what each of them means alone: filters, types, bounds and errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from itertools import product
from random import Random
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.algebra import compiling_texts
from tamis.algebra.compiling import compile_filters, compile_source
from tamis.algebra.compiling_texts import CompiledTexts, TextTemplates, compile_texts
from tamis.errors import ModelError
from tamis.index.packed.axes import AttributePart, Axes
from tamis.index.packed.boxes_of import boxes_of
from tamis.index.packed.boxes_of_columns import circle_boxes
from tamis.kernels.boxes.quantise import ANY_VALUE
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.nodes import And, Compare
from tamis.model.language.parse import parse
from tamis.model.language.templates import conjunctions
from tamis.model.language.templates.columns import TextColumns
from tamis.model.language.templates.texts import split_text
from tamis.model.language.unbind import unbind
from tamis.model.schema import Schema, shown_by_events
from tamis.model.subscription import Filter
from tamis.model.types import Boolean, Number, Region, String, Timestamp
from tamis.node.content import Content, written_forms
from tests.contract.strategies import few

SCHEMA = Schema(
    {
        "x": Number(),
        "y": Number(0, 9),
        "name": String(),
        "on": Boolean(),
        "at": Timestamp(),
        "area": Region(),
        "globe": Region(geodetic=True),
    }
)

NUMBERS = (
    *("0", "1", "2", "2.0", "2.5", "-0", "-0.0", "+5", "007", ".5", "5.", "1e3", "1E-400", "-3"),
    *("9007199254740992", "9007199254740993", "18446744073709551615", "18446744073709551616", "1e999", "1e300"),
)
STRINGS = (
    "''",
    "'a'",
    "'ab'",
    "'b'",
    "'it''s'",
    "'a%'",
    "'%b'",
    "'a_'",
    "'é'",
    "'ÀB%'",
    "'(a'",
    "'5'",
    "'x y'",
    r"'\%'",
    "'\0'",
    "'a\0'",
)
MOMENTS = (
    *(
        "TIMESTAMP('2026-01-01T00:00:00Z')",
        "TIMESTAMP('2026-01-01T01:00:00+01:00')",
        "timestamp( '1969-12-31T23:59:59Z')",
    ),
    *("DATE('2026-01-01')", "DATE('0001-01-01')", "TIMESTAMP('9999-12-31T23:59:59.999999Z')", "DATE ('2026-02-30')"),
)
GEOMETRIES = (
    *("POINT(1 2)", "POLYGON((0 0, 1 0, 1 1, 0 0))", "point (-1.5 1e1)", "MULTIPOINT((0 0), (1 1))"),
    "MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))",
    *(
        "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 2 1, 2 2, 1 1))",
        "LINESTRING(0 0, 1 1)",
        "POLYGON((0 0, 1 1, 0 1, 1 0, 0 0))",
    ),
    *("POLYGON((0 0, 1 0, 1 1))", "POINT(1 2 3)", "POINT EMPTY", "POINT(1, 2)", "POINT(1e999 0)", "POINT(200 95)"),
    *(
        "BBOX(0, 0, 1, 1)",
        "POLYGON((0 0, 1 0, 1 1, 0 0)",
        "POINT Z (1 2 3)",
        f"MULTIPOINT({', '.join(['(0 0)'] * 300)})",
    ),
)
POINTS = (
    *("POINT(1 2)", "POINT(179.9 0)", "POINT (-12.25 89.9)", "POINT(-180 -90)", "point(0.1 -0)"),
    *(
        "POINT(200 95)",
        "POINT(-1.5 1e1)",
        "POINT( 1  2 )",
        "POINT(01 +2)",
        "POINT(1 2 3)",
        "POINT(1\v2)",
        "POINT(1. .5)",
    ),
    *("POINT(1. .5)", "POINT EMPTY", "LINESTRING(0 0, 1 1)", "POINT(5)", "POINT(9007199254740993 0)"),
)
DISTANCES = ("1", "2.5", "0", "10", "3", "-1", "1e999", "5000")
UNITS = ("'km'", "'km'", "'m'", "'km'", "'km'", "'mile'", "'KM'", "''")
LITERALS = dict(
    zip("NSTGPDU", (NUMBERS, STRINGS, MOMENTS, GEOMETRIES, POINTS, DISTANCES, UNITS), strict=True),
)
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")

#: Conditions with a letter in braces for each literal: circles, ranges, others, and those without a template.
CIRCLES = ("S_DWITHIN(globe, {P}, {D}, {U})", "S_DWITHIN(area, {P}, {D})")
RANGES = (
    *(f"{name} {op} {{{kind}}}" for name, kind in (("x", "N"), ("name", "S"), ("at", "T")) for op in OPERATORS),
    *("x BETWEEN {N} AND {N}", "y between {N} and {N}", "at BETWEEN {T} AND {T}", "{N} < y", "{N}>=x", "{S} = name"),
    *("x<{N}", "name = {S}", "y > {N}", "name = {S}"),
)
OTHERS = (
    *("x NOT BETWEEN {N} AND {N}", "x IN ({N}, {N})", "name IN ({S},{S})", "at IN ({T}, {T})", "name LIKE {S}"),
    *("name NOT LIKE {S}", "x NOT IN ({N})", "on = TRUE", "on", "name IS NULL", "y IS NOT NULL", "FALSE"),
    *("name BETWEEN {S} AND {S}", "NOT x < {N}", '"x" > {N}', "name ILIKE {S}", "name NOT ILIKE {S}"),
    *("S_INTERSECTS(area, {G})", "S_WITHIN({G}, area)", "RCC_MEETS(area, {G})", "S_DWITHIN(area, {G}, {D})"),
    *("S_DWITHIN(globe, {G}, {D}, {U})", "S_DWITHIN({G}, globe, {D}, {U})", "S_DISJOINT(globe,{G})"),
    *("name MATCHES {S}", "name ILIKE {S} AND name MATCHES {S}", "CASEI(name) = CASEI({S})", "CASEI(name) LIKE {S}"),
)
WRONG = (
    *("new > {N}", "new = {S}", "x1 = {N}", "a.5 < {N}", "x = {N}{N}", "x = {S}", "x = {N} -5", "at < {S}"),
    *("x LIKE {S}", "größe >= {N}", "x = = {N}", "missing"),
)


def _shape(random: Random) -> str:
    """Return a shape: half of all are conjunctions of ranges, some of them with a circle, a few are wrong."""
    if random.random() < 0.5:
        conditions = random.choices(RANGES, k=random.randint(1, 3))
        if random.random() < 0.3:
            conditions[random.randrange(len(conditions))] = random.choice(CIRCLES)
        return " AND ".join(conditions)
    conditions = random.choices(RANGES + OTHERS + WRONG if random.random() < 0.1 else RANGES + OTHERS, k=4)
    joined = [random.choice(["{} AND {}", "{}  OR {}", "({} OR {})", "NOT ({} AND {})"]) for _ in range(3)]
    whole = conditions[0]
    for join, condition in zip(joined[: random.randint(0, 3)], conditions[1:], strict=False):
        whole = join.replace("{}", whole, 1).replace("{}", condition, 1)
    return whole


def _filled(shape: str, random: Random) -> str:
    """Return a text of a shape; one literal in five is unusual, one in a hundred of another type."""
    pieces = shape.replace("}", "{").split("{")
    for place in range(1, len(pieces), 2):
        some = LITERALS[random.choice("NSTG") if random.random() < 0.01 else pieces[place]]
        pieces[place] = random.choice(some if random.random() < 0.2 else some[:5])
    return "".join(pieces)


def make_texts(seed: int) -> list[str]:
    """Return texts of few shapes, in any order."""
    random = Random(seed)
    texts = [_filled(shape, random) for shape in (_shape(random), _shape(random)) for _ in range(random.randint(2, 9))]
    random.shuffle(texts)
    return texts


many_texts = st.integers(0, 2**32).map(make_texts)


def one_by_one(texts: Sequence[str], schema: Schema, *, learns: bool) -> CompiledTexts:
    compiled = CompiledTexts(schema)
    for row, text in enumerate(texts):
        try:
            filters, compiled.schema, _ = compile_source(text, compiled.schema, learns=learns)
        except ModelError as error:
            compiled.bad = compiling_texts.BadText(row, error)
            break
        compiled.others.append((row, filters))
    return compiled


def assert_same_error(compiled: CompiledTexts, wanted: CompiledTexts) -> None:
    assert (compiled.bad is None) == (wanted.bad is None), (compiled.bad, wanted.bad)
    if compiled.bad is not None and wanted.bad is not None:
        assert compiled.bad.row == wanted.bad.row
        assert (type(compiled.bad.error), str(compiled.bad.error)) == (type(wanted.bad.error), str(wanted.bad.error))


@settings(max_examples=few(400), deadline=None)
@given(many_texts, st.booleans())
def test_many_texts_mean_what_each_means(texts: list[str], learns: bool) -> None:
    schema = Schema() if learns else SCHEMA
    wanted, compiled = (
        one_by_one(texts, schema, learns=learns),
        compile_texts(texts, schema, learns=learns, columns=False),
    )
    assert_same_error(compiled, wanted)
    if wanted.bad is None:
        assert compiled.schema == wanted.schema
        assert list(compiled.schema) == list(wanted.schema)
        # By their representation: 1 and 1.0 are equal, but are written back differently.
        assert repr(compiled.others) == repr(wanted.others)


@settings(max_examples=few(400), deadline=None)
@given(many_texts, st.booleans())
def test_templates_say_what_each_text_means(texts: list[str], learns: bool) -> None:
    templates, schema = TextTemplates(), Schema() if learns else SCHEMA
    for text in [*texts, *texts]:
        try:
            wanted = compile_source(text, schema, learns=learns)
        except ModelError as error:
            with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
                templates.compile(text, schema, learns=learns)
            continue
        assert repr(templates.compile(text, schema, learns=learns)) == repr(wanted)
        schema = wanted.schema


@settings(max_examples=few(400), deadline=None)
@given(many_texts, st.booleans())
def test_columns_have_the_boxes_of_the_filters(texts: list[str], learns: bool) -> None:
    schema = Schema() if learns else SCHEMA
    wanted = one_by_one(texts, schema, learns=learns)
    with patch.object(compiling_texts, "_COLUMN", 1), patch.object(compiling_texts, "_BATCH", 5):
        compiled = compile_texts(texts, schema, learns=learns)
    assert_same_error(compiled, wanted)
    if wanted.bad is not None:
        return
    assert compiled.schema == wanted.schema
    assert_columns_and_others(compiled, dict(wanted.others))


def assert_columns_and_others(compiled: CompiledTexts, filters: dict[int, tuple[Filter, ...]]) -> None:
    assert all(repr(mine) == repr(filters.pop(row)) for row, mine in compiled.others)
    for columns in compiled.columns:
        if columns.circles is not None:
            assert_same_boxes(columns, filters)
            continue
        for i, row in enumerate(columns.rows.tolist()):
            free = {name for name, mask in columns.free.items() if mask[i]}
            ranges = {
                name: (max(lo[i], ANY_VALUE), hi[i]) for name, (lo, hi) in columns.ranges.items() if name not in free
            }
            strings = {name: some[i] for name, some in columns.strings.items() if name not in free}
            assert _box_of(filters.pop(row)) == (ranges, strings)
    assert not filters


def assert_same_boxes(columns: TextColumns, filters: dict[int, tuple[Filter, ...]]) -> None:
    axes = Axes()
    for row, boxes in circle_boxes(columns, axes):
        (filter,) = filters.pop(row)
        assert [box for _, box in boxes] == boxes_of(filter, axes)
        assert {number for number, _ in boxes} == {0}


@pytest.mark.parametrize("frame", ["{}", "x < 5 AND {}"])
@pytest.mark.parametrize("shape", CIRCLES)
def test_each_circle_has_the_boxes_of_its_filter(shape: str, frame: str) -> None:
    usual = [shape.format(P=f"POINT({i} 2)", D=f"{i}.5", U="'km'") for i in range(2)]
    for point in POINTS:
        for distance, unit in product(DISTANCES, set(UNITS) if "{U}" in shape else {""}):
            texts = [frame.format(text) for text in (*usual, shape.format(P=point, D=distance, U=unit))]
            wanted = one_by_one(texts, SCHEMA, learns=False)
            with patch.object(compiling_texts, "_COLUMN", 1):
                compiled = compile_texts(texts, SCHEMA)
            assert_same_error(compiled, wanted)
            for columns in compiled.columns if wanted.bad is None else ():
                assert_same_boxes(columns, dict(wanted.others))


def _box_of(filters: tuple[Filter, ...]) -> tuple[dict[str, tuple[float, float]], dict[str, str]]:
    """Return the ranges and the strings of a subscription that is one exact box."""
    axes = Axes()
    (box,) = [box for filter in filters for box in boxes_of(filter, axes)]
    assert box.exact
    names = dict(axes)
    ranges = {
        names[axis].attribute: side for axis, side in box.sides.items() if names[axis].part is AttributePart.NUMBER
    }
    strings = {}
    for axis, (code, _) in box.sides.items():
        if names[axis].part is not AttributePart.NUMBER:
            assert names[axis].part is AttributePart.CODE
            strings[names[axis].attribute] = list(axes.codes[names[axis].attribute])[int(code)]
    return ranges, strings


def as_json(texts: Sequence[str]) -> list[bytes]:
    """Return the texts that can be read as CQL2-JSON, each as it was written, and as its filters are written."""
    documents = []
    for text in texts:
        try:
            node = parse(text)
            documents.append(msgspec.json.encode(to_json(node)))
            documents.append(msgspec.json.encode(to_json(unbind(compile_filters(node, SCHEMA), SCHEMA))))
        except ModelError:
            continue  # it is wrong, or says something that cannot be written
    return documents


@settings(max_examples=few(400), deadline=None)
@given(many_texts)
def test_documents_of_one_shape_mean_what_each_means(texts: list[str]) -> None:
    content = Content(SCHEMA)
    for data in as_json(texts):
        try:
            wanted = compile_filters(from_json(msgspec.json.decode(data)), SCHEMA)
            written = msgspec.json.encode(to_json(unbind(wanted, SCHEMA)))
        except ModelError as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                content.write_filter(content.compile_json(data))
            continue
        content._memory.filters.clear()  # every document is read, not remembered
        content._memory.texts.clear()
        compiled_filters = content.read_filter(data)
        assert repr(compiled_filters) == repr(wanted)
        remembered = content._memory.texts
        for filters in [filters for filters, text in remembered.items() if text != data]:
            del remembered[filters]
        assert content.write_filter(compiled_filters) == written
        assert repr(content.compile_json(data)) == repr(wanted)


#: Numbers as JSON has them, canonical and not, and what is not a number there.
_WRITTEN = (
    b"0",
    b"-0",
    b"-0.0",
    b"7",
    b"2.5",
    b"2.50",
    b"1e2",
    b"9007199254740993",
    b"-3",
    b" 4",
    b"01",
    b"1,2",
    b'"a"',
)

#: Documents of several shapes; two of them share all of their long words.
_FRAMES = (
    b'{"op":"between","args":[{"property":"x"},%b,%b]}',
    b'{"op":"and","args":[{"op":">=","args":[{"property":"x"},%b]},{"op":"<","args":[{"property":"y"},%b]}]}',
    b'{"op":"and","args":[{"op":">=","args":[{"property":"y"},%b]},{"op":"<=","args":[{"property":"y"},%b]}]}',
    b'{"op":"and","args":[{"op":"<=","args":[{"property":"y"},%b]},{"op":">=","args":[{"property":"y"},%b]}]}',
    b'{"op":"or","args":[{"op":">","args":[{"property":"x"},%b]},{"op":"<","args":[{"property":"y"},%b]}]}',
)


@settings(max_examples=few(30), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(_FRAMES), st.sampled_from(_WRITTEN), st.sampled_from(_WRITTEN)),
        max_size=20,
    )
)
def test_many_documents_are_read_and_written_together_as_each_is(rows: list[tuple[bytes, bytes, bytes]]) -> None:
    content, single = Content(SCHEMA), Content(SCHEMA)
    for frame in _FRAMES:
        for usual in ((b"1", b"2"), (b"3", b"4.5")):
            content.read_filter(frame % usual)
    plain = [frame % (b"%d" % i, b"%d.5" % (i + i % 3)) for i in range(20) for frame in _FRAMES]
    documents = []
    for frame, low, high in rows:
        with contextlib.suppress(ModelError, msgspec.DecodeError):
            single.compile_json(frame % (low, high))
            documents.append(frame % (low, high))
    for batch in (plain, [*plain, *documents]):
        meanings = [compile_filters(from_json(msgspec.json.decode(data)), SCHEMA) for data in batch]
        forms = written_forms(content, batch)
        assert forms == {row: msgspec.json.encode(to_json(unbind(meanings[row], SCHEMA))) for row in forms}
        for data, meaning in zip(batch, meanings, strict=True):  # 0 and 0.0 are equal, and written as one of them was
            written = msgspec.json.decode(content.written_form(data))
            assert compile_filters(from_json(written), SCHEMA) == meaning
        read = content.read_filters(batch)
        for part in read.columns:
            for position, row in enumerate(part.rows.tolist()):
                sides = {name: (max(lo[position], ANY_VALUE), hi[position]) for name, (lo, hi) in part.ranges.items()}
                assert _box_of(meanings[row]) == (sides, {})
        assert {row: repr(meanings[row]) for row in read.others} == {
            row: repr(filters) for row, filters in read.others.items()
        }
        rows_read = sorted([*read.others, *(row for part in read.columns for row in part.rows.tolist())])
        assert rows_read == list(range(len(batch)))
    assert len(written_forms(content, plain[:5] * 20)) >= 40


def test_a_document_of_a_known_shape_is_filled_in_and_not_written_again() -> None:
    content = Content(SCHEMA)
    documents = [msgspec.json.encode(to_json(parse(f"x BETWEEN {i} AND {i + 1.5} AND name = 'n'"))) for i in range(9)]
    canonical = [
        content.write_filter(compile_filters(from_json(msgspec.json.decode(data)), SCHEMA)) for data in documents
    ]
    reader = Content(SCHEMA)
    with patch("tamis.node.content.compile_filters", side_effect=compile_filters) as compiled:
        filters = [reader.read_filter(data) for data in canonical]
    assert compiled.call_count == 2
    with patch("tamis.node.content.unbind", side_effect=unbind) as written:
        assert [reader.write_filter(filter) for filter in filters] == canonical
    assert written.call_count == 1  # that of the first: the second one made the template


@pytest.mark.parametrize("bounds", [b"2,2", b"1.50,2", b"1,2e0", b"-0.0,1", b'"a","b"', b"3,2"])
def test_a_document_that_would_be_written_otherwise_is(bounds: bytes) -> None:
    document = b'{"op":"between","args":[{"property":"x"},%b]}'
    content = Content(Schema({"x": String() if b'"' in bounds else Number()}))
    for usual in (b'"k","l"', b'"m","n"') if b'"' in bounds else (b"1,2", b"3,4"):
        content.read_filter(document % usual)
    with patch("tamis.node.content.from_json", side_effect=from_json) as read:
        filters = content.read_filter(document % bounds)
    assert read.call_count == (bounds == b"3,2")  # an empty range needs the ordinary road
    written = content.write_filter(filters)
    assert written == msgspec.json.encode(to_json(unbind(filters, content.schema)))


def test_a_shape_without_a_template_is_tried_once() -> None:
    schema = Schema({"area": Region()})
    templates, content = TextTemplates(), Content(schema)
    with patch.object(compiling_texts, "make_template", side_effect=compiling_texts.make_template) as made:
        for i in range(6):
            templates.compile(f"S_INTERSECTS(area, BBOX(0, 0, {i + 1}, 1))", schema)
    assert made.call_count == 1
    with patch("tamis.node.content.from_json", side_effect=from_json) as read:
        for i in range(6):
            content.read_filter(b'{"op":"s_intersects","args":[{"property":"area"},{"bbox":[0,0,%d,1]}]}' % (i + 1))
    assert read.call_count == 7


def test_templates_are_those_of_one_schema() -> None:
    templates = TextTemplates()
    text = "x < '2026-01-01T00:00:00Z'"
    for schema in (Schema({"x": String()}), Schema({"x": Timestamp()})):
        for _ in range(4):
            assert templates.compile(text, schema) == compile_source(text, schema)


@pytest.mark.parametrize("name", ["a,", "a[", ",", 'say ",', "a,5,b", 'q"],'])
def test_a_name_that_looks_like_the_end_of_a_literal(name: str) -> None:
    schema = Schema({name: String(), "x": Number()})
    content = Content(schema)
    for value in ("],x", "a", '","', "b", "],", ""):
        for node in (Compare(name, "=", value), And((Compare(name, "=", value), Compare("x", "<", 5)))):
            data = msgspec.json.encode(to_json(node))
            content._memory.filters.clear()
            assert content.read_filter(data) == compile_filters(node, schema)


def test_most_texts_of_a_shape_are_columns() -> None:
    texts = [
        f"x BETWEEN {i} AND {i + 1.5} AND name = 'n{i % 7}' AND at > DATE('2026-01-{i % 28 + 1:02}')" for i in range(99)
    ]
    compiled = compile_texts(texts, Schema(), learns=True)
    assert [len(columns.rows) for columns in compiled.columns] == [97]
    assert [row for row, _ in compiled.others] == [0, 1]


def _conjunction(random: Random, row: int) -> str:
    """Return a conjunction whose shape few others have; some literals are unusual."""
    words = ["x < {N}", "x >= {N}", "y BETWEEN {N} AND {N}", "name = {S}", "y={N}", "x\nbetween {N} and {N}"]
    conditions = [*random.choices(words, k=random.randint(1, 5)), f"z{row % 7} > {{N}}"]
    random.shuffle(conditions)
    return _filled(random.choice([" AND ", "  and ", "\tAND "]).join(conditions), random)


@settings(max_examples=few(100), deadline=None)
@given(st.integers(0, 2**32))
def test_conjunctions_of_any_shape_have_the_boxes_of_their_filters(seed: int) -> None:
    random = Random(seed)
    schema = SCHEMA.extended({f"z{i}": Number() for i in range(7)}, "a test")
    texts = [_conjunction(random, row) for row in range(20)]
    with patch.object(conjunctions, "_MOST_SIDES", 1), patch.object(conjunctions, "_LEAST_ROWS", 7):
        compiled = compile_texts(texts, schema)
    wanted = one_by_one(texts, schema, learns=False)
    assert_same_error(compiled, wanted)
    if wanted.bad is None:
        assert_columns_and_others(compiled, dict(wanted.others))


def test_texts_of_which_no_two_have_one_shape_are_columns() -> None:
    chosen = list(product("xy", "xy", ("< 9", ">= 1"), ("<= 8.5", "BETWEEN 2 AND 7")))
    texts = [f"{a} {range} AND name = 'n' AND {b} {other}" for a, b, range, other in chosen]
    with patch.object(compiling_texts, "compile_source", side_effect=AssertionError("a text was parsed")):
        compiled = compile_texts(texts, SCHEMA)
    assert [len(columns.rows) for columns in compiled.columns] == [len(texts)]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "x < 5 OR y < 3",
            "x < 5 AND NOT y < 3",
            "(x < 5) AND y < 3",
            "x < y + 3",
            "x < 5 + 3",
            "x < 5 + y AND y < 3",
        ),
        *("x < 5 AND y < 3 OR x > 9", "x BETWEEN 1 AND 5 OR y BETWEEN 1 AND 2", "x NOT BETWEEN 1 AND 5", "x <> 5"),
        *("name > 'a'", "name BETWEEN 'a' AND 'b'", "name = 'a' AND name = 'b'", "name = 5", "x = 'a'", "x < 5 AND on"),
        *("x = 5 AND x = 6", "x > 5 AND x < 5", "x < 9007199254740993", "name LIKE 'a'", "x < 5 AND y IS NULL"),
        *("at < DATE('2026-01-01')", "x IN (1, 2)", "x BETWEEN 1", "x < 5 AND", "x - y < 5", "missing < 5"),
    ],
)
def test_what_is_not_a_conjunction_of_ranges_takes_the_ordinary_road(text: str) -> None:
    wanted, compiled = one_by_one([text], SCHEMA, learns=False), compile_texts([text], SCHEMA)
    assert not any(len(columns.rows) for columns in compiled.columns)
    assert_same_error(compiled, wanted)
    assert repr(compiled.others) == repr(wanted.others)


def test_words_that_do_not_repeat_are_not_parsed_for_ever() -> None:
    reader = conjunctions.Conjunctions()
    with patch.object(conjunctions, "parse", side_effect=conjunctions.parse) as parser:
        for row in range(2 * conjunctions._UNPAID):
            parts = split_text(f"name{row} < {row}")
            assert parts is not None
            assert not reader.add(row, parts, SCHEMA)
    assert parser.call_count <= conjunctions._UNPAID


def test_an_attribute_that_only_events_have_shown_is_asked_for_by_its_first_text() -> None:
    schema = shown_by_events(Schema(), {"x": Number()})
    compiled = compile_texts([f"x < {i}" for i in range(40)], schema, learns=True)
    assert not compiled.schema.unasked
    assert [row for row, _ in compiled.others] == [0]


def test_most_texts_with_a_circle_are_columns() -> None:
    texts = [f"S_DWITHIN(globe, POINT({i} {i / 2}), {i}.5, 'km') AND x > {i}" for i in range(99)]
    compiled = compile_texts([*texts, "S_DWITHIN(globe, POINT(1e1 2), 3, 'km') AND x > 5"], SCHEMA)
    assert [len(columns.rows) for columns in compiled.columns] == [97]
    assert [row for row, _ in compiled.others] == [0, 1, 99]


def test_an_integer_that_reads_as_its_neighbour_is_not_read_in_bulk() -> None:
    compiled = compile_texts(["x < 9007199254740993"] * 40, SCHEMA)
    assert len(compiled.others) == 40


def test_of_two_equal_bounds_the_same_is_kept() -> None:
    texts = [f"x <= {a} AND x <= {b} AND x > {c}" for a in ("2", "2.0") for b in ("2", "2.0", "3") for c in ("0", "2")]
    compiled = compile_texts([*texts, *texts], SCHEMA, columns=False)
    assert repr(compiled.others) == repr(one_by_one([*texts, *texts], SCHEMA, learns=False).others)


@pytest.mark.parametrize("shape", [shape for shape in OTHERS if "{G}" in shape])
@pytest.mark.parametrize("frame", ["{}", "NOT ({} OR name = {S} AND x > {N})", "{} AND x < {N} OR {}"])
def test_texts_with_geometries_mean_what_each_means(shape: str, frame: str) -> None:
    random = Random(shape)
    for geometry in GEOMETRIES:  # the last text has each of them, the others teach the shape
        texts = [_filled(frame.replace("{}", shape), random) for _ in range(4)]
        texts.append(_filled(frame.replace("{}", shape.replace("{G}", geometry), 1).replace("{}", shape), random))
        wanted, compiled = one_by_one(texts, SCHEMA, learns=False), compile_texts(texts, SCHEMA, columns=False)
        assert_same_error(compiled, wanted)
        assert wanted.bad is not None or compiled.others == wanted.others
