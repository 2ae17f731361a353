"""Semantic versions: the precedence of semver.org, written out here once more, and sets that are exact."""

from __future__ import annotations

import itertools
import random

import pytest

import tamis
from tamis.model.language.compiler import compile_text
from tamis.model.language.unbind import format_filters

SCHEMA = tamis.Schema({"v": tamis.Version(), "vs": tamis.Many(tamis.Version())})
IDENTIFIERS = ["0", "1", "2", "10", "a", "b", "A", "-", "a-", "ab", "0a", "rc", "--", "1-"]


def random_version(chance: random.Random) -> str:
    core = ".".join(str(chance.choice([0, 1, 2, 9, 10, 11, 100])) for _ in range(3))
    if chance.random() < 0.3:
        return core
    return f"{core}-{'.'.join(chance.choice(IDENTIFIERS) for _ in range(chance.randint(1, 3)))}"


def precedence(a: str, b: str) -> int:
    """Return -1, 0 or 1 by the rules of semver.org, section 11."""
    (core_a, _, pre_a), (core_b, _, pre_b) = a.partition("-"), b.partition("-")
    numbers_a, numbers_b = ([int(number) for number in core.split(".")] for core in (core_a, core_b))
    if numbers_a != numbers_b:
        return -1 if numbers_a < numbers_b else 1
    if not pre_a or not pre_b:
        return (not pre_a) - (not pre_b)
    for x, y in zip(pre_a.split("."), pre_b.split("."), strict=False):
        if x == y:
            continue
        if x.isdigit() and y.isdigit():
            return -1 if int(x) < int(y) else 1
        if x.isdigit() != y.isdigit():
            return -1 if x.isdigit() else 1
        return -1 if x < y else 1
    return (len(pre_a.split(".")) > len(pre_b.split("."))) - (len(pre_a.split(".")) < len(pre_b.split(".")))


def test_the_order_is_the_precedence() -> None:
    chance, kind = random.Random(1), tamis.Version()
    texts = [random_version(chance) for _ in range(200)]
    keys = {text: kind.canonical(text) for text in texts}
    assert [kind.to_json(keys[text]) for text in texts] == texts
    for a, b in itertools.product(texts, repeat=2):
        assert (keys[a] > keys[b]) - (keys[a] < keys[b]) == precedence(a, b), (a, b)


def test_a_build_takes_no_part() -> None:
    kind = tamis.Version()
    assert kind.canonical("1.0.0+linux.7") == kind.canonical("1.0.0")


def test_sets_are_exact() -> None:
    """Nothing lies between 1.0.0 and 1.0.1-0, nor between 1.0.0-rc and 1.0.0-rc.0."""
    assert tamis.covers("v >= '1.0.1-0'", "v > '1.0.0'", SCHEMA).yes
    assert tamis.covers("v > '1.0.0-rc'", "v >= '1.0.0-rc.0'", SCHEMA).yes
    assert tamis.conflicts("v > '1.0.0-rc'", "v < '1.0.0-rc.0'", SCHEMA)
    assert tamis.conflicts("v < '0.0.0-0'", "TRUE", SCHEMA)
    assert not tamis.conflicts("v > '1.0.0-rc'", "v < '1.0.0-rc.1'", SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "v = '1.0.1-0'",
        "v > '1.0.0'",
        "v <> '1.0.0'",
        "v BETWEEN '1.0.0' AND '1.2.0-rc.1'",
        "v < '1.0.0-0'",
        "v > '1.0.9999999999999999'",
        f"v > '1.0.0-{'a' * 194}'",
        "vs = '1.0.0'",
        "NOT vs BETWEEN '1.0.0' AND '2.0.0'",
    ],
)
def test_filters_are_written_as_text_that_means_the_same(text: str) -> None:
    filters = compile_text(text, SCHEMA).filters
    written = format_filters(filters, SCHEMA)
    assert tamis.covers(text, written, SCHEMA).yes, written
    assert tamis.covers(written, text, SCHEMA).yes, written


@pytest.mark.parametrize(
    "text", ["1.2", "v1.0.0", "01.0.0", "1.0.0-01", "1.0.0-", "1.0.0-a..b", "1.0.0+", "1.0.0 ", ""]
)
def test_what_is_not_a_version_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(tamis.SubscriptionError, match=r"it is a version.*such as 1\.4\.0 or 2\.0\.0-rc\.1"):
        tamis.Engine(SCHEMA).subscribe(f"v = '{text}'")
    with pytest.raises(tamis.EventError, match=r"attribute 'v': expected a version such as 1\.4\.0"):
        tamis.Engine(SCHEMA).match({"v": text})
