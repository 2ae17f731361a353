"""What users read when a text is wrong: the exact words and the place, for each mistake."""

from __future__ import annotations

import pickle

import pytest

from tamis.errors import SubscriptionError, SubscriptionSyntaxError
from tamis.model.language.parse import parse

Unreadable, Refused = SubscriptionSyntaxError, SubscriptionError

SENTENCES = (
    "there are CASEI, ACCENTI, S_*, RCC_*, V_WITHIN, V_COSINE, T_*, IP_WITHIN, A_*, COMPARE, CONTAINS, "
    "STARTSWITH and ENDSWITH"
)

#: The text, the kind of error, the offset of the caret, and what is expected or wrong.
CASES: list[tuple[str, type[Exception], int, str]] = [
    ("", Unreadable, 0, "an attribute, NOT or '('"),
    ("   ", Unreadable, 0, "an attribute, NOT or '('"),
    ("NOT", Unreadable, 3, "an attribute, NOT or '('"),
    ("a =", Unreadable, 3, "a value"),
    ("a = 1 AND", Unreadable, 9, "an attribute, NOT or '('"),
    ("a = 1 OR OR b = 2", Unreadable, 9, "an attribute, NOT or '('"),
    ("(a = 1", Unreadable, 6, "AND, OR or ')'"),
    ("a = 1)", Unreadable, 5, "AND, OR or the end"),
    ("()", Unreadable, 1, "an attribute, NOT or '('"),
    ("a = 1 b = 2", Unreadable, 6, "AND, OR or the end"),
    ("a b", Unreadable, 2, "a comparison, AND, OR or the end"),
    ("price >< 10", Unreadable, 7, "a value"),
    ("a < > 5", Unreadable, 4, "a value"),
    ("a != 1", Unreadable, 2, "<> instead of !="),
    ("a == 1", Unreadable, 2, "= instead of =="),
    ("a => 1", Unreadable, 2, ">= instead of =>"),
    ("a && b", Unreadable, 2, "AND instead of &&"),
    ("a || b", Unreadable, 2, "OR instead of ||"),
    ("!a", Unreadable, 0, "NOT instead of !"),
    ("a = NULL", Unreadable, 4, "a value (a missing value is asked for with IS NULL)"),
    ("a IN ()", Refused, 6, "IN needs at least one value"),
    ("a IN 1", Unreadable, 5, "'('"),
    ("a IN (1; 2)", Unreadable, 7, "',' or ')'"),
    ("a IN (1 2)", Unreadable, 8, "',' or ')'"),
    ("a IN (1,", Unreadable, 8, "a value"),
    ("a BETWEEN 1", Unreadable, 11, "AND"),
    ("a BETWEEN 1 OR 2", Unreadable, 12, "AND"),
    ("a NOT 5", Unreadable, 6, "IN, BETWEEN or LIKE"),
    ("a LIKE 5", Unreadable, 7, "a string in single quotes"),
    ("a LIKE b", Unreadable, 7, "a string in single quotes"),
    ("a IS TRUE", Unreadable, 5, "NOT or NULL"),
    ("a IS NOT", Unreadable, 8, "NULL"),
    ("'x'", Unreadable, 3, "a comparison"),
    ("5 < ", Unreadable, 3, "a value"),
    ("'x' LIKE a", Unreadable, 9, "a string in single quotes"),
    ("'x' LIKE 'a'", Refused, 0, "LIKE asks about an attribute, not about an expression or a value"),
    ("a = 'x", Unreadable, 4, "a closing ' for the string that starts here"),
    ('a = "x', Unreadable, 4, 'a closing " for the name that starts here'),
    ("a = 'it\\'s'", Unreadable, 9, "AND, OR or the end (a quote inside a string is written twice)"),
    ("a = 5x", Unreadable, 5, "a space or an operator after the number 5"),
    ("a = 1.2.3", Unreadable, 7, "a space or an operator after the number 1.2"),
    ("a = 1e", Unreadable, 5, "a space or an operator after the number 1"),
    ("a = 99999999999999999999", Refused, 4, "an integer outside int64 and uint64"),
    ("a = 1e999", Refused, 4, "a number beyond the range of float64"),
    ("a = (5, 6)", Unreadable, 4, "a value"),
    ("a + 1", Unreadable, 5, "a comparison"),
    ("a + = 2", Unreadable, 4, "a number"),
    ("a * 'x' = 2", Unreadable, 4, "a number"),
    ("a DIV = 3", Unreadable, 6, "a number"),
    ("a + (b < 1) = 2", Refused, 4, "a condition is true or false, and not a number to calculate with"),
    ("CASEI(a) = 'X'", Refused, 11, "a folded text never equals 'X'; write CASEI('X')"),
    ("CASEI(ACCENTI(a)) = 'É'", Refused, 20, "a folded text never equals 'É'; write CASEI(ACCENTI('É'))"),
    ("CASEI(a) IN ('x', 5, 'y')", Refused, 9, "CASEI and ACCENTI give text, which 5 is not"),
    (
        "CASEI(a) < 'x'",
        Refused,
        9,
        "CASEI and ACCENTI are compared with =, <>, IN, LIKE and MATCHES; their results have no order",
    ),
    ("CASEI(a) AND b", SubscriptionSyntaxError, 9, "a comparison with =, <>, IN, LIKE or MATCHES"),
    ("S_BESIDE(a, POINT(1 2))", Refused, 0, "the function S_BESIDE is not supported; " + SENTENCES),
    ("S_INTERSECT(a, BBOX(0,0,1,1))", Refused, 0, "the function S_INTERSECT is not supported, but S_INTERSECTS is"),
    ("a = TIMESTAMP('2026-02-30T00:00:00Z')", Refused, 14, "not a valid time: day is out of range for month"),
    ("a = TIMESTAMP('2026-01-31T12:00:00')", Refused, 14, "a time without a zone; add Z or an offset such as +01:00"),
    ("a = DATE('yesterday')", Refused, 9, "expected a date such as 2026-01-31"),
    ("a = TIMESTAMP(5)", Unreadable, 13, "('2026-01-31T12:00:00Z')"),
    ("S_WITHIN(a, POINT(1 nan))", Refused, 12, "NaN and infinity are not coordinates"),
    (
        "S_WITHIN(POINT(1 1), POLYGON((0 0, 1 1, 1 0, 0 1, 0 0)))",
        Refused,
        0,
        "not a simple polygon: Self-intersection[0.5 0.5]; mend it, or declare Region(invalid='repair')",
    ),
    (
        "S_WITHIN(a, POLYGON((0 0, 1 0, 0 1)))",
        Refused,
        12,
        "not WKT: repeat the first point of a ring at its end",
    ),
    ("S_WITHIN(a, POLYGON((0 0, 1 0, 0 1, 0 0))", Unreadable, 41, "')'"),
    ("S_WITHIN(a, POLYGON EMPTY)", Refused, 12, "an empty geometry"),
    (
        "S_WITHIN(a, BBOX(1, 0, 0, 1))",
        Refused,
        12,
        "a BBOX is min x, min y, max x, max y, and each min is below its max",
    ),
    ("S_WITHIN(a, BBOX(0, 0, 1))", Refused, 12, "a BBOX has four numbers: min x, min y, max x, max y"),
    ("S_WITHIN(a, BBOX(0, 0, 0, 1, 1))", Refused, 12, "a BBOX has four numbers: min x, min y, max x, max y"),
    ("S_WITHIN(a, BBOX(a, 0, 0, 1))", Unreadable, 16, "four numbers in parentheses, (min x, min y, max x, max y)"),
    ("S_WITHIN(a)", Unreadable, 10, "',' and a second argument: S_WITHIN(a, POLYGON((0 0, 1 0, 1 1, 0 0)))"),
    ("S_WITHIN(a, 5)", Unreadable, 12, "an attribute or a geometry"),
    ("S_WITHIN(5, b)", Unreadable, 9, "an attribute or a geometry"),
    ('S_WITHIN(a, {"type": "Point", "coordinates": [1]})', Refused, 12, "a point is a pair of numbers x, y"),
    ('S_WITHIN(a, {"type": "Polygon", "coordinates": [}', Unreadable, 48, "a JSON value"),
    ('S_WITHIN(a, {"type": "Polygon" "coordinates": []})', Unreadable, 31, "',' or a closing bracket"),
    ('S_WITHIN(a, {"type": "Polygon", "type": "Polygon"})', Refused, 12, "duplicate key 'type' in one object"),
    ("V_WITHIN(a, (1, x), 3)", Unreadable, 16, "a number"),
    ("V_WITHIN(a, 1, 3)", Unreadable, 12, "a list in parentheses such as (0.5, 1)"),
    ("V_WITHIN(a, (1, 2))", Unreadable, 18, "','"),
    ("V_WITHIN(a, (1, 2), -3)", Refused, 20, "a radius must not be negative"),
    ("V_WITHIN(a, (1e999, 2), 3)", Refused, 13, "a number beyond the range of float64"),
    ("a ~ 5", Unreadable, 2, "a comparison, AND, OR or the end"),
    ("a = ‘x’", Unreadable, 4, "a value"),
    ('"" = 5', Refused, 0, "an attribute needs a name"),
    ("a = 1;", Unreadable, 5, "AND, OR or the end"),
    ("a = 1 AND\nb = 2 OR\n  c d", Unreadable, 4, "a comparison, AND, OR or the end"),
    ("SRID=4326;POLYGON((0 0,1 0,0 1,0 0))", Unreadable, 9, "AND, OR or the end"),
    ("a = @x", Unreadable, 4, "a value"),
    ("a IN (1, 99999999999999999999)", Refused, 9, "an integer outside int64 and uint64"),
    ("AND a = 1", Unreadable, 0, "an attribute, NOT or '('"),
    ("NOT = 5", Unreadable, 4, "an attribute, NOT or '('"),
    ("in = 5", Unreadable, 0, "an attribute, NOT or '(' (an attribute called in stands in double quotes)"),
    ("a.b = 1 AND S_WITHIN (a,POLYGON((0 0,1 0,0 1,0 0) )", Unreadable, 51, "')'"),
    ("TRUE FALSE", Unreadable, 5, "a comparison, AND, OR or the end"),
    ("a IS NULL NULL", Unreadable, 10, "AND, OR or the end"),
    ("a = -", Unreadable, 5, "a number"),
]


@pytest.mark.parametrize(("text", "kind", "position", "words"), CASES, ids=[repr(case[0])[:50] for case in CASES])
def test_words_and_place(text: str, kind: type[Exception], position: int, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    error = caught.value
    assert type(error) is kind
    message = error.expected if isinstance(error, SubscriptionSyntaxError) else error.problem  # type: ignore[attr-defined]
    assert message == words
    place, *proposal = str(error).split("\nwrite:\n")
    assert bool(proposal) == (error.corrected is not None)  # type: ignore[attr-defined]
    *_, shown, caret = place.split("\n")
    line_start = text.rfind("\n", 0, error.position) + 1  # type: ignore[attr-defined]
    assert error.position == line_start + position  # type: ignore[attr-defined]
    assert caret == "  " + " " * position + "^"
    assert shown[2:] == text[line_start:].split("\n")[0]


@pytest.mark.parametrize("text", [case[0] for case in CASES])
def test_no_terminal_of_the_grammar_is_shown_to_users(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    for word in ("LPAR", "RPAR", "$END", "IN_LIST", "COMMA", "OPERATOR", "NAME", "Token", "COMPARISON", "SPATIAL"):
        assert word not in str(caught.value).split("\n")[0]


@pytest.mark.parametrize("text", [case[0] for case in CASES])
def test_errors_survive_a_pickle_with_what_they_carry(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_whole_message() -> None:
    with pytest.raises(SubscriptionSyntaxError) as caught:
        parse("symbol = 'IBM' AND\n  price >< 10")
    assert str(caught.value) == "expected a value at line 2, column 10\n    price >< 10\n           ^"


def test_a_long_line_is_cut_around_the_caret() -> None:
    with pytest.raises(SubscriptionSyntaxError) as caught:
        parse("a = 1 AND " * 500 + "? " + " OR b = 2" * 500)
    first, shown, caret = str(caught.value).split("\n")
    assert first == "expected an attribute, NOT or '(' at column 5001"
    assert len(shown) < 120
    assert shown[len(caret) - 1] == "?"
