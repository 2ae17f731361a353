"""Random patterns and texts through an engine: LIKE and ILIKE as DuckDB and `re` answer, MATCHES as `re` does.

A round is one engine with a subscription per pattern and one table of texts, so every pair of them is compared. Texts
and patterns are made of few pieces, so that they meet; the pieces hold escapes, NUL, newlines, letters whose case
changes their length, and characters beyond U+FFFF. DuckDB folds case letter by letter, so its ILIKE is asked where that
is the same as Unicode's full folding, and otherwise its LIKE on folded text.
"""

from __future__ import annotations

import random
import re

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import tamis
from tamis.model.text.regex import regex_machine
from tamis.model.values import UnfitError
from tests.unit.model.test_regex import _expression

PIECES = ["a", "b", "ab", "Ab", "é", "É", "ß", "ẞ", "ﬁ", "İ", "K", "😀", "\n", " ", "\0", "%", "_", "\\"]
PIECES += ["power", "shell.exe", "abcdefghi", "Straße", "Ω", "ω", "x" * 70]
#: Pieces that every implementation folds alike.
SIMPLE = ["a", "B", "ab", "é", "É", "😀", "\n", " ", "Ω", "ω", "power", "SHELL.exe", "x" * 70]

_Answers = npt.NDArray[np.bool_]


def _text(rng: random.Random, pieces: list[str]) -> str:
    return "".join(rng.choices(pieces, k=rng.randint(0, 6)))


def _pattern(rng: random.Random, pieces: list[str]) -> str:
    wild = ["%", "%", "_", ""]
    escaped = [re.sub(r"([%_\\])", r"\\\1", piece) for piece in pieces]
    return "".join(rng.choice(wild) + rng.choice(escaped) for _ in range(rng.randint(0, 3))) + rng.choice(wild)


def _as_regex(pattern: str, *, fold: bool) -> re.Pattern[str]:
    """Return a LIKE pattern as an expression for whole texts; literal characters are folded, wildcards are not."""
    written = []
    for escaped, wildcard, plain in re.findall(r"\\(.)|([%_])|(.)", pattern, re.DOTALL):
        literal = escaped or plain
        folded = literal.casefold() if fold else literal
        written.append({"%": ".*", "_": "."}[wildcard] if wildcard else re.escape(folded))
    return re.compile("".join(written), re.DOTALL)


def _answers(filters: list[str], texts: list[str]) -> _Answers:
    """Return of each filter and text whether they match."""
    engine = tamis.Engine(schema=tamis.Schema({"s": tamis.String()}))
    engine.subscribe_table(tamis.SubscriptionTable.from_arrow(pa.table({"filter": filters})))
    matches = engine.match_table(pa.table({"s": pa.array(texts, pa.string())}))
    matrix = np.zeros((len(filters), len(texts)), np.bool_)
    for row in range(len(texts)):
        matrix[matches.of(row), row] = True
    return matrix


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _of_duckdb(function: str, patterns: list[str], texts: list[str]) -> _Answers:
    tables = {"patterns": pa.table({"p": patterns}), "texts": pa.table({"s": texts})}
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, rows in tables.items():
            connection.register(name, rows.append_column("i", pa.array(range(len(rows)))))
        query = f"SELECT {function}(s, p, chr(92)) AS fits FROM patterns, texts ORDER BY patterns.i, texts.i"
        column = connection.sql(query).to_arrow_table()["fits"]
    return np.asarray(column.to_numpy()).astype(np.bool_).reshape(len(patterns), len(texts))


def _of_re(expressions: list[re.Pattern[str]], texts: list[str], *, whole: bool) -> _Answers:
    predicates = [expression.fullmatch if whole else expression.search for expression in expressions]
    return np.array([[ask(text) is not None for text in texts] for ask in predicates], np.bool_)


def _assert_equal(matrix: _Answers, expected: _Answers, filters: list[str], texts: list[str]) -> None:
    wrong = [(filters[i], texts[j]) for i, j in np.argwhere(matrix != expected)[:5]]
    assert not wrong


def compare_like(seed: int, n: int) -> int:
    """Compare n patterns with n texts; return how many pairs were compared."""
    rng = random.Random(seed)
    texts, patterns = [_text(rng, PIECES) for _ in range(n)], [_pattern(rng, PIECES) for _ in range(n)]
    filters = [f"s LIKE {_quoted(pattern)}" for pattern in patterns]
    matrix = _answers(filters, texts)
    _assert_equal(
        matrix, _of_re([_as_regex(pattern, fold=False) for pattern in patterns], texts, whole=True), filters, texts
    )
    _assert_equal(matrix, _of_duckdb("like_escape", patterns, texts), filters, texts)
    return matrix.size


def compare_ilike(seed: int, n: int) -> int:
    """Compare n patterns that ignore case with n texts; return how many pairs were compared."""
    rng = random.Random(seed)
    texts, patterns = [_text(rng, PIECES) for _ in range(n)], [_pattern(rng, PIECES) for _ in range(n)]
    filters, folded = [f"s ILIKE {_quoted(pattern)}" for pattern in patterns], [text.casefold() for text in texts]
    matrix = _answers(filters, texts)
    _assert_equal(
        matrix, _of_re([_as_regex(pattern, fold=True) for pattern in patterns], folded, whole=True), filters, texts
    )
    _assert_equal(
        matrix, _of_duckdb("like_escape", [pattern.casefold() for pattern in patterns], folded), filters, texts
    )
    texts, patterns = [_text(rng, SIMPLE) for _ in range(n)], [_pattern(rng, SIMPLE) for _ in range(n)]
    filters = [f"s ILIKE {_quoted(pattern)}" for pattern in patterns]
    _assert_equal(_answers(filters, texts), _of_duckdb("ilike_escape", patterns, texts), filters, texts)
    return 2 * matrix.size


def _accepted(rng: random.Random) -> str:
    """Return an expression that is not refused for its size."""
    while True:
        expression = _expression(rng)
        try:
            regex_machine(expression)
        except UnfitError:
            continue
        return expression


def compare_matches(seed: int, n: int) -> int:
    """Compare n expressions with n texts; return how many pairs were compared."""
    rng = random.Random(seed)
    texts = ["".join(rng.choices("aabbc1 x\n_é😀AB", k=rng.randint(1, 9))) for _ in range(n)]
    flags, bare = rng.choices(["", "", "(?i)", "(?s)", "(?m)", "(?ims)"], k=n), [_accepted(rng) for _ in range(n)]
    filters = [f"s MATCHES {_quoted(flag + pattern)}" for flag, pattern in zip(flags, bare, strict=True)]
    ends = [pattern if "m" in flag else pattern.replace("$", r"\Z") for flag, pattern in zip(flags, bare, strict=True)]
    expressions = [re.compile(flag + pattern, re.ASCII) for flag, pattern in zip(flags, ends, strict=True)]
    _assert_equal(_answers(filters, texts), _of_re(expressions, texts, whole=False), filters, texts)
    return n * n


@pytest.mark.parametrize("compare", [compare_like, compare_ilike, compare_matches])
def test_patterns_and_texts(compare: object) -> None:
    assert callable(compare)
    assert compare(1, 120) >= 120 * 120


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_million_texts_and_patterns(seed: int) -> None:
    """All seeds together: more than 10^7 pairs."""
    pairs = compare_like(100 + seed, 700) + compare_ilike(200 + seed, 500) + compare_matches(300 + seed, 400)
    assert pairs > 1_000_000
