"""Throw broken subscriptions at the language and see that only `TamisError` comes back, and soon.

``python -m tests.fuzz_language SECONDS [--seed N]`` makes texts and documents from the grammar, damages
them, and gives each to ``parse`` and to the compiler. What is accepted must survive being written and read
again. Anything but a `TamisError`, an `InvariantError`, a tree that changes, or more than 50 ms of CPU
(measured again to rule out noise) is a finding: it is made as short as it gets, printed as a line of Python
that shows it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tamis.errors import InvariantError, LimitError, TamisError
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.format import format_node
from tamis.model.language.nodes import Node
from tamis.model.language.parse import parse

try:
    from tamis.model.language.compiler import compile_text
except ImportError:  # the language can be fuzzed before there is a compiler
    compile_text = None  # type: ignore[assignment]

SLOW = 0.05
_TOKENS = re.compile(r"'[^']*'|\"[^\"]*\"|\w+|\s+|[<>=]+|.", re.DOTALL)
_NAMES = ["a", "b", "price", "symbol", "at", "area", "look", "größe", '"in"', '"x y"', "date", "point", "S_WITHIN"]
_NUMBERS = ["0", "1", "-1", "+5", "1.5", ".5", "5.", "1e3", "-0.0", "1e308", "1e309", "1e-999", "007"]
_HUGE = ["9" * 20, "9" * 400, "9" * 5000, "-" + "1" * 30, "1e999999", "0" * 5000, "1." + "0" * 5000, "1e" + "9" * 50]
_STRINGS = ["'x'", "''", "'it''s'", "'%a_'", "'\\'", "'\\%'", "'é'", "'\U0001f600'", "'a\nb'"]
_MOMENTS = [
    *("TIMESTAMP('2026-01-31T12:00:00Z')", "TIMESTAMP('0001-01-01T00:00:00+14:00')", "DATE('9999-12-31')"),
    *("TIMESTAMP('2026-02-30T00:00:00Z')", "DATE('x')", "TIMESTAMP('2016-12-31T23:59:60Z')"),
]
_REGIONS = [
    *("POLYGON((0 0, 4 0, 0 4, 0 0))", "BBOX(0, 0, 1, 1)", "BBOX(1,1,0,0)", "POINT(1 2)", "POLYGON EMPTY"),
    *("POLYGON((0 0,1 1,1 0,0 1,0 0))", "POLYGON Z((0 0 0,1 0 0,0 1 0,0 0 0))", "POLYGON((nan 0,1 0,0 1,nan 0))"),
    '{"type":"Polygon","coordinates":[[[0,0],[1,0],[0,1],[0,0]]]}',
    '{"type":"Polygon","coordinates":[[[0,0],[1,0],[0,1e999],[0,0]]]}',
]
_FUNCTIONS = ["S_INTERSECTS", "S_WITHIN", "S_DISJOINT", "S_EQUALS", "RCC_MEETS", "RCC_COVERED_BY", "s_touches"]
_WORDS = [*("AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "(", ")", ",", "=", "<>")]
_SPICE = [*("!=", "==", "+", "*", "{", "}", "[", "'", '"', ";", "\\", "\0", "\ud800", "\u00a0", "ı", "K", "e\u0301")]
_VALUES: list[Any] = [None, True, 0, -1, 1.5, 1e308, float("inf"), float("nan"), 2**64, -(2**63) - 1, "", "x", [], {}]


class Maker:
    """Makes sources: by the grammar, then damaged."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def source(self) -> str | dict[str, Any]:
        """Return a text, a JSON text or a document."""
        text = self.condition(self.random.randint(0, 4))
        for _ in range(self.random.choice([0, 1, 1, 2, 3, 8])):
            text = self.damaged(text)
        if self.random.random() < 0.7:
            return text
        return self.json_source()

    def condition(self, depth: int) -> str:
        one = self.random
        if depth == 0:
            return self.leaf()
        parts = [self.condition(depth - 1) for _ in range(one.randint(1, 3))]
        joined = one.choice([" AND ", " OR ", " and ", "\nOR\t"]).join(parts)
        return one.choice(
            ["{}", "({})", "NOT {}", "NOT ({})", "({}"] if one.random() < 0.1 else ["{}", "({})"]
        ).replace("{}", joined)

    def leaf(self) -> str:
        one = self.random
        name, negated = one.choice(_NAMES), one.choice(["", "", "NOT "])
        return one.choice(
            [
                lambda: f"{name} {one.choice(['=', '<>', '<', '<=', '>', '>='])} {self.literal()}",
                lambda: f"{self.literal()} {one.choice(['=', '<', '>='])} {name}",
                lambda: f"{name} {negated}BETWEEN {self.literal()} AND {self.literal()}",
                lambda: f"{name} {negated}IN ({', '.join(self.literal() for _ in range(one.choice([1, 2, 5, 50])))})",
                lambda: f"{name} {negated}LIKE {one.choice(_STRINGS)}",
                lambda: f"{name} IS {negated}NULL",
                lambda: f"{one.choice(_FUNCTIONS)}({name}, {one.choice(_REGIONS)})",
                lambda: f"{one.choice(_FUNCTIONS)}({one.choice(_REGIONS)}, {name})",
                lambda: f"V_WITHIN({name}, ({', '.join(one.choices(_NUMBERS, k=3))}), {one.choice(_NUMBERS)})",
                lambda: name,
                lambda: one.choice(["TRUE", "FALSE"]),
            ]
        )()

    def literal(self) -> str:
        pools = (
            _NUMBERS,
            _NUMBERS,
            _STRINGS,
            _MOMENTS,
            ["TRUE", "FALSE"],
            _HUGE if self.random.random() < 0.1 else ["1"],
        )
        return self.random.choice(self.random.choice(pools))

    def damaged(self, text: str) -> str:
        """Return the text with one thing wrong, or with much more of something."""
        one = self.random
        tokens = _TOKENS.findall(text) or [""]
        i, j = one.randrange(len(tokens)), one.randrange(len(tokens))
        at = one.randrange(len(text) + 1)
        changes: list[Callable[[], str]] = [
            lambda: "".join([*tokens[:i], *tokens[i + 1 :]]),
            lambda: "".join([*tokens[:i], tokens[i], " ", *tokens[i:]]),
            lambda: "".join(tokens[j] if n == i else tokens[i] if n == j else token for n, token in enumerate(tokens)),
            lambda: "".join([*tokens[:i], " ", one.choice(_WORDS), " ", *tokens[i:]]),
            lambda: "".join([*tokens[:i], one.choice([*_NUMBERS, *_HUGE, *_STRINGS, *_REGIONS]), *tokens[i + 1 :]]),
            lambda: text[:at] + one.choice(_SPICE) + text[at:],
            lambda: text[:at] + chr(one.choice([one.randrange(128), one.randrange(0xD800), 0x10FFFF])) + text[at:],
            lambda: text[:at],
            lambda: text[at:],
            lambda: text[:at] + self.leaf() + text[at:],
            lambda: self.nested(text),
            lambda: self.repeated(text),
        ]
        return one.choice(changes)()

    def nested(self, text: str) -> str:
        many = self.random.choice([1, 30, 31, 32, 33, 100, 5000])
        opening, closing = self.random.choice([("(", ")"), ("NOT ", ""), ("NOT(", ")"), ("((", ")"), ("POLYGON(", ")")])
        return opening * many + text + closing * many

    def repeated(self, text: str) -> str:
        many = self.random.choice([2, 10, 400, 4000])
        return self.random.choice([" OR ", " AND ", "OR", ", ", ""]).join([text[:40]] * many)

    def json_source(self) -> str | dict[str, Any]:
        """Return a document, damaged as a structure or as text."""
        try:
            document = to_json(parse(self.condition(self.random.randint(0, 3))))
        except TamisError:
            document = {"op": "=", "args": [{"property": "a"}, 1]}
        for _ in range(self.random.randint(0, 3)):
            document = self.damaged_document(document)
        if self.random.random() < 0.3 and isinstance(document, dict):
            return document
        text = json.dumps(document, ensure_ascii=self.random.random() < 0.5)
        return self.damaged(text) if self.random.random() < 0.5 else text

    def damaged_document(self, document: Any) -> Any:
        """Return the document with something else in one place."""
        one = self.random
        if isinstance(document, dict) and document and one.random() < 0.85:
            key = one.choice(list(document))
            if one.random() < 0.1:
                return {other: value for other, value in document.items() if other != key}
            return {**document, key: self.damaged_document(document[key])}
        if isinstance(document, list) and document and one.random() < 0.85:
            i = one.randrange(len(document))
            return one.choice(
                [
                    [*document[:i], self.damaged_document(document[i]), *document[i + 1 :]],
                    [*document[:i], *document[i + 1 :]],
                    [*document[:i], document[i], *document[i:]],
                    document * one.choice([2, 100]) if len(document) < 20 else document,
                ]
            )
        if one.random() < 0.3:
            for _ in range(one.choice([1, 32, 33, 60])):
                document = {"op": one.choice(["not", "not", "and"]), "args": [document]}
            return document
        return one.choice([*_VALUES, "and", "not", "s_within", "timestamp", {"property": "b"}, {"bbox": [0, 0, 1, 1]}])


@dataclass(frozen=True)
class Finding:
    """What went wrong and with which source."""

    kind: str
    source: str | dict[str, Any]

    def line(self) -> str:
        """Return a line of Python that shows it."""
        return f"parse({self.source!r})  # {self.kind}"


def outcome(source: str | dict[str, Any]) -> str:
    """Return the name of the error, or "accepted"; raise what should not be raised."""
    try:
        node = parse(source)
    except InvariantError:
        raise
    except TamisError as error:
        assert str(error)
        return type(error).__name__
    _check_round_trips(node)
    return "accepted"


def _check_round_trips(node: Node) -> None:
    try:
        again = parse(format_node(node))
    except LimitError:  # canonical text is a little longer than what a user may write
        again = node
    assert again == node, "the written text reads as another tree"
    document = to_json(node)
    assert to_json(from_json(document)) == document, "the JSON reads as another tree"


def compiled(source: str | dict[str, Any]) -> str:
    """Compile, when there is a compiler; the outcome as above."""
    try:
        compile_text(source)
    except InvariantError:
        raise
    except TamisError as error:
        return type(error).__name__
    return "accepted"


def problem_of(source: str | dict[str, Any]) -> str | None:
    """Return what is wrong with how a source is treated, or None."""
    steps = (parse, outcome) if compile_text is None else (parse, outcome, compiled)
    for step in steps:
        start = time.thread_time()
        try:
            step(source)
        except InvariantError as error:
            return f"{step.__name__}: InvariantError {error}"
        except TamisError:
            pass
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return f"{step.__name__}: {type(error).__name__}"
        if step is not outcome and time.thread_time() - start > SLOW and _is_slow(step, source):
            return f"{step.__name__}: slower than {SLOW * 1000:.0f} ms"
    return None


def _is_slow(step: Callable[[Any], object], source: object) -> bool:
    """Time it again, thrice and without the garbage collector, to rule out noise."""
    gc.collect()
    gc.disable()
    try:
        best = SLOW * 100
        for _ in range(3):
            start = time.thread_time()
            try:
                step(source)
            except TamisError:
                pass
            best = min(best, time.thread_time() - start)
    finally:
        gc.enable()
    return best > SLOW


def minimised(finding: Finding, seconds: float = 20) -> Finding:
    """Cut pieces out of a text while the problem stays the same."""
    if not isinstance(finding.source, str):
        return finding
    text, stop = finding.source, time.monotonic() + seconds
    size = max(1, len(text) // 2)
    while size and time.monotonic() < stop:
        at, before = 0, len(text)
        while at < len(text) and time.monotonic() < stop:
            shorter = text[:at] + text[at + size :]
            if problem_of(shorter) == finding.kind:
                text = shorter
            else:
                at += size
        size = size if len(text) < before else size // 2
    return Finding(finding.kind, text)


def fuzz(seconds: float, seed: int) -> tuple[int, Counter[str], Finding | None]:
    """Run for a time; return how many sources were tried, their outcomes, and the first finding."""
    maker, outcomes = Maker(seed), Counter[str]()
    parse("a")  # the parser is built once, which is no fault of the first source
    stop = time.monotonic() + seconds
    count = 0
    while time.monotonic() < stop:
        source = maker.source()
        count += 1
        problem = problem_of(source)
        if problem is not None:
            return count, outcomes, minimised(Finding(problem, source))
        kind = "JSON" if isinstance(source, dict) or source.lstrip()[:1] == "{" else "text"
        outcomes[f"{kind} {outcome(source)}"] += 1
    return count, outcomes, None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    count, outcomes, finding = fuzz(options.seconds, options.seed)
    print(f"{count:,} sources, {count / options.seconds:,.0f} a second, seed {options.seed}")
    for name, times in sorted(outcomes.items()):
        print(f"  {times:>9,}  {name}")
    if compile_text is None:
        print("  not compiled: there is no compiler yet")
    if finding is not None:
        print(finding.line())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
