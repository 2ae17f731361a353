"""Each condition of the wide subscription by itself, and which one decides."""

from __future__ import annotations

import pytest

from tamis.algebra.covers import covers
from tamis.algebra.explain_covers import explain_covers
from tamis.model.language.compiler import compile_text

PAIRS = [
    ("price < 100", "price < 50 AND symbol = 'IBM'"),
    ("price < 100 AND symbol = 'IBM'", "price < 50"),
    ("price < 10 OR symbol LIKE 'I%'", "symbol = 'IBM'"),
    ("NOT (price < 10)", "price > 20 OR price = 15"),
    ("TRUE", "price < 1"),
    ("price < 1", "FALSE"),
    ("s LIKE '%a%' AND x IN (1, 2, 3)", "s LIKE '%ba%' AND x = 2"),
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_answer_is_that_of_covers(a: str, b: str) -> None:
    explanation = explain_covers(a, b)
    assert explanation.answer == covers(a, b)
    assert explanation.conditions
    for condition in explanation.conditions:
        assert condition.text in a
        assert not (condition.holds and condition.decides)
    if "OR" not in a and "NOT" not in a and not explanation.answer.yes and not explanation.answer.unknown:
        assert any(condition.decides for condition in explanation.conditions)


def test_who_decides() -> None:
    explanation = explain_covers(
        "price < 100 AND volume > 5 AND symbol = 'IBM'", "price < 50 AND volume > 1 AND symbol = 'IBM'"
    )
    assert [condition.decides for condition in explanation.conditions] == [False, True, False]
    assert explanation.conditions[1].witness is not None
    assert explanation.conditions[1].narrow == "volume > 1"
    assert explain_covers("x < 1 AND y < 1", "x < 0").conditions[1].narrow is None
    several = explain_covers("x < 9", "x = 1 OR x = 2 AND y = 1 OR x = 3 AND y = 2 OR x = 5 AND y = 7")
    assert several.conditions[0].narrow.endswith("or 1 more")


def test_other_forms() -> None:
    compiled = compile_text("x < 1")
    assert explain_covers(compiled, "x < 0").conditions == ()
    json = {"op": "<", "args": [{"property": "x"}, 5]}
    assert explain_covers(json, "x < 9").conditions[0].text == "x < 5"
    assert str(explain_covers(json, "x < 9")).splitlines()[1] == "  decides  x < 5: B says x < 9"
