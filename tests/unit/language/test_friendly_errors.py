"""What people write first, and what the errors tell them to write instead."""

from __future__ import annotations

import pytest

import tamis

SCHEMA = tamis.Schema(
    {"price": tamis.Number(), "at": tamis.Timestamp(), "tags": tamis.Many(tamis.String()), "ip": tamis.Ip()}
    | {"area": tamis.Region()}
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 < price < 5", "x > 1 AND x < 5"),
        ("price", "only if it is a boolean"),
        ("at > 2026-01-01", "DATE('2026-01-31')"),
        ("T_BEFORE(at, '2026-01-01')", "TIMESTAMP('...'), DATE('...') or INTERVAL(...)"),
        ("A_CONTAINS(tags, 'a')", "a list such as ('a', 'b')"),
        ("ip = '10.0.0'", "it is an ip"),
        ("S_INTERSECTS(area, POLYGON((0 0, 1 0, 1 1)))", "repeat the first point of a ring at its end"),
        ("T_BEFORE(price, at)", "price is a number, but the functions T_* need timestamps or dates"),
    ],
)
def test_the_error_says_what_to_write(text: str, words: str) -> None:
    with pytest.raises((tamis.SubscriptionError, tamis.SubscriptionSyntaxError)) as caught:
        tamis.Engine(SCHEMA).subscribe(text)
    assert words in str(caught.value)
