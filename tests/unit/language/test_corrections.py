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
