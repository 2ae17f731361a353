"""LIKE against a textbook matcher, and in linear time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.model.pattern import like_pattern, prefix_stop
from tamis.model.values import UnfitError
from tests.effort import effort


def textbook(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(textbook(pattern[1:], text[i:]) for i in range(len(text) + 1))
    if pattern[0] == "\\":
        return bool(text) and text[0] == pattern[1] and textbook(pattern[2:], text[1:])
    return bool(text) and pattern[0] in ("_", text[0]) and textbook(pattern[1:], text[1:])


pieces = st.lists(st.sampled_from(["%", "_", "a", "b", "\\%", "\\_", "\\\\"]), max_size=7).map("".join)


@given(pieces, st.text("ab%_\\", max_size=7))
def test_agrees_with_the_textbook(pattern: str, text: str) -> None:
    assert like_pattern(pattern).matches(text) == textbook(pattern, text)


@pytest.mark.hypothesis
def test_exact_and_prefix_decide_alone() -> None:
    reached: Counter[str] = Counter()

    @given(pieces, st.text("ab%", max_size=5))
    @settings(max_examples=max(settings.default.max_examples, 100))  # fewer reach too little, in `make check` too
    def law(pattern: str, text: str) -> None:
        read = like_pattern(pattern)
        if read.exact is not None:
            for candidate in (text, read.exact):
                assert textbook(pattern, candidate) == read.matches(candidate) == (candidate == read.exact)
            reached["exact"] += 1
        if read.prefix is not None:
            for candidate in (text, read.prefix + text):
                assert textbook(pattern, candidate) == read.matches(candidate) == candidate.startswith(read.prefix)
            reached["prefix"] += 1

    law()
    assert min(reached["exact"], reached["prefix"]) >= 5, reached


@given(st.text(max_size=4), st.text(max_size=4))
def test_prefix_stop_bounds_exactly_what_starts_so(prefix: str, text: str) -> None:
    stop = prefix_stop(prefix)
    assert text.startswith(prefix) == (prefix <= text and (stop is None or text < stop))


def test_prefix_stop_makes_no_lone_surrogate() -> None:
    assert prefix_stop("\ud7ff") == "\ue000"


def test_a_lone_backslash_at_the_end() -> None:
    with pytest.raises(UnfitError, match="ends with a lone backslash"):
        like_pattern("abc\\")


@pytest.mark.parametrize(
    "pattern", ["%a" * 2000 + "%b", "%" + "a_" * 1000 + "b%", "_%" * 3000 + "b", "%a%" * 2000 + "c"]
)
def test_no_pattern_makes_a_text_slow(pattern: str) -> None:
    assert not like_pattern(pattern).matches("a" * 20_000)
    assert effort(lambda: like_pattern(pattern).matches("a" * 20_000)) < 20  # 2 were measured
