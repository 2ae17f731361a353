"""The dialect of MATCHES agrees with Python's `re`, and refuses by name what it does not have."""

from __future__ import annotations

import random
import re
import time

import pytest

from tamis.model.text.folding import Fold, fold_text
from tamis.model.text.regex import regex_machine
from tamis.model.values import UnfitError

ATOMS = ["a", "b", "c", "ab", ".", "[ab]", "[^a]", r"\d", r"\w", r"\W", r"\s", "x", " ", r"\n", "é", "(?:ab|c)", "(a|)"]
ATOMS += [r"\b", r"\B", "^", "$", "[a-c]", "😀", r"[^\W_]", "[]a]", r"\x61"]
COUNTS = ["*", "+", "?", "{2}", "{1,2}", "*?", "{,2}", "{2,}"]


def _expression(rng: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(rng.randint(1, 4)):
        atom = rng.choice(ATOMS) if depth > 2 or rng.random() < 0.7 else f"({_expression(rng, depth + 1)})"
        parts.append(f"(?:{atom}){rng.choice(COUNTS)}" if rng.random() < 0.3 else atom)
    return "".join(parts) + (f"|{_expression(rng, depth + 1)}" if rng.random() < 0.2 else "")


def _compare(seed: int, n: int) -> None:
    rng = random.Random(seed)
    for _ in range(n // 10):
        flags, expression = rng.choice(["", "", "(?i)", "(?s)", "(?m)", "(?ims)"]), _expression(rng)
        machine = regex_machine(flags + expression)
        plain = expression if "m" in flags else expression.replace("$", r"\Z")
        expected = re.compile(flags + plain, re.ASCII)
        for _ in range(10):
            text = "".join(rng.choice("aabbc1 x\n_é😀AB") for _ in range(rng.randint(0, 7)))
            if not text and r"\B" in expression:
                continue  # Python before 3.14 finds no \B in an empty text
            found = machine.matches(fold_text(text, machine.fold))
            assert found == bool(expected.search(text)), (flags + expression, text)


def test_expressions_match_as_in_python() -> None:
    _compare(1, 10_000)


@pytest.mark.soak
def test_many_expressions_match_as_in_python() -> None:
    _compare(2, 10_000_000)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (r"(a)\1", "without back-references"),
        ("(?=a)", "without look-ahead"),
        ("(?<!a)b", "without look-behind"),
        ("(?>a)", "without an atomic group"),
        ("a*+", "without possessive"),
        ("a**", "repetition of a repetition"),
        ("*a", "something that can be repeated"),
        ("(a", "a closing )"),
        ("a)", "an opening ("),
        ("[a", "a closing ]"),
        (r"\q", "escapes of the dialect"),
        ("a{2000}", "more than 1,000 repetitions"),
        ("(a{100}){100}", "at most 500 steps"),
        ("a" * 5000, "at most 4,096 characters"),
        ("(" * 60 + ")" * 60, "at most 50 deep"),
    ],
)
def test_what_is_refused_is_named(expression: str, problem: str) -> None:
    with pytest.raises(UnfitError, match=re.escape(problem)):
        regex_machine(expression)


def test_no_expression_makes_a_text_slow() -> None:
    machine = regex_machine("(a|aa)*(a|aa)*(a|aa)*b")
    start = time.process_time()
    assert not machine.matches("a" * 50_000)
    assert time.process_time() - start < 2


def test_folds_are_idempotent_and_commute() -> None:
    both = Fold.CASE | Fold.ACCENTS
    for code in (*range(0x3000), 0xFB01, 0x1E900):
        text = chr(code)
        for fold in (Fold.CASE, Fold.ACCENTS, both):
            assert fold_text(fold_text(text, fold), fold) == fold_text(text, fold)
        for first, second in ((Fold.CASE, Fold.ACCENTS), (Fold.ACCENTS, Fold.CASE)):
            assert fold_text(fold_text(text, first), second) == fold_text(text, both)
