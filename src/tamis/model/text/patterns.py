"""Evaluates all patterns of text, LIKE and regular expressions, on original or folded strings."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from tamis.model.pattern import like_pattern
from tamis.model.subscription import Like
from tamis.model.text.folding import Fold, fold_text
from tamis.model.text.regex import regex_machine

__all__ = ["Matching", "meets", "reading_of"]


class Matching(Protocol):
    """A pattern that a text matches or not."""

    def matches(self, text: str) -> bool:
        """Whether a text, folded already, fits."""


def meets(like: Like, text: str) -> bool:
    """Whether a string satisfies a condition, negation included.

    >>> meets(Like("s", "%quake%", fold=Fold.CASE), "EarthQuake"), meets(Like("s", "[0-9]{3}", is_regex=True), "a12")
    (True, False)
    """
    pattern, fold = reading_of(like.pattern, like.fold, like.is_regex)
    return pattern.matches(_folded(text, fold) if fold else text) != like.negated


@lru_cache(maxsize=16)
def _folded(text: str, fold: Fold) -> str:
    """Return a folded string; cached, because hundreds of conditions of one filter may test the same long string."""
    return fold_text(text, fold)


@lru_cache(maxsize=16384)
def reading_of(pattern: str, fold: Fold, is_regex: bool) -> tuple[Matching, Fold]:
    """Return the matcher of a pattern, and how a text must be folded for it."""
    if not is_regex:
        return like_pattern(pattern), fold
    machine = regex_machine(pattern, fold)
    return machine, machine.fold
