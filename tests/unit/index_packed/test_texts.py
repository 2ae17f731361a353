"""The text index agrees with the linear matcher under churn, and scanners find what `in` finds."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.index.packed.texts.programs import program_of
from tamis.index.packed.texts.segment import _automaton_of
from tamis.kernels.text.like import fits_like
from tamis.kernels.text.scan import LANES, scan_rows
from tamis.model.subscription import Like
from tamis.model.text.patterns import meets

WORDS = ["ab", "abc", "Straße", "foo", "Bar", "é", "😀", "x", "power", "shell", ".exe", "cmd", "abcdefghijkl"]
EXPRESSIONS = ["(foo|bar)+", "^a", "ab?c$", "[0-9]", "(?i)power.*shell", "x{2}"]
SCHEMA = tamis.Schema({"s": tamis.String(), "t": tamis.String(), "n": tamis.Number()})


def _pattern(rng: random.Random) -> str:
    return "".join(rng.choice(["%", "_", "", *WORDS]) for _ in range(rng.randint(1, 5)))


def _condition(rng: random.Random) -> str:
    name, negation = rng.choice(["s", "t"]), rng.choice(["", "", "NOT "])
    return rng.choice(
        [
            f"{name} {negation}LIKE '%{_pattern(rng)}'",
            f"{name} {negation}ILIKE '{_pattern(rng)}'",
            f"CASEI(ACCENTI({name})) {negation}LIKE CASEI(ACCENTI('{_pattern(rng)}'))",
            f"{name} {negation}MATCHES '{rng.choice(EXPRESSIONS)}'",
            f"n {rng.choice(['<', '>', '='])} {rng.randint(0, 9)}",
            f"{name} IN ('foo', 'cmd', 'ab')",
        ]
    )


def _filter(rng: random.Random) -> str:
    return rng.choice([" AND ", " AND ", " OR "]).join(_condition(rng) for _ in range(rng.randint(1, 3)))


def _text(rng: random.Random) -> str | None:
    return (
        "".join(rng.choice([*WORDS, "Foo", "POWER"]) for _ in range(rng.randint(0, 6))) if rng.random() < 0.9 else None
    )


@pytest.mark.parametrize("seed", range(2))
def test_matches_are_those_of_the_linear_matcher_under_churn(seed: int) -> None:
    rng = random.Random(seed)
    packed, linear = (tamis.Engine(schema=SCHEMA, matcher=name) for name in ("packed", "linear"))
    living: list[int] = []
    texts = {name: [_text(rng) for _ in range(40)] for name in ("s", "t")}
    events = pa.table({**texts, "n": [3, 2**53 + 1] * 20})
    for start in (0, 150, 300):
        for id in range(start, start + 150):
            text = _filter(rng)
            packed.subscribe(text, id=id)
            linear.subscribe(text, id=id)
            living.append(id)
        for id in rng.sample(living, 50):
            living.remove(id)
            packed.unsubscribe(id)
            linear.unsubscribe(id)
        table = packed.match_table(events)
        for row, event in enumerate(events.to_pylist()):
            expected = sorted(linear.match(event))
            assert sorted(packed.match(event)) == expected
            assert sorted(table.of(row)) == expected


@pytest.mark.parametrize("n_rows", [1, 3, 500])
def test_scanning_finds_every_literal_once_or_more_in_each_row(n_rows: int) -> None:
    rng = random.Random(n_rows)
    literals = sorted({bytes(rng.choices(b"aab", k=rng.randint(1, 8))) for _ in range(30)})
    rows = [bytes(rng.choices(b"aabc", k=rng.randint(0, 40))) for _ in range(n_rows)]
    offsets = np.cumsum([0, *map(len, rows)])
    seen = np.full((LANES, len(literals)), -1, np.int32)
    found = scan_rows(_automaton_of(literals), np.frombuffer(b"".join(rows), np.uint8).copy(), offsets, seen)
    hits = set(zip(*(array.tolist() for array in found), strict=True))
    assert hits == {(r, i) for r, row in enumerate(rows) for i, literal in enumerate(literals) if literal in row}
    assert (seen == -1).all()


def test_programs_fit_what_patterns_match() -> None:
    rng, masks = random.Random(5), np.zeros(256, np.uint64)
    for _ in range(2_000):
        pattern = "".join(rng.choice("%%_ab\u00e9\U0001f600") for _ in range(rng.randint(0, 8)))
        text = "".join(rng.choice("aab\u00e9\U0001f600") for _ in range(rng.randint(0, 8)))
        like = Like("s", pattern)
        program = np.frombuffer(program_of(like) or b"", np.uint8).copy()
        data = np.frombuffer(text.encode(), np.uint8).copy()
        assert fits_like(program, 0, len(program), data, 0, len(data), masks) == meets(like, text), (pattern, text)
        assert not masks.any()
