"""Throw broken subscriptions at the language and see that only `TamisError` comes back, and soon.

``python -m tests.fuzz.language SECONDS [--seed N]`` makes texts and documents from the grammar, damages
them, and gives each to ``parse`` and to the compiler. What is accepted must survive being written and read
again. Anything but a `TamisError`, an `InvariantError`, a tree that changes, or more than 50 ms of CPU
(measured again to rule out noise) is a finding: it is made as short as it gets, printed as a line of Python
that shows it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tamis.algebra.compiling import compile_filters
from tamis.errors import InvariantError, LimitError, TamisError
from tamis.model.language.bind import learn_from_node
from tamis.model.language.compiler import source_text
from tamis.model.language.cql2_json import from_json, to_json
from tamis.model.language.format import format_node
from tamis.model.language.nodes import Node
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.types import Boolean, Number, Region, String, Timestamp, Vector
from tests.fuzz.harness import QuickRandom

Source = str | dict[str, Any]
#: Seconds of CPU: what reading may take, and compiling (which reads again), on a machine with this yardstick.
SLOW_READING, SLOW_COMPILING, YARDSTICK = 0.05, 0.05, 0.0017
LONGEST_LINE = 2000
SCHEMA = Schema(
    {"a": Number(), "price": Number(0, 100), "symbol": String(), "b": Boolean(), "at": Timestamp()}
    | {"area": Region(), "look": Vector(3), "in": Number(), "größe": String()}
)
_TOKENS = re.compile(r"'[^']*'|\"[^\"]*\"|\w+|\s+|[<>=]+|.", re.DOTALL)
_ODD_NAMES = ["größe", '"in"', '"x y"', "date", "point", "S_WITHIN", '"a"']
_NUMBERS = ["0", "1", "-1", "+5", "1.5", ".5", "5.", "1e3", "-0.0", "1e308", "1e-999", "007"]
_HUGE = ["9" * 20, "9" * 400, "9" * 5000, "-" + "1" * 30, "1e999999", "0" * 5000, "1." + "0" * 5000, "1e" + "9" * 50]
_STRINGS = ["'x'", "''", "'it''s'", "'%a_'", "'\\'", "'\\%'", "'é'", "'\U0001f600'", "'a\nb'"]
_MOMENTS = ["TIMESTAMP('2026-01-31T12:00:00Z')", "DATE('9999-12-31')", "TIMESTAMP('1969-12-31T23:59:59.9999999-05:00')"]
_REGIONS = [
    *("POLYGON((0 0, 4 0, 0 4, 0 0))", "BBOX(0, 0, 1, 1)"),
    '{"type":"Polygon","coordinates":[[[0,0],[1,0],[0,1],[0,0]]]}',
]
_BAD_LITERALS = [
    *("TIMESTAMP('2026-02-30T00:00:00Z')", "DATE('x')", "TIMESTAMP('2016-12-31T23:59:60Z')", "TIMESTAMP('x"),
    *("TIMESTAMP('0001-01-01T00:00:00+14:00')", "1e309", "BBOX(1,1,0,0)", "POINT(1 2)", "POLYGON EMPTY"),
    *("POLYGON((0 0,1 1,1 0,0 1,0 0))", "POLYGON Z((0 0 0,1 0 0,0 1 0,0 0 0))", "POLYGON((nan 0,1 0,0 1,nan 0))"),
    '{"type":"Polygon","coordinates":[[[0,0],[1,0],[0,1e999],[0,0]]]}',
]
_FUNCTIONS = ["S_INTERSECTS", "S_WITHIN", "S_DISJOINT", "S_EQUALS", "RCC_MEETS", "RCC_COVERED_BY", "s_touches"]
_WORDS = [*("AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "(", ")", ",", "=", "<>")]
_SPICE = [*("!=", "==", "+", "*", "{", "}", "[", "'", '"', ";", "\\", "\0", "\ud800", "\u00a0", "ı", "K", "e\u0301")]
_VALUES: list[Any] = [None, True, 0, -1, 1.5, 1e308, float("inf"), float("nan"), 2**64, -(2**63) - 1, "", "x", [], {}]


class Maker:
    """Makes sources: by the grammar, then damaged."""

    def __init__(self, seed: int) -> None:
        self.random: random.Random = QuickRandom(seed)

    def source(self) -> Source:
        """Return a text, a JSON text or a document."""
        text = self.condition(self.random.randint(0, 4))
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3, 8])):
            text = self.damaged(text)
        if self.random.random() < 0.7:
            return text
        return self.json_source()

    def condition(self, depth: int) -> str:
        rng = self.random
        if depth == 0:
            return self.leaf()
        parts = [self.condition(depth - 1) for _ in range(rng.randint(1, 3))]
        joined = rng.choice([" AND ", " OR ", " and ", "\nOR\t"]).join(parts)
        opening, closing = rng.choice([("", ""), ("(", ")"), ("NOT ", ""), ("NOT (", ")")])
        return opening + joined + closing

    def leaf(self) -> str:
        rng = self.random
        if rng.random() < 0.25:
            return self.other_leaf()
        name, literals = rng.choice(
            [("price", _NUMBERS), ("symbol", _STRINGS), ("at", _MOMENTS), ("b", ["TRUE", "false"])]
        )
        if rng.random() < 0.1:
            name, literals = rng.choice([(rng.choice(_ODD_NAMES), literals), (name, _HUGE), (name, _BAD_LITERALS)])
        value, negated = rng.choice(literals), rng.choice(["", "", "NOT "])
        return rng.choice(
            [
                f"{name} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {value}",
                f"{value} {rng.choice(['=', '<', '>='])} {name}",
                f"{name} {negated}BETWEEN {value} AND {rng.choice(literals)}",
                f"{name} {negated}IN ({', '.join(rng.choices(literals, k=rng.choice([1, 2, 5, 50])))})",
                f"{name} IS {negated}NULL",
            ]
        )

    def other_leaf(self) -> str:
        rng = self.random
        sides = ["area", rng.choice(_REGIONS if rng.random() < 0.9 else _BAD_LITERALS)]
        rng.shuffle(sides)
        return rng.choice(
            [
                f"symbol {rng.choice(['', 'NOT '])}LIKE {rng.choice(_STRINGS)}",
                f"{rng.choice(_FUNCTIONS)}({', '.join(sides)})",
                f"V_WITHIN(look, ({', '.join(rng.choices(_NUMBERS, k=3))}), {rng.choice(_NUMBERS)})",
                "b",
                rng.choice(["TRUE", "FALSE"]),
            ]
        )

    def damaged(self, text: str) -> str:
        """Return the text with one thing wrong, or with much more of something."""
        rng = self.random
        tokens = _TOKENS.findall(text) or [""]
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        at = rng.randrange(len(text) + 1)
        changes: list[Callable[[], str]] = [
            lambda: "".join([*tokens[:i], *tokens[i + 1 :]]),
            lambda: "".join([*tokens[:i], tokens[i], " ", *tokens[i:]]),
            lambda: "".join(tokens[j] if n == i else tokens[i] if n == j else token for n, token in enumerate(tokens)),
            lambda: "".join([*tokens[:i], " ", rng.choice(_WORDS), " ", *tokens[i:]]),
            lambda: "".join(
                [*tokens[:i], rng.choice([*_NUMBERS, *_HUGE, *_STRINGS, *_REGIONS, *_BAD_LITERALS]), *tokens[i + 1 :]]
            ),
            lambda: text[:at] + rng.choice(_SPICE) + text[at:],
            lambda: text[:at] + chr(rng.choice([rng.randrange(128), rng.randrange(0xD800), 0x10FFFF])) + text[at:],
            lambda: text[:at],
            lambda: text[at:],
            lambda: text[:at] + self.leaf() + text[at:],
            lambda: self.nested(text),
            lambda: self.repeated(text),
        ]
        return rng.choice(changes)()

    def nested(self, text: str) -> str:
        many = self.random.choice([1, 30, 31, 32, 33] * 6 + [100, 5000])
        opening, closing = self.random.choice([("(", ")"), ("NOT ", ""), ("NOT(", ")"), ("((", ")"), ("POLYGON(", ")")])
        return opening * many + text + closing * many

    def repeated(self, text: str) -> str:
        many = self.random.choice([2, 2, 10, 10] * 8 + [400, 4000])
        return self.random.choice([" OR ", " AND ", "OR", ", ", ""]).join([text[:40]] * many)

    def json_source(self) -> Source:
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
        rng = self.random
        if isinstance(document, dict) and document and rng.random() < 0.85:
            key = rng.choice(list(document))
            if rng.random() < 0.1:
                return {other: value for other, value in document.items() if other != key}
            return {**document, key: self.damaged_document(document[key])}
        if isinstance(document, list) and document and rng.random() < 0.85:
            i = rng.randrange(len(document))
            return rng.choice(
                [
                    [*document[:i], self.damaged_document(document[i]), *document[i + 1 :]],
                    [*document[:i], *document[i + 1 :]],
                    [*document[:i], document[i], *document[i:]],
                    document * rng.choice([2, 2, 2, 2, 2, 2, 2, 100]) if len(document) < 20 else document,
                ]
            )
        if rng.random() < 0.3:
            for _ in range(rng.choice([1, 32, 33, 60])):
                document = {"op": rng.choice(["not", "not", "and"]), "args": [document]}
            return document
        return rng.choice([*_VALUES, "and", "not", "s_within", "timestamp", {"property": "b"}, {"bbox": [0, 0, 1, 1]}])


@dataclass(frozen=True)
class Finding:
    """What went wrong and with which source."""

    kind: str
    source: Source

    def line(self) -> str:
        """Return a line of Python that shows it."""
        source = repr(self.source)
        shown = source if len(source) <= LONGEST_LINE else f"{source[:LONGEST_LINE]} ... {len(source):,} characters"
        return f"parse({shown})  # {self.kind}"


#: The source that was read last, and its tree: the steps after the first read nothing again.
_last: list[tuple[Source, Node]] = []


def read(source: Source) -> Node:
    """Read a source."""
    node = parse(source)
    _last[:] = [(source, node)]
    return node


def tree(source: Source) -> Node:
    """Return what a source was read as."""
    return _last[0][1] if _last and _last[0][0] is source else read(source)


def written(source: Source) -> None:
    """Write what was read, and read it again."""
    node = tree(source)
    try:
        again = parse(format_node(node))
    except LimitError:  # canonical text is a little longer than what a user may write
        again = node
    assert again == node, "the written text reads as another tree"
    document = to_json(node)
    assert to_json(from_json(document)) == document, "the JSON reads as another tree"


def compiled(source: Source) -> None:
    """Compile by what the literals say."""
    node = tree(source)
    compile_filters(node, learn_from_node(Schema(), node), source_text(source, node), open=True)


def compiled_with_schema(source: Source) -> None:
    """Compile under a schema."""
    node = tree(source)
    compile_filters(node, SCHEMA, source_text(source, node))


STEPS: tuple[Callable[[Source], object], ...] = (read, written, compiled, compiled_with_schema)


def treated(source: Source) -> tuple[str, str | None]:
    """Return how far a source came, and what is wrong with how it was treated, if anything."""
    came = "accepted"
    for step in STEPS:
        start = time.thread_time()
        try:
            step(source)
        except TamisError as error:
            if isinstance(error, InvariantError) or not str(error):
                return came, f"{step.__name__}: {type(error).__name__} {error}"
            came = f"{type(error).__name__} when {step.__name__}"
        except Exception as error:
            return came, f"{step.__name__}: {type(error).__name__}"
        slow = SLOW_COMPILING if "compiled" in step.__name__ else SLOW_READING
        if step is not written and time.thread_time() - start > slow and _is_slow(step, source, slow):
            return came, f"{step.__name__}: slower than {slow * 1000:.0f} ms"
        if step is read and came != "accepted":
            break
    return came, None


def slowness() -> float:
    """Return how much slower than usual this machine is now: 1 when it is quiet, or quicker."""

    def work() -> float:
        start = time.thread_time()
        assert len({str(number): (number, number) for number in range(10_000)}) == 10_000
        return time.thread_time() - start

    return max(1.0, min(work() for _ in range(5)) / YARDSTICK)


def _is_slow(step: Callable[[Source], object], source: Source, slow: float) -> bool:
    """Time it again, thrice and without the garbage collector, beside a yardstick to rule out noise."""
    gc.collect()
    gc.disable()
    try:
        best, usual = float("inf"), slowness()
        for _ in range(3):
            start = time.thread_time()
            with contextlib.suppress(TamisError):
                step(source)
            best = min(best, time.thread_time() - start)
        return best > slow * max(usual, slowness())
    finally:
        gc.enable()


def minimised(finding: Finding, seconds: float = 20) -> Finding:
    """Cut pieces out of a source while the problem stays the same."""
    smaller = _smaller_texts if isinstance(finding.source, str) else _smaller_documents
    source, stop = finding.source, time.monotonic() + seconds
    shortened = True
    while shortened and time.monotonic() < stop:
        shortened = False
        for candidate in smaller(source):
            if time.monotonic() >= stop:
                break
            if treated(candidate)[1] == finding.kind:
                source, shortened = candidate, True
                break
    return Finding(finding.kind, source)


def _smaller_texts(text: Any) -> Iterator[Source]:
    """Yield the text without a piece of it, large pieces first."""
    size = (len(text) + 1) // 2
    while size:
        for at in range(0, len(text), size):
            yield text[:at] + text[at + size :]
        size //= 2


def _smaller_documents(document: Any) -> Iterator[Any]:
    """Yield the parts of a document, then the document with less in one place."""
    if isinstance(document, dict):
        yield from (part for part in document.get("args", ()) if isinstance(part, dict) and "op" in part)
        for key, value in document.items():
            yield from ({**document, key: less} for less in _smaller_documents(value))
    elif isinstance(document, list):
        size = (len(document) + 1) // 2
        while size:
            yield from (document[:at] + document[at + size :] for at in range(0, len(document), size))
            size //= 2
        for at, value in enumerate(document):
            yield from ([*document[:at], less, *document[at + 1 :]] for less in _smaller_documents(value))


def fuzz(seconds: float, seed: int, most: float = float("inf")) -> tuple[int, Counter[str], Finding | None]:
    """Run for a time or ``most`` sources; return how many were tried, their outcomes, and the first finding."""
    maker, outcomes = Maker(seed), Counter[str]()
    parse("a")  # the parser is built once, which the first source is not charged for
    stop = time.monotonic() + seconds
    count = 0
    while time.monotonic() < stop and count < most:
        source = maker.source()
        count += 1
        came, problem = treated(source)
        if problem is not None:
            return count, outcomes, minimised(Finding(problem, source))
        kind = "JSON" if isinstance(source, dict) or source.lstrip()[:1] == "{" else "text"
        outcomes[f"{kind}: {came}"] += 1
    return count, outcomes, None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sources", type=int, default=sys.maxsize, help="end after this number, whatever the time")
    options = parser.parse_args(arguments)
    count, outcomes, finding = fuzz(options.seconds, options.seed, options.sources)
    print(f"{count:,} sources, seed {options.seed}")
    for name, times in sorted(outcomes.items()):
        print(f"  {times:>9,}  {name}")
    if finding is not None:
        print(finding.line())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
