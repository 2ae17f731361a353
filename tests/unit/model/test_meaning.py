"""From syntax to filters and back: bind, normalise, unbind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tamis.algebra.evaluate import matches_subscription
from tamis.errors import SubscriptionError
from tamis.model.language.compiler import compile_node, compile_text
from tamis.model.language.nodes import Node
from tamis.model.language.normalise import MAX_FILTERS
from tamis.model.language.unbind import format_filters, unbind
from tamis.model.subscription import EVERYTHING, Like, Subscription, Values
from tamis.model.value_set import PRESENT
from tests.contract.strategies import SCHEMA, nodes
from tests.effort import effort


def filters(text: str) -> tuple[object, ...]:
    return compile_text(text, SCHEMA).filters


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("NOT x < 1", "x >= 1"),
        ("NOT (x < 1 OR y = 2)", "x >= 1 AND y <> 2"),
        ("NOT (x < 1 AND y = 2)", "x >= 1 OR y <> 2"),
        ("NOT NOT x = 1", "x = 1"),
        ("x = 1 OR x = 2", "x IN (2, 1)"),
        ("x BETWEEN 1 AND 2", "x >= 1 AND x <= 2"),
        ("x NOT BETWEEN 1 AND 2", "x < 1 OR x > 2"),
        ("x < 100 OR x >= 100", "x IS NOT NULL"),
        ("x IS NULL OR x IS NOT NULL", "TRUE"),
        ("x IS NULL AND x > 1", "FALSE"),
        ("x > 2 AND x < 1", "FALSE"),
        ("name LIKE 'ab'", "name = 'ab'"),
        ("name LIKE 'ab%'", "name >= 'ab' AND name < 'ac'"),
        ("name LIKE '%'", "name IS NOT NULL"),
        ("name NOT LIKE 'ab%'", "name < 'ab' OR name >= 'ac'"),
        ("name < ''", "FALSE"),
        ("name >= ''", "name IS NOT NULL"),
        ("on = TRUE OR on = FALSE", "on IS NOT NULL"),
        ("on < TRUE", "on = FALSE"),
        ("on > TRUE", "FALSE"),
        ("at > TIMESTAMP('1970-01-01T00:00:00Z') AND at < TIMESTAMP('1970-01-01T00:00:00.000001Z')", "FALSE"),
        ("at = '1970-01-01T00:00:00Z'", "at = TIMESTAMP('1970-01-01T00:00:00Z')"),
        ("S_INTERSECTS(area, BBOX(0,0,1,1)) AND S_DISJOINT(area, BBOX(0,0,1,1))", "FALSE"),
        ("NOT S_DISJOINT(area, BBOX(0,0,1,1))", "S_INTERSECTS(area, BBOX(0,0,1,1))"),
        ("area IS NULL AND S_DISJOINT(area, BBOX(0,0,1,1))", "FALSE"),
        ("area IS NOT NULL AND S_DISJOINT(area, BBOX(0,0,1,1))", "S_DISJOINT(area, BBOX(0,0,1,1))"),
        ("x = 1 OR TRUE", "TRUE"),
        ("x = 1 AND FALSE", "FALSE"),
    ],
)
def test_equal_meaning_is_equal_filters(a: str, b: str) -> None:
    assert filters(a) == filters(b)


def test_true_and_false() -> None:
    assert filters("TRUE") == (EVERYTHING,)
    assert filters("FALSE") == ()


def test_a_pattern_with_wildcards_inside_stays_a_pattern() -> None:
    [only] = compile_text("name LIKE '%a' AND name IS NOT NULL", SCHEMA).filters
    assert only.constraints == (Like("name", "%a"),)


@given(nodes)
@settings(max_examples=settings.default.max_examples * 3)
def test_unbind_gives_the_same_filters(node: Node) -> None:
    compiled = compile_node(node, SCHEMA)
    assert set(compile_node(unbind(compiled, SCHEMA), SCHEMA)) == set(compiled)


@given(nodes)
@settings(max_examples=settings.default.max_examples * 3)
def test_format_filters_compiles_to_the_same_filters(node: Node) -> None:
    compiled = compile_node(node, SCHEMA)
    assert set(compile_text(format_filters(compiled, SCHEMA), SCHEMA).filters) == set(compiled)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x > 1 AND x <= 2", "x > 1 AND x <= 2"),
        ("x IN (2, 1)", "x IN (1, 2)"),
        ("NOT x IN (1, 2)", "x NOT IN (1, 2)"),
        ("x <> 1", "x <> 1"),
        ("name LIKE 'a\\%%'", "name LIKE 'a\\%%'"),
        ("name > 'a' AND name <= 'b'", "name > 'a' AND name <= 'b'"),
        ("on = FALSE", "on = FALSE"),
        ("at < '1970-01-01T00:00:00Z'", "at <= TIMESTAMP('1969-12-31T23:59:59.999999Z')"),
        ("NOT RCC_MEETS(area, BBOX(0,0,1,1))", "NOT RCC_MEETS(area, BBOX(0, 0, 1, 1))"),
        ("x IS NULL OR x = 5", "x IS NULL OR x = 5"),
    ],
)
def test_what_filters_look_like(text: str, shown: str) -> None:
    assert format_filters(compile_text(text, SCHEMA).filters, SCHEMA) == shown


class TestSize:
    def test_one_attribute_stays_one_filter(self) -> None:
        assert len(filters(" OR ".join(f"x = {i}" for i in range(1000)))) == 1
        assert len(filters(" AND ".join(f"x <> {i}" for i in range(1000)))) == 1

    @pytest.mark.parametrize("pairs", [8, 9, 40])
    def test_too_many_filters_stay_a_tree_behind_the_hull(self, pairs: int) -> None:
        text = " AND ".join(f"(x = {i} OR y = {i} OR name = '{i}')" for i in range(pairs)) + " AND x < 5"
        subscription = compile_text(text, SCHEMA)
        assert len(subscription.filters) <= MAX_FILTERS
        for event in ({"x": 0, "name": "1"}, {"x": 0, "y": 1, "name": "2"}, {"x": 7}):
            want = all(event.get("x") == i or event.get("y") == i or event.get("name") == str(i) for i in range(pairs))
            assert matches_subscription(SCHEMA.event(event), subscription) == (want and event["x"] < 5)

    @pytest.mark.parametrize(("first", "second"), [("", ".5"), (".5", "")])
    def test_the_hull_of_a_tree(self, first: str, second: str) -> None:
        """The hull holds both alternatives, whichever is the wider one."""
        parts = [f"((x > {i}{first} AND y <> {i}) OR (x > {i}{second} AND name <> '{i}'))" for i in range(1, 12)]
        [only] = compile_text(" AND ".join(parts), SCHEMA).filters
        assert only.rest is not None
        assert [c.attribute for c in only.constraints] == ["x"]
        assert 11.5 in only.allowed("x")
        assert 5 not in only.allowed("x")

    @pytest.mark.parametrize(
        "text",
        [
            " AND ".join(f"(x = {i} OR y = {i})" for i in range(500)),
            " OR ".join(f"(x = {i} AND y = {i})" for i in range(500)),
            " AND ".join(f"x <> {i}" for i in range(1200)),
            f"x IN ({', '.join(map(str, range(2500)))}) AND ("
            + " OR ".join(f"y = {i} AND x <> {i}" for i in range(200))
            + ")",
            " AND ".join(f"(x IN ({', '.join(str(500 * i + j) for j in range(500))}) OR y > {i})" for i in range(20))
            + " AND ("
            + " OR ".join(f"(y = {i} AND x <> {i})" for i in range(30))
            + ")",
        ],
    )
    def test_normalising_is_quick(self, text: str) -> None:
        assert effort(lambda: compile_text(text, SCHEMA)) < 40  # 5 to 8 were measured


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("x = 'a'", "attribute 'x': it is a number, and 'a' does not fit: expected a number, not a string", 0),
        ("x = 1 AND name = 5", "attribute 'name': it is a string, and 5 does not fit", 10),
        ("on = 1", "attribute 'on': it is a boolean, and 1 does not fit", 0),
        ("x = TRUE", "a boolean is not a number", 0),
        ("at = 'noon'", "expected a timestamp such as", 0),
        ("x > DATE('2026-01-01')", "it is a number, and a timestamp is compared with it", 0),
        ("nam = 'a'", "'nam': unknown (did you mean 'name'?)", 0),
        ("zzz IS NULL", "'zzz': unknown (known are x, y, name", 0),
        ("area = 5", "it is a region; test it with a spatial function", 0),
        ("look = 5", "it is a vector; test it with V_WITHIN", 0),
        ("x LIKE 'a'", "it is a number, but LIKE needs a string", 0),
        ("name LIKE 'a\\'", "ends with a lone backslash", 0),
        ("S_WITHIN(x, BBOX(0,0,1,1))", "it is a number, but S_WITHIN needs a region", 0),
        ("V_WITHIN(look, (1,2,3), 1)", "it is a vector of 2, and V_WITHIN gives 3 coordinates", 0),
        ("V_WITHIN(x, (1,2), 1)", "it is a number, and V_WITHIN gives 2 coordinates", 0),
    ],
)
def test_what_cannot_be_meant(text: str, problem: str, position: int) -> None:
    with pytest.raises(SubscriptionError) as caught:
        compile_text(text, SCHEMA)
    assert problem in str(caught.value)
    assert caught.value.position == position
    assert str(caught.value).endswith("^")


def test_the_present_flag_survives_a_union() -> None:
    [only] = compile_text("x < 1 OR x >= 1", SCHEMA).filters
    assert only.constraints == (Values("x", PRESENT),)
    assert not matches_subscription({}, Subscription(0, (only,)))
