"""CQL2-JSON: every operation, the exact words of every refusal, round trips."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import shapely
from hypothesis import given

from tamis.errors import LimitError, SubscriptionError, SubscriptionSyntaxError
from tamis.model import shapes
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.format import format_node
from tamis.model.language.nodes import (
    And,
    Between,
    Compare,
    Constant,
    Instant,
    IsIn,
    IsLike,
    IsNull,
    Node,
    Not,
    Or,
    SpatialTest,
    TextTest,
    WithinBall,
)
from tamis.model.language.parse import parse
from tests.unit.language.strategies import assert_same, nodes, rebuilt

A: dict[str, Any] = {"property": "a"}
IS_A = Compare("a", "=", True)
RING = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]
TRIANGLE = {"type": "Polygon", "coordinates": [RING]}


def op(name: str, *args: object) -> dict[str, Any]:
    return {"op": name, "args": list(args)}


CASES: list[tuple[object, Node]] = [
    (op("=", A, 1), Compare("a", "=", 1)),
    (op("<>", A, "x"), Compare("a", "<>", "x")),
    (op("<", A, 1.5), Compare("a", "<", 1.5)),
    (op("<=", A, True), Compare("a", "<=", True)),
    (op(">", A, {"timestamp": "1970-01-01T01:00:01+01:00"}), Compare("a", ">", Instant(1_000_000))),
    (op(">=", A, {"date": "1970-01-02"}), Compare("a", ">=", Instant(86_400_000_000))),
    (op("<", 100, A), Compare("a", ">", 100)),
    (op("=", A, 18446744073709551615), Compare("a", "=", 18446744073709551615)),
    (op("=", A, -0.0), Compare("a", "=", 0.0)),
    (op("between", A, 1, 2.5), Between("a", 1, 2.5)),
    (op("not", op("between", A, 1, 2)), Between("a", 1, 2, negated=True)),
    (op("in", A, [1, "x", False]), IsIn("a", (1, "x", False))),
    (op("not", op("in", A, [1])), IsIn("a", (1,), negated=True)),
    (op("not", op("not", op("in", A, [1]))), Not(IsIn("a", (1,), negated=True))),
    (op("like", A, "x%"), IsLike("a", "x%")),
    (op("not", op("like", A, "x%")), IsLike("a", "x%", negated=True)),
    (op("isNull", A), IsNull("a")),
    (op("not", op("isNull", A)), IsNull("a", negated=True)),
    (op("s_within", A, TRIANGLE), SpatialTest("S_WITHIN", "a", shapely.Polygon(RING))),
    (op("rcc_covers", {"bbox": [0, 0, 1, 1]}, A), SpatialTest("RCC_COVERED_BY", "a", shapes.bbox_polygon(0, 0, 1, 1))),
    (op("v_within", A, [0.5, 1, -0.0], 2), WithinBall("a", (0.5, 1.0, 0.0), 2.0)),
    (op("v_within", A, [0.5, -0.0], 2), WithinBall("a", (0.5, 0.0), 2.0)),
    (op("not", op("=", A, 1)), Not(Compare("a", "=", 1))),
    (op("and", A, op("or", A, True), A), And((IS_A, Or((IS_A, Constant(True))), IS_A))),
    (True, Constant(True)),
    (A, IS_A),
    (op("=", {"property": "größe in °"}, "ä"), Compare("größe in °", "=", "ä")),
]


@pytest.mark.parametrize(("document", "wanted"), CASES, ids=[str(case[0])[:60] for case in CASES])
def test_cases(document: object, wanted: Node) -> None:
    assert_same(from_json(document), wanted)
    assert_same(parse(document), wanted)  # type: ignore[arg-type]
    if isinstance(document, dict):
        assert_same(parse(" \n" + json.dumps(document)), wanted)


@pytest.mark.parametrize("function", sorted(SPATIAL_FUNCTIONS))
def test_spatial_functions(function: str) -> None:
    box = shapes.bbox_polygon(0, 0, 1, 1)
    assert_same(from_json(op(function.lower(), A, {"bbox": [0, 0, 1, 1]})), SpatialTest(function, "a", box))


BAD: list[tuple[object, str]] = [
    ({}, 'expected {"op": ..., "args": [...]}, not an object with no key'),
    (5, 'expected {"op": ..., "args": [...]}, not a number'),
    (None, 'expected {"op": ..., "args": [...]}, not null'),
    ({"op": "and"}, 'expected {"op": ..., "args": [...]}, not an object with \'op\''),
    ({**op("=", A, 1), "x": 1}, "expected {\"op\": ..., \"args\": [...]}, not an object with 'op', 'args', 'x'"),
    ({"op": 5, "args": []}, "op: expected a string, not a number"),
    ({"op": "=", "args": {}}, "args: expected a list, not an object with no key"),
    (op("and", A), "and takes 2 or more arguments, not 1"),
    (op("not", A, A), "not takes 1 argument, not 2"),
    (op("=", A), "= takes 2 arguments, not 1"),
    (op("between", A, 1), "between takes 3 arguments, not 2"),
    (op("isNull"), "isNull takes 1 argument, not 0"),
    (op("AND", A, A), "unknown op 'AND'; write 'and'"),
    (op("isnull", A), "unknown op 'isnull'; write 'isNull'"),
    (op("!=", A, 1), "unknown op '!='; write '<>'"),
    (op("s_intersect", A, TRIANGLE), "the op s_intersect is not supported, but s_intersects is"),
    (op("=", A, op("+", 1)), "args[1]: + takes 2 arguments, not 1"),
    (op("=", A, op("/", 1, [2])), "args[1].args[1]: expected a value, not a list"),
    (op("=", A, None), "args[1]: expected a value, not null (a missing value is asked for with isNull)"),
    (op("=", A, [1]), "args[1]: expected a value, not a list"),
    (op("=", A, op("plus", 1, 2)), "args[1]: expected a value, not the operation 'plus'"),
    (op("=", op("casei", A), "X"), "args[1]: a folded text never equals 'X'; write CASEI('X')"),
    (
        op("<", op("casei", A), "x"),
        "CASEI and ACCENTI are compared with =, <>, IN, LIKE and MATCHES; their results have no order",
    ),
    (op("=", op("casei", A, A), "x"), "args[0]: casei takes 1 argument, not 2"),
    (op("like", op("casei", A), 5), "args[1]: expected a string, not a number"),
    (op("like", op("casei", A), op("casei", 5)), "args[1].args[0]: expected a string, not a number"),
    (op("matches", A, None), "args[1]: expected a string, not null"),
    (op("=", {"property": ""}, 1), "args[0].property: an attribute needs a name"),
    (op("=", {"property": 5}, 1), "args[0].property: an attribute needs a name"),
    (op("and", A, op("or", A, 5)), 'args[1].args[1]: expected {"op": ..., "args": [...]}, not a number'),
    (op("in", A, []), "args[1]: in needs at least one value"),
    (op("in", A, 5), "args[1]: expected a list of values, not a number"),
    (op("in", A, [1, None]), "args[1][1]: expected a value, not null (a missing value is asked for with isNull)"),
    (op("like", A, 5), "args[1]: expected a string, not a number"),
    (op("s_within", A, 5), "args[1]: expected GeoJSON or a bbox, not a number"),
    (op("s_within", A, {"bbox": 5}), "args[1].bbox: expected a list of four numbers, not a number"),
    (op("s_within", A, {"bbox": [0, 0, 1]}), "args[1].bbox: a BBOX has four numbers: min x, min y, max x, max y"),
    (op("s_within", A, {"bbox": [0, 0, "1", 1]}), "args[1].bbox[2]: expected a number, not a string"),
    (
        op("s_within", A, {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 0, 0]]]}),
        "args[1]: a GeoJSON ring is a list of [x, y]",
    ),
    (op("s_within", A, {**TRIANGLE, "crs": 1}), "args[1]: a GeoJSON geometry has type and coordinates, not 'crs'"),
    (op("v_within", A, 5, 2), "args[1]: expected a list of numbers, not a number"),
    (op("v_within", A, [1.0, "x"], 2), "args[1][1]: expected a number, not a string"),
    (op("v_within", A, [1.0, float("nan")], 2), "args[1][1]: a number beyond the range of float64"),
    (op("v_within", A, [1], -2), "args[2]: a radius must not be negative"),
    (op("<", A, float("inf")), "args[1]: a number beyond the range of float64"),
    (op("<", A, 2**64), "args[1]: an integer outside int64 and uint64"),
    (op("<", A, -(2**63) - 1), "args[1]: an integer outside int64 and uint64"),
    (op("<", A, {"timestamp": 5}), "args[1].timestamp: expected a string, not a number"),
    (op("<", A, {"timestamp": "x"}), "args[1].timestamp: expected a timestamp such as 2026-01-31T12:00:00Z"),
    (op("<", A, {"date": "2026-02-31"}), "args[1].date: not a valid time: day is out of range for month"),
    (op("<", A, {"interval": ["..", ".."]}), "args[1]: expected a value, not an object with 'interval'"),
    (op("<", A, "\ud800"), "args[1]: a lone surrogate is not text"),
    (op("in", A, ["\ud800"]), "args[1][0]: a lone surrogate is not text"),
]


@pytest.mark.parametrize(("document", "words"), BAD, ids=[str(case[0])[:60] for case in BAD])
def test_refusals_name_the_place(document: object, words: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        from_json(document)
    assert str(caught.value) == words


def test_an_unknown_op_is_told_what_there_is() -> None:
    with pytest.raises(SubscriptionError, match=r"^the op soundex is not supported; there are <, <=, .* and v_within$"):
        from_json(op("soundex", A))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"op": "=", "op": "<", "args": []}', "duplicate key 'op' in one object"),
        ('{"op": "=", "args": [{"property": "a"}, NaN]}', "NaN is not JSON; leave a missing value out"),
        ('{"op": "=", "args": [{"property": "a"}, -Infinity]}', "-Infinity is not JSON; leave a missing value out"),
        ('{"op": "=", "args": [{"property": "a"}, 1e999]}', "args[1]: a number beyond the range of float64"),
        ('{"op": "=", "args": [{"property": "a"}, ' + "9" * 5000 + "]}", "an integer outside int64 and uint64"),
        ('{"op": "=", "args": [{"property": "a"}, "\\ud800"]}', "args[1]: a lone surrogate is not text"),
    ],
)
def test_json_text_is_read_strictly(text: str, words: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        parse(text)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("{", 1, "a key in double quotes"),
        ('{"op" 1}', 6, "':'"),
        ('{"op": 1', 8, "',' or a closing bracket"),
        ('{"op": }', 7, "a JSON value"),
        ('{"op": "and}', 7, "a closing '\"' for the string that starts here"),
        ('{"op": "\n"}', 8, "an escape such as \\n for a control character"),
        ('{"op": "\\x"}', 8, "an escape that JSON knows"),
        ('{"op": 1} AND a', 10, "the end"),
    ],
)
def test_json_text_that_cannot_be_read(text: str, position: int, expected: str) -> None:
    with pytest.raises(SubscriptionSyntaxError) as caught:
        parse(text)
    assert (caught.value.position, caught.value.expected) == (position, expected)


def _has_not_form(node: Node) -> bool:
    return isinstance(node, Between | IsIn | IsLike | IsNull) or (isinstance(node, TextTest) and node.op != "=")


def _as_json_reads(node: Node) -> Node:
    """JSON has one form for NOT (a IN ...) and a NOT IN ...; it is read as the latter."""

    def fold(node: Node) -> Node:
        if isinstance(node, Not) and _has_not_form(node.part) and not node.part.negated:
            return dataclasses.replace(node.part, negated=True)
        return node

    return rebuilt(node, fold)


@given(nodes())
def test_json_round_trips(node: Node) -> None:
    document = to_json(node)
    assert_same(from_json(document), _as_json_reads(node))
    assert to_json(from_json(document)) == document
    text = json.dumps(document)
    if isinstance(document, dict):
        assert_same(parse(text), _as_json_reads(node))


@given(nodes(max_leaves=3))
def test_text_and_json_say_the_same(node: Node) -> None:
    assert_same(from_json(to_json(parse(format_node(node)))), _as_json_reads(node))


def test_documents_that_contain_themselves_are_refused() -> None:
    endless = op("and")
    endless["args"] = [endless, endless]
    with pytest.raises(LimitError, match="140 is more than the 138"):
        from_json(endless)
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(SubscriptionError, match=r"args\[1\]: a GeoJSON ring"):
        from_json(op("s_within", A, {"type": "Polygon", "coordinates": ring}))


def test_an_operation_whose_name_is_not_a_string_is_refused() -> None:
    with pytest.raises(SubscriptionError, match="expected"):
        parse({"op": "=", "args": [{"op": ["casei"], "args": [{"property": "a"}]}, "x"]})
