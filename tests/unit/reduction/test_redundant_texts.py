"""Which rules about text are redundant, and which rule covers them."""

from __future__ import annotations

import pytest

import tamis
from tamis.reduction import reduce

SCHEMA = tamis.Schema({"s": tamis.String(), "t": tamis.String()})


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("s LIKE '%abc%'", "s LIKE '%xabcx%'"),
        ("s LIKE '%abc%'", "s LIKE 'abc%'"),
        ("s LIKE '%abc%'", "s LIKE '%zabc'"),
        ("s LIKE '%abc%'", "s IN ('1abc', 'abc2')"),
        ("s LIKE '%abc%'", "s MATCHES 'x[0-9]abc'"),
        ("s ILIKE '%Abc%'", "s ILIKE '%xABCx%' AND t LIKE '%q%'"),
        ("s ILIKE '%power%shell%'", "s ILIKE '%PowerShell%'"),
        ("s ILIKE '%abc'", "s IN ('xABC', 'abc')"),
        ("s MATCHES 'foo[0-9]+'", "s MATCHES 'foo[0-9]{2}$'"),
        ("s MATCHES '(?i)a|b'", "s MATCHES '(?i)^b'"),
        ("s MATCHES 'a|b'", "s = 'b'"),
    ],
)
def test_a_covered_rule_is_named_with_its_cover(general: str, special: str) -> None:
    engine = tamis.Engine(schema=SCHEMA)
    for id, text in (("special", special), ("general", general), ("other", "t LIKE '%unrelated%'")):
        engine.subscribe(text, id=id)
    reduced = reduce([engine.subscription(id) for id in ("special", "general", "other")], SCHEMA)
    assert {**reduced.covered} == {"special": "general"}, reduced
