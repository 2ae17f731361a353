"""Rules about text: many patterns over events of many string fields, beside what else finds text.

A rule is ``line ILIKE '%literal%' AND image ILIKE '%suffix'``: two patterns. Peers that only find literals find those
of ``line``; the rest of the rule is left out for them, which favours them. Times are processor time, the best of
several.
"""

from __future__ import annotations

import importlib
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

import tamis
from tamis_bench.timing import Effort

__all__ = ["SYSTEMS", "RuleWork", "TextMeasurement", "measure_text", "text_filters", "text_work"]

#: Systems by name, with the package that each needs.
SYSTEMS: Final = {
    "tamis": "tamis",
    "tamis, one event": "tamis",
    "re": "re",
    "pyahocorasick": "ahocorasick",
    "hyperscan": "hyperscan",
    "re2": "re2",
    "duckdb": "duckdb",
}

_SYLLABLES: Final = ("ex", "po", "sh", "cmd", "ru", "ndl", "reg", "svc", "net", "us", "er", "wmi", "ls", "cert", "hta")


@dataclass(frozen=True)
class TextMeasurement:
    """One measurement: patterns, fields of an event, events per second, seconds to build, bytes per pattern."""

    system: str
    patterns: int
    fields: int
    events_per_second: float
    build_seconds: float
    bytes_per_pattern: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class RuleWork:
    """Rules, each a literal of a line and the end of a path, and events."""

    literals: Sequence[str]
    suffixes: Sequence[str]
    events: Sequence[dict[str, str]]

    @property
    def table(self) -> pa.Table:
        """The events as columns."""
        return pa.table({name: [event[name] for event in self.events] for name in self.events[0]})


def measure_text(
    sizes: Sequence[int], fields: int, systems: Sequence[str], effort: Effort
) -> Iterator[TextMeasurement]:
    """Measure systems on workloads of some sizes; one that is not installed is left out.

    Raises `AssertionError` when the answers of tamis on a sample differ from those of Python's `re`.
    """
    for size in sizes:
        work = text_work(size // 2, fields, effort.batch)
        for system in systems:
            try:
                importlib.import_module(SYSTEMS[system])
            except ImportError:
                continue
            yield from _RUNS[system](work, fields, effort)


def text_work(n_rules: int, fields: int, n_events: int) -> RuleWork:
    """Return rules of two patterns each, and events of which some match."""
    rng = random.Random(n_rules)

    def word() -> str:
        return "".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4)))

    words = list(dict.fromkeys(word() + format(i, "x") for i in range(max(1_000, n_rules))))
    literals = [f"{rng.choice((' -', ' /', ''))}{rng.choice(words)}" for _ in range(n_rules)]
    suffixes = [f"\\{rng.choice(words)}.exe" for _ in range(n_rules)]
    events = []
    for _ in range(n_events):
        parts = [rng.choice(("-", "/", "")) + (rng.choice(words) if rng.random() < 0.3 else word()) for _ in range(30)]
        event = {
            "line": " ".join(parts)[: rng.randint(50, 500)],
            "image": f"C:\\Windows\\{rng.choice(words).upper()}.exe",
        }
        events.append(event | {f"field{i}": word() for i in range(fields - 2)})
    return RuleWork(literals, suffixes, events)


def _best(call: Callable[[], object], effort: Effort) -> float:
    times: list[float] = []
    while len(times) < effort.repeat and sum(times) < effort.seconds:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return max(min(times), 1e-9)


def _row(
    system: str, work: RuleWork, fields: int, n: int, seconds: float, build: float, size: float | None = None
) -> TextMeasurement:
    return TextMeasurement(system, 2 * len(work.literals), fields, n / seconds, build, size)


def _engine(work: RuleWork) -> tuple[tamis.Engine, float]:
    start = time.process_time()
    engine = tamis.Engine()
    texts = text_filters(work)
    engine.subscribe_table(tamis.SubscriptionTable.from_arrow(pa.table({"id": range(len(texts)), "filter": texts})))
    return engine, time.process_time() - start


def text_filters(work: RuleWork) -> list[str]:
    """Return the rules of a workload as filters."""
    pairs = zip(work.literals, work.suffixes, strict=True)
    return [f"line ILIKE '%{literal}%' AND image ILIKE '%{_escaped(suffix)}'" for literal, suffix in pairs]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("_", "\\_")


def _tamis(work: RuleWork, fields: int, effort: Effort) -> Iterator[TextMeasurement]:
    engine, build = _engine(work)
    table = work.table
    _check(engine, work)
    size = engine.statistics()["namespaces"]["default"]["bytes"] / (2 * len(work.literals))
    seconds = _best(lambda: engine.match_table(table), effort)
    yield _row("tamis", work, fields, len(work.events), seconds, build, size)


def _tamis_single(work: RuleWork, fields: int, effort: Effort) -> Iterator[TextMeasurement]:
    engine, build = _engine(work)
    some = work.events[:200]
    engine.match(some[0])
    yield _row("tamis, one event", work, fields, len(some), _best(lambda: list(map(engine.match, some)), effort), build)


def _check(engine: tamis.Engine, work: RuleWork) -> None:
    for event in work.events[:5]:
        line, image = event["line"].lower(), event["image"].lower()
        pairs = enumerate(zip(work.literals, work.suffixes, strict=True))
        expected = [i for i, (literal, suffix) in pairs if literal in line and image.endswith(suffix)]
        assert sorted(engine.match(event)) == expected


def _re(work: RuleWork, fields: int, effort: Effort) -> Iterator[TextMeasurement]:
    """Each rule by itself: a search in one field, then in the other."""
    start = time.process_time()
    rules = [
        (re.compile(re.escape(literal), re.IGNORECASE), re.compile(re.escape(suffix) + "$", re.IGNORECASE))
        for literal, suffix in zip(work.literals[:30_000], work.suffixes, strict=False)
    ]
    build = time.process_time() - start
    some = work.events[: max(1, 20_000 // len(rules))]

    def run() -> list[list[int]]:
        return [
            [i for i, (a, b) in enumerate(rules) if a.search(event["line"]) and b.search(event["image"])]
            for event in some
        ]

    seconds = _best(run, effort) * len(work.literals) / len(rules)
    yield _row("re", work, fields, len(some), seconds, build)


def _ahocorasick(work: RuleWork, fields: int, effort: Effort) -> Iterator[TextMeasurement]:
    ahocorasick = importlib.import_module("ahocorasick")
    start = time.process_time()
    automaton = ahocorasick.Automaton()
    for i, literal in enumerate(work.literals):
        automaton.add_word(literal.lower(), i)
    automaton.make_automaton()
    build = time.process_time() - start
    some = work.events[:1_000]
    seconds = _best(lambda: [list(automaton.iter(event["line"].lower())) for event in some], effort)
    yield _row("pyahocorasick", work, fields, len(some), seconds, build)


def _hyperscan(work: RuleWork, fields: int, effort: Effort) -> Iterator[TextMeasurement]:
    hyperscan = importlib.import_module("hyperscan")
    start = time.process_time()
    database = hyperscan.Database()
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH
    literals = list(dict.fromkeys(work.literals))
    database.compile([re.escape(literal).encode() for literal in literals], ids=list(range(len(literals))), flags=flags)
    build = time.process_time() - start
    some = [event["line"].encode() for event in work.events[:1_000]]
    hits: list[int] = []

    def note(id: int, *_: object) -> None:
        hits.append(id)

    seconds = _best(lambda: [database.scan(line, match_event_handler=note) for line in some], effort)
    yield _row("hyperscan", work, fields, len(some), seconds, build)


def _re2(work: RuleWork, fields: int, effort: Effort) -> Iterator[TextMeasurement]:
    if len(work.literals) > 10_000:  # its automaton outgrows its memory, and each text then starts it again
        return
    re2 = importlib.import_module("re2")
    start = time.process_time()
    patterns = re2.Set.SearchSet()
    for literal in work.literals:
        patterns.Add(re2.escape(literal))
    patterns.Compile()
    build = time.process_time() - start
    some = [event["line"].lower() for event in work.events[:200]]
    seconds = _best(lambda: [patterns.Match(line) for line in some], effort)
    yield _row("re2", work, fields, len(some), seconds, build)


def _duckdb(work: RuleWork, fields: int, effort: Effort) -> Iterator[TextMeasurement]:
    """A join of events and rules on both patterns."""
    duckdb = importlib.import_module("duckdb")
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    some = work.events[: max(1, 2_000_000 // len(work.literals))]
    events = pa.table({name: [event[name].lower() for event in some] for name in ("line", "image")})
    rules = pa.table({"literal": work.literals, "suffix": work.suffixes})
    connection.register("events", events)
    connection.register("rules", rules)
    query = "SELECT count(*) FROM events, rules WHERE contains(line, literal) AND suffix(image, suffix)"
    seconds = _best(lambda: connection.execute(query).fetchall(), effort)
    yield _row("duckdb", work, fields, len(some), seconds, 0.0)


_RUNS: Final[dict[str, Callable[[RuleWork, int, Effort], Iterator[TextMeasurement]]]] = {
    "tamis": _tamis,
    "tamis, one event": _tamis_single,
    "re": _re,
    "pyahocorasick": _ahocorasick,
    "hyperscan": _hyperscan,
    "re2": _re2,
    "duckdb": _duckdb,
}
