"""Texts of other languages: the error shows the corrected text, which means what was probably meant."""

from __future__ import annotations

import warnings

import pytest

import tamis
from tamis.model.language.foreign.corrections import corrected
from tamis.model.language.parse import parse

CORRECTIONS = [
    ("a == 1", "a = 1"),
    ("a != 1", "a <> 1"),
    ("a => 1 && b =< 2", "a >= 1 AND b <= 2"),
    ("a = 1&&b = 2||c = 3", "a = 1 AND b = 2 OR c = 3"),
    ("!a", "NOT a"),
    ('state != "it\'s"', "state <> 'it''s'"),
    ("note = 'a == b && c' && x == 1", "note = 'a == b && c' AND x = 1"),
    ('"odd name" == 5', '"odd name" = 5'),
    ("MATCHES(note, 'x+')", "note MATCHES 'x+'"),
    ("n > 1 AND matches( \"a b\" , 'it''s')", "n > 1 AND \"a b\" MATCHES 'it''s'"),
    ("NOT like(note, 'a%') && ILIKE(note, 'b%')", "NOT note LIKE 'a%' AND note ILIKE 'b%'"),
    ("a = NULL", "a IS NULL"),
    ("a <> null AND b != NULL", "a IS NOT NULL AND b IS NOT NULL"),
    ("a==null", "a IS NULL"),
    ("a is None or b is not none", "a IS NULL or b IS NOT NULL"),
    ("a ISNULL OR b NOTNULL", "a IS NULL OR b IS NOT NULL"),
    ("a in ['x', \"it's\", 5]", "a in ('x', 'it''s', 5)"),
    ("a IN {'x'}", "a IN ('x')"),
    ('a contains "x"', "a LIKE '%x%'"),
    ("a contains '10%'", "a LIKE '%10\\%%'"),
    ("contains(a, 'x') and startswith(b, 'y')", "a LIKE '%x%' and b LIKE 'y%'"),
    ("a.b.endswith('_z')", "a.b LIKE '%\\_z'"),
    ("a ILIKE %x% AND b LIKE y", "a ILIKE '%x%' AND b LIKE 'y'"),
    ("* ILIKE '%x%' OR (* NOT MATCHES 'y')", "\"*\" ILIKE '%x%' OR (\"*\" NOT MATCHES 'y')"),
    ("a =~ 'x+' OR a ~ 'y' OR a REGEXP 'z'", "a MATCHES 'x+' OR a MATCHES 'y' OR a MATCHES 'z'"),
    ('a LIKE "x%"', "a LIKE 'x%'"),
    ("a = “x” AND b = ‘y’ AND c = «z»", "a = 'x' AND b = 'y' AND c = 'z'"),
    ("`a b` = `x`", "\"a b\" = 'x'"),
    ("a = 'it's'", "a = 'it''s'"),
    ("a ** 2 > 4", "a ^ 2 > 4"),
    ("WHERE a > 1;", "a > 1"),
    ("lower(a) = 'X' OR UPPER(b) <> 'y'", "CASEI(a) = CASEI('X') OR CASEI(b) <> CASEI('y')"),
    ("ST_Intersects(a, 'POINT(1 2)')", "S_Intersects(a, POINT(1 2))"),
    ("a > 1,000 AND b <= 12_500_000", "a > 1000 AND b <= 12500000"),
    ("a IN (1,200) AND b == 1", "a IN (1,200) AND b = 1"),
    ("a > 5 -- b", "a > 5"),
    ("a > 5--b", "a > 5- -b"),
    ("a /* b */ > 5", "a > 5"),
    ("# cheap\na > 5", "a > 5"),
    ("a > 2026-01-31", "a > DATE('2026-01-31')"),
    ("a >= 2026-1-3T12:30:00", "a >= TIMESTAMP('2026-01-03T12:30:00Z')"),
    ("a < 2026-01-31 12:30:00+02:00 AND b == 1", "a < TIMESTAMP('2026-01-31T12:30:00+02:00') AND b = 1"),
    ("a <<= '10.0.0.0/8'", "IP_WITHIN(a, '10.0.0.0/8')"),
    ("S_DWITHIN(a, POINT(1 2), 50 km)", "S_DWITHIN(a, POINT(1 2), 50, 'km')"),
    ("T_DURING(a, '2026-01-01', '2026-02-01')", "T_DURING(a, INTERVAL('2026-01-01', '2026-02-01'))"),
    ("T_AFTER(a, '2026-01-01')", "T_AFTER(a, DATE('2026-01-01'))"),
    ("A_CONTAINS(a, 'x')", "A_CONTAINS(a, ('x'))"),
    ("a = ['x', \"y\"]", "A_EQUALS(a, ('x', 'y'))"),
    ("a starts with 'x' OR a ends with \"y\"", "a LIKE 'x%' OR a LIKE '%y'"),
    ("a is between 1 and 5", "a between 1 and 5"),
    ("a BETWEEN 1, 5", "a BETWEEN 1 AND 5"),
    ("a IN 1, 2 AND b IN 'x'", "a IN (1, 2) AND b IN ('x')"),
    ("a not null", "a IS NOT NULL"),
    ("a ~= 'x'", "a MATCHES 'x'"),
    ("note = 'a = NULL; IN [x]' && x == 1", "note = 'a = NULL; IN [x]' AND x = 1"),
]


@pytest.mark.parametrize(("written", "meant"), CORRECTIONS)
def test_the_error_shows_the_corrected_text(written: str, meant: str) -> None:
    assert corrected(written) == meant
    with pytest.raises((tamis.SubscriptionError, tamis.SubscriptionSyntaxError)) as caught:
        parse(written)
    assert caught.value.corrected == meant
    assert str(caught.value).endswith(f"write:\n  {meant}")
    parse(meant)


@pytest.mark.parametrize(
    ("written", "meant"),
    [('state = "running"', "state = 'running'"), ('state <> "say ""x"""', "state <> 'say \"x\"'")],
)
@pytest.mark.parametrize("schema", [None, tamis.Schema({"state": tamis.String()})])
def test_a_string_in_double_quotes_is_an_attribute_of_which_nothing_is_known(
    written: str, meant: str, schema: tamis.Schema | None
) -> None:
    with pytest.raises(tamis.SubscriptionError, match="single quotes") as caught:
        tamis.Engine(schema).subscribe(written)
    assert caught.value.corrected == meant
    tamis.Engine(schema).subscribe(meant)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a = 1 OR 2", "each condition names its attribute: x = 1 OR x = 2"),
        ("S_WITHIN(a, POLYGON(0 0, 1 0, 1 1, 0 0))", "each ring stands in parentheses of its own"),
        ("S_WITHIN(a, POINT(1, 2))", "have a space between them"),
        ("S_WITHIN(a)", "expected ',' and a second argument: S_WITHIN(a, POLYGON"),
        ("a_contains(b)", "a second argument: a_contains(b, ('a', 'b'))"),
        ("a ILIKE x%", "expected a string in single quotes at column 9"),
        ("a..b = 1", "expected a name after the dot at column 3"),
        ("a = 'x..y. ' AND b. > 1", "expected a name after the dot at column 20"),
        ("a > b - -c AND a > 5--3", "expected a space between two minus signs"),
        ("T_TIME(a, '22:00', '06:00', 'Europe/Berln')", "did you mean 'Europe/Berlin'?"),
        ("T_TIME(a, '22:00', '06:00', 'here')", "zones are named as in 'Europe/Berlin'"),
        ("a > now()", "a fixed moment such as TIMESTAMP("),
        (
            "abs(a) > 1",
            "there are CASEI, ACCENTI, S_*, RCC_*, V_WITHIN, V_COSINE, T_*, IP_WITHIN, A_*, COMPARE, CONTAINS, ",
        ),
    ],
)
def test_an_error_says_what_to_do(text: str, hint: str) -> None:
    with pytest.raises((tamis.SubscriptionError, tamis.SubscriptionSyntaxError)) as caught:
        parse(text)
    assert hint in str(caught.value)


def test_a_name_without_quotes_is_a_string_only_if_a_string_can_be_meant() -> None:
    engine = tamis.Engine(tamis.Schema({"state": tamis.String(), "n": tamis.Number(), "at": tamis.Timestamp()}))
    with pytest.raises(tamis.SubscriptionError) as caught:
        engine.subscribe("n > 1 AND state = running")
    assert caught.value.corrected == "n > 1 AND state = 'running'"
    with pytest.raises(tamis.SubscriptionError, match="unknown attribute 'other'") as caught:
        engine.subscribe("n = other")
    assert "quotes" not in str(caught.value)
    assert caught.value.corrected is None
    with pytest.raises(tamis.SubscriptionError, match=r"a whole day is written DATE\('2026-01-31'\)"):
        engine.subscribe("at > '2026-01-31'")


@pytest.mark.parametrize("text", ["a = 1", "a = 'x == y'", '"a == b" > 1'])
def test_good_texts_are_left_alone(text: str) -> None:
    assert corrected(text) is None


def test_a_text_that_stays_wrong_is_not_proposed() -> None:
    with pytest.raises(tamis.SubscriptionSyntaxError) as caught:
        parse("a == == 1")
    assert caught.value.corrected is None


def test_an_object_that_nothing_reaches_is_told_once() -> None:
    engine = tamis.Engine(tamis.Schema({"x": tamis.Number(), "seen.deep": tamis.Number()}))
    event = {"x": 1, "detail": {"state": "running"}, "seen": {"deep": 1}}
    with pytest.warns(UserWarning, match=r"'detail' is not matched.*'detail\.state'"):
        engine.match(event)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.match(event)
    assert engine.statistics()["unreachable_objects"] == ["detail"]
