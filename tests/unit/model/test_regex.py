"""The dialect of MATCHES agrees with Python's `re`, and refuses by name what it does not have."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from tamis.model.text import regex
from tamis.model.text.folding import Fold, fold_text
from tamis.model.text.regex import RegexMachine, regex_machine
from tamis.model.text.regex_syntax import parse_regex
from tamis.model.values import UnfitError
from tests.effort import effort

ATOMS = ["a", "b", "c", "ab", ".", "[ab]", "[^a]", r"\d", r"\w", r"\W", r"\s", "x", " ", r"\n", "é", "(?:ab|c)", "(a|)"]
ATOMS += [r"\b", r"\B", "^", "$", "[a-c]", "😀", r"[^\W_]", "[]a]", r"\x61"]
COUNTS = ["*", "+", "?", "{2}", "{1,2}", "*?", "{,2}", "{2,}"]


def _expression(rng: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(rng.randint(1, 4)):
        atom = rng.choice(ATOMS) if depth > 2 or rng.random() < 0.7 else f"({_expression(rng, depth + 1)})"
        parts.append(f"(?:{atom}){rng.choice(COUNTS)}" if rng.random() < 0.3 else atom)
    return "".join(parts) + (f"|{_expression(rng, depth + 1)}" if rng.random() < 0.2 else "")


def _machine_of(expression: str) -> RegexMachine | None:
    """Return the machine of an expression; None for one that has too many steps."""
    try:
        return RegexMachine(parse_regex(expression))
    except UnfitError as error:
        if "at most 500 steps" not in str(error):
            raise
        return None


def _compare(seed: int, n: int, is_run_in_threads: bool = False) -> None:
    rng, too_large = random.Random(seed), 0
    for _ in range(n // 10):
        flags, expression = rng.choice(["", "", "(?i)", "(?s)", "(?m)", "(?ims)"]), _expression(rng)
        machine = _machine_of(flags + expression)
        if machine is None:
            too_large += 1
            continue
        plain = expression if "m" in flags else expression.replace("$", r"\Z")
        expected = re.compile(flags + plain, re.ASCII)
        for _ in range(10):
            text = "".join(rng.choice("aabbc1 x\n_é😀AB") for _ in range(rng.randint(0, 7)))
            if not text and r"\B" in expression:
                continue  # Python before 3.14 finds no \B in an empty text
            folded = fold_text(text, machine.fold)
            answers = regex._Tables(machine).run(folded) if is_run_in_threads else machine.matches(folded)
            assert answers == bool(expected.search(text)), (flags + expression, text)
    assert too_large <= n / 10_000


def test_expressions_match_as_in_python() -> None:
    _compare(1, 10_000)


@pytest.mark.parametrize("is_run_in_threads", [False, True])
def test_runs_match_as_in_python(is_run_in_threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "_SHORTEST_RUN", 1)
    _compare(3, 1_500, is_run_in_threads)


@pytest.mark.parametrize("expression", [".{700,}", "x[ab]{700,}y", "^[^x]{700,}$", "[ab]{700}", "b{40,}[ab]{40,}"])
def test_long_runs_match_as_in_python(expression: str) -> None:
    machine, expected = regex_machine(expression), re.compile(expression.replace("$", r"\Z"))
    for n in (39, 40, 79, 80, 81, 699, 700, 701):
        for text in ("b" * n, "a" * n, f"x{'ab' * (n // 2)}y", f"{'a' * n}\n{'b' * n}", f"x{'b' * n}x", "x" * 3 * n):
            assert machine.matches(text) == regex._Tables(machine).run(text) == bool(expected.search(text)), n


PARTS_THAT_IGNORE_CASE = ["a(?i:b)c", "(?i:ab|c)", "a(?i)b", "(?i)a(?-i:b)c", "(?i:[a-c])x", "(?i:[^a])", "a|(?i:b)$"]


@pytest.mark.parametrize("expression", PARTS_THAT_IGNORE_CASE)
def test_parts_ignore_case_as_in_python(expression: str) -> None:
    machine = regex_machine(expression)
    expected = re.compile("a(?i:b)" if expression == "a(?i)b" else expression)
    for letters in itertools.product("aAbBcCxX", repeat=3):
        text = "".join(letters)
        assert machine.matches(fold_text(text, machine.fold)) == bool(expected.search(text)), text


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        (r"\x{41}[\x{4e00}-\x{9fff}]", "xA中", "xa中"),
        ("(?i:s)k", "ſk", "sK"),
        ("(?i:é)x", "Éx", "ex"),
        ("a(?i)b|c", "C", "Ab"),
        ("(a(?i)b)c", "aBc", "aBC"),
        ("ab(?!.)", "ab\nc", "abc"),
        ("(?s)ab(?!.)", "xab", "ab\nc"),
        ("(?s:a.)b", "a\nb", "a\n\nb"),
        ("(?m:^)b", "a\nb", "ab"),
    ],
)
def test_forms_that_python_writes_otherwise(expression: str, matching: str, other: str) -> None:
    machine = regex_machine(expression)
    assert machine.matches(fold_text(matching, machine.fold))
    assert not machine.matches(fold_text(other, machine.fold))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_ten_million_pairs_match_as_in_python(part: int) -> None:
    _compare(100 + part, 1_000_000)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (r"(a)\1", "have no back-references"),
        ("(?=a)", "have no look-ahead"),
        ("(?<!a)b", "have no look-behind"),
        ("^(?!10[.])", "at character 2; ask for that in a condition of its own: AND NOT"),
        ("(?>a)", "have no atomic group"),
        ("a*+", "have no possessive"),
        ("a**", "repetition of a repetition"),
        ("*a", "something to repeat"),
        ("(a", "a closing )"),
        ("a)", "an opening ("),
        ("[a", "a closing ]"),
        (r"\q", "an escape that is known here"),
        (r"\x{d800}", "hexadecimal digits"),
        ("(?x:a)", "flags other than i, m and s"),
        ("a(?!b)", "have no look-ahead"),
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
    text = "a" * 50_000
    assert not machine.matches(text)
    assert effort(lambda: machine.matches(text)) < 40  # about 1; the square of the length would be 10,000


def test_folds_are_idempotent_and_commute() -> None:
    both = Fold.CASE | Fold.ACCENTS
    for code in (*range(0x3000), 0xFB01, 0x1E900):
        text = chr(code)
        for fold in (Fold.CASE, Fold.ACCENTS, both):
            assert fold_text(fold_text(text, fold), fold) == fold_text(text, fold)
        for first, second in ((Fold.CASE, Fold.ACCENTS), (Fold.ACCENTS, Fold.CASE)):
            assert fold_text(fold_text(text, first), second) == fold_text(text, both)
