"""LIKE patterns together, against all short strings of a small alphabet."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.algebra.covers import covers
from tamis.algebra.proofs import patterns as proofs
from tamis.algebra.proofs.budget import Budget
from tamis.algebra.proofs.facts import Facts
from tamis.algebra.proofs.patterns import MAX_STEPS, StringSearch, finite_strings, no_string_fits, search_strings
from tamis.algebra.simplify import simplify
from tamis.model.pattern import like_pattern
from tamis.model.subscription import Like
from tamis.model.types import String
from tamis.model.value_set import EMPTY, PRESENT, ValueSet
from tests.effort import effort

TEXTS = ["".join(some) for n in range(7) for some in itertools.product("abc", repeat=n)]
patterns = st.text("ab%_", max_size=4)


@given(st.lists(st.tuples(patterns, st.booleans()), min_size=1, max_size=3))
def test_the_search_is_right_both_ways(given_patterns: list[tuple[str, bool]]) -> None:
    likes = tuple(Like("s", pattern, negated) for pattern, negated in given_patterns)
    answer = search_strings(PRESENT, likes)
    fitting = [t for t in TEXTS if all(like_pattern(p).matches(t) != negated for p, negated in given_patterns)]
    assert answer.proved
    if answer.text is None:
        assert not fitting
    else:
        assert all(like_pattern(p).matches(answer.text) != negated for p, negated in given_patterns)


@given(patterns, patterns, st.text("ab\0", max_size=3), st.text("ab\0", max_size=3))
def test_with_a_range(yes: str, no: str, low: str, high: str) -> None:
    kind = String()
    allowed = ValueSet.between(kind.before(low), kind.after(high)) if low <= high else EMPTY
    answer = search_strings(allowed, (Like("s", yes), Like("s", no, negated=True)))
    fitting = [
        t
        for t in (*TEXTS, low, high)
        if low <= t <= high and like_pattern(yes).matches(t) and not like_pattern(no).matches(t)
    ]
    assert answer.proved
    if answer.text is None:
        assert not fitting
    else:
        assert low <= answer.text <= high
        assert like_pattern(yes).matches(answer.text)
        assert not like_pattern(no).matches(answer.text)


def test_sets_that_can_be_listed() -> None:
    kind = String()
    values = ValueSet.between(kind.before("a"), kind.after("a"))
    assert finite_strings(values) == ("a",)
    assert finite_strings(EMPTY) == ()
    assert finite_strings(ValueSet.between(("a", 0), ("a\0\0", 0))) == ("a", "a\0")
    assert finite_strings(ValueSet.between(None, ("\0\0", 0))) == ("", "\0")
    assert finite_strings(ValueSet.between(("a", 0), ("b", 0))) is None
    assert finite_strings(ValueSet.between(("a\0", 0), ("a\1", 0))) is None
    assert finite_strings(PRESENT) is None


def test_a_search_that_grows_too_large_is_unknown() -> None:
    """The same pattern written twice, one of them negated: first too many states, then too much work for few states."""

    def contradiction(pattern: str) -> StringSearch:
        return search_strings(PRESENT, (Like("s", pattern), Like("s", pattern + "%", negated=True)))

    def characters(n: int) -> str:
        return "".join(chr(0x4E00 + i) for i in range(n))

    for small in (contradiction("%a" + "_" * 6 + "b%"), contradiction(f"%{characters(40)}%")):
        assert (small.text, small.proved) == (None, True)
    states, work = contradiction("%a" + "_" * 14 + "b%"), contradiction(f"%{characters(400)}%")
    for large in (states, work):
        assert (large.text, large.proved) == (None, False)
    assert states.steps < MAX_STEPS < work.steps


def test_a_string_is_found_however_large_the_search_could_grow() -> None:
    wanted, other = "%a" + "_" * 14 + "b%", "%a" + "_" * 15 + "b%"
    answer = search_strings(PRESENT, (Like("s", wanted), Like("s", other, negated=True)))
    assert answer.proved
    assert answer.text is not None
    assert like_pattern(wanted).matches(answer.text)
    assert not like_pattern(other).matches(answer.text)


@pytest.mark.parametrize(
    ("a", "b", "yes"),
    [
        ("s LIKE '%a%'", "s LIKE '%a%b%'", True),
        ("s LIKE '%a%b%'", "s LIKE '%a%'", False),
        ("s LIKE '_%'", "s <> ''", True),
        ("s <> ''", "s LIKE '_%'", True),
        ("s LIKE '__%'", "s LIKE 'a%b'", True),
        ("s LIKE '__'", "s LIKE 'a%b'", False),
        (r"s LIKE '%\%%'", r"s LIKE '100\%%'", True),
        ("s LIKE 'a%' OR s LIKE 'b%'", "s LIKE 'a%c'", True),
        ("s LIKE '%a' OR s LIKE '%b' OR s NOT LIKE '%_'", "s LIKE '%'", False),
    ],
)
def test_covering_of_patterns(a: str, b: str, yes: bool) -> None:
    answer = covers(a, b)
    assert answer.yes is yes
    assert not answer.unknown


@pytest.mark.parametrize(("a", "b", "is_covered"), [("%a", "%a", True), ("%a_", "%ab", True), ("%___", "%_%", False)])
def test_long_patterns_end_soon(a: str, b: str, is_covered: bool) -> None:
    """The search may give up, but not err."""

    def ask(n: int) -> None:
        answer = covers(f"s LIKE '{a * n}'", f"s LIKE '{b * (n + 1)}'")
        assert answer.unknown or answer.yes is is_covered

    ask(40)  # what is compiled or loaded for the first question counts for nothing
    assert effort(lambda: ask(4000), rounds=2) < 200  # it took half a minute, thousands of units


def test_many_characters_end_soon() -> None:
    characters = "".join(chr(0x4E00 + i) for i in range(8000))

    def ask() -> None:
        covers(f"s LIKE '%{characters}%'", f"s LIKE '%{characters[1:]}_%'")
        covers(f"s LIKE '%{characters[1:]}%'", f"s LIKE '%{characters}_%'")

    assert effort(ask, rounds=1) < 200


def test_walks_are_charged_for() -> None:
    stubborn = "%a" + "_" * 14 + "b%"
    assert search_strings(PRESENT, (Like("s", stubborn),)).steps == 0  # the shortest string needs no walk
    budget = Budget(10)
    assert not no_string_fits(PRESENT, (Like("s", stubborn), Like("s", stubborn + "%", negated=True)), budget)
    assert budget.exhausted
    assert not no_string_fits(PRESENT, (Like("s", "%a"), Like("s", "%b")), budget)


def test_a_union_of_many_patterns_ends() -> None:
    def ask() -> None:
        simple = simplify(" OR ".join(f"s LIKE '%w{i}o_d{i * 7}%'" for i in range(128)))
        assert len(simple.filters) == 128

    assert effort(ask, rounds=1) < 4000  # 500 were measured


def test_what_a_long_union_bars_is_not_compared_with_itself() -> None:
    excluded = (Like("s", f"%w{i}%", negated=True) for i in range(2_000))
    likes = (Like("s", "%asked%"), *excluded)
    assert not no_string_fits(PRESENT, likes)
    assert effort(lambda: no_string_fits(PRESENT, likes)) < 20  # 1 was measured; each pair once is 100


def test_patterns_inside_each_other_are_those_that_a_walk_finds() -> None:
    patterns = ["".join(some) for n in range(4) for some in itertools.product("ab%_", repeat=n)]
    inside = 0
    for inner, outer in itertools.product(patterns, patterns):
        likes = Like("s", inner), Like("s", outer, negated=True)
        answer = search_strings(PRESENT, likes)
        assert answer.proved
        assert no_string_fits(PRESENT, likes) == (answer.text is None), (inner, outer)
        inside += answer.text is None
    assert inside > 500


def _like(text: str, negated: bool = False, is_regex: bool = False) -> Like:
    return Like("s", text, negated=negated, is_regex=is_regex)


@pytest.mark.parametrize(
    ("likes", "is_impossible"),
    [
        ((_like("%.exe"), _like("%.dll")), True),
        ((_like("a%"), _like("b%")), True),
        ((_like("%e"), _like("%.exe")), False),
        ((_like("%earth%"), _like("%quake%")), False),
        ((_like("%ab%"), _like("%b%", negated=True)), True),
        ((_like("%ab%"), _like("%c%", negated=True)), False),
        ((_like("%a%", negated=True), _like("%b%", negated=True)), False),
        ((_like("net[0-9]+", is_regex=True), _like("user[a-z]+", is_regex=True)), False),
        ((_like("net[0-9]+", is_regex=True), _like("user[a-z]+", is_regex=True, negated=True)), False),
    ],
)
def test_what_a_glance_tells_takes_no_walk(
    likes: tuple[Like, ...], is_impossible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = search_strings(PRESENT, likes)
    assert (expected.text is None) == is_impossible
    assert [proofs._sample(like) is not None for like in likes if not like.negated].count(False) == 0

    def walk(*_: object) -> None:
        raise AssertionError("a walk")

    search_strings.cache_clear()
    monkeypatch.setattr(proofs, "_Walk", walk)
    assert no_string_fits(PRESENT, likes) == is_impossible


def test_an_expression_without_a_short_example_has_no_sample() -> None:
    assert proofs._sample(_like("(a[ab]{9}|b[ab]{9}){9}[ab]{9}", is_regex=True)) is None
    assert proofs._sample(_like("ab+c", is_regex=True)) == "abc"


def test_facts_go_on_with_the_string_that_was_found() -> None:
    facts = Facts().and_also(_like("%ab%"))
    assert not facts.excludes(_like("%x0%", negated=True))
    proven = []

    class Watched(Budget):
        @property
        def exhausted(self) -> bool:
            proven.append(1)
            return False

    for i in range(200):
        facts = facts.and_also(_like(f"%x{i}%", negated=True))
        assert not facts.impossible(Watched(10))
    assert len(proven) <= 1  # the first question finds a string, which fits to the end
    assert facts.excludes(_like("%x7%"))
    assert facts.excludes(_like("%ab%", negated=True))
