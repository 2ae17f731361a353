"""The text index agrees with the linear matcher under churn, and scanners find what `in` finds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tamis
from tamis.algebra.compiling import compile_source
from tamis.errors import SnapshotError
from tamis.index.packed import matcher
from tamis.index.packed.core import PackedCore
from tamis.index.packed.texts import finders, segment
from tamis.index.packed.texts.choosing import chosen_postings
from tamis.index.packed.texts.entries import NewEntry, TextEntries
from tamis.index.packed.texts.finders import Finder, Literals, finder_of
from tamis.index.packed.texts.literals import Anchor, groups_of, required_groups
from tamis.index.packed.texts.programs import program_of
from tamis.index.saved_arrays import SavedArrays
from tamis.kernels.text.like import fits_like
from tamis.model.subscription import AnyOf, Like, Subscription
from tamis.model.text.patterns import meets

WORDS = ["ab", "abc", "Straße", "foo", "Bar", "é", "😀", "x", "power", "shell", ".exe", "cmd", "abcdefghijkl"]
EXPRESSIONS = ["(foo|bar)+", "^a", "ab?c$", "[0-9]", "(?i)power.*shell", "x{2}"]
SCHEMA = tamis.Schema({"s": tamis.String(), "t": tamis.String(), "n": tamis.Number()})


def _pattern(rng: random.Random) -> str:
    return "".join(rng.choice(["%", "_", "", *WORDS]) for _ in range(rng.randint(1, 5)))


def _condition(rng: random.Random) -> str:
    name, negation = rng.choice(["s", "t"]), rng.choice(["", "", "NOT "])
    return rng.choice(
        [
            f"{name} {negation}LIKE '%{_pattern(rng)}'",
            f"{name} {negation}ILIKE '{_pattern(rng)}'",
            f"CASEI(ACCENTI({name})) {negation}LIKE CASEI(ACCENTI('{_pattern(rng)}'))",
            f"{name} {negation}MATCHES '{rng.choice(EXPRESSIONS)}'",
            f"n {rng.choice(['<', '>', '='])} {rng.randint(0, 9)}",
            f"{name} IN ('foo', 'cmd', 'ab')",
        ]
    )


def _filter(rng: random.Random) -> str:
    return rng.choice([" AND ", " AND ", " OR "]).join(_condition(rng) for _ in range(rng.randint(1, 3)))


def _text(rng: random.Random) -> str | None:
    return (
        "".join(rng.choice([*WORDS, "Foo", "POWER"]) for _ in range(rng.randint(0, 6))) if rng.random() < 0.9 else None
    )


@pytest.mark.parametrize("seed", range(2))
def test_matches_are_those_of_the_linear_matcher_under_churn(seed: int) -> None:
    rng = random.Random(seed)
    packed, linear = (tamis.Engine(schema=SCHEMA, matcher=name) for name in ("packed", "linear"))
    living: list[int] = []
    texts = {name: [_text(rng) for _ in range(40)] for name in ("s", "t")}
    events = pa.table({**texts, "n": [3, 2**53 + 1] * 20})
    for start in (0, 150, 300):
        for id in range(start, start + 150):
            text = _filter(rng)
            packed.subscribe(text, id=id)
            linear.subscribe(text, id=id)
            living.append(id)
        for id in rng.sample(living, 50):
            living.remove(id)
            packed.unsubscribe(id)
            linear.unsubscribe(id)
        table = packed.match_table(events)
        for row, event in enumerate(events.to_pylist()):
            expected = sorted(linear.match(event))
            assert sorted(packed.match(event)) == expected
            assert sorted(table.of(row)) == expected


def _entries(n: int, *groups: tuple[int, Anchor, str]) -> TextEntries:
    """Return entries with a group of one key for each view, anchor and pattern of a literal."""
    entries = TextEntries()
    keys = [[([(view, anchor, (text % i).encode())], None) for view, anchor, text in groups] for i in range(n)]
    entries.append([NewEntry(i, {}, [], keys[i], True) for i in range(n)])
    return entries


@pytest.mark.parametrize(
    ("groups", "lengths", "chosen"),
    [
        ([(0, Anchor.NONE, "a%03d"), (1, Anchor.NONE, "b%03d")], [20, 100], [0]),
        ([(0, Anchor.NONE, "a%03d"), (1, Anchor.NONE, "b%03d")], [100, 20], [1]),
        ([(0, Anchor.NONE, "a%03d"), (1, Anchor.END, "b%03d")], [20, 100], [1]),
        ([(0, Anchor.NONE, "common%.0s"), (1, Anchor.NONE, "b%03d")], [20, 100], [1]),
        ([(0, Anchor.NONE, "%02d"), (1, Anchor.NONE, "b%03d")], [20, 100], [1]),
    ],
    ids=["shorter texts", "shorter texts, the other way", "an end of a text", "used by few", "long enough"],
)
def test_keys_are_chosen_by_what_they_propose(
    groups: list[tuple[int, Anchor, str]], lengths: list[float], chosen: list[int]
) -> None:
    entries = _entries(90, *groups)
    entries.remove(np.array([7]))
    postings = chosen_postings(entries.key_columns(), np.arange(90, dtype=np.int32), np.array(lengths, np.float64))
    assert np.unique(postings.view).tolist() == chosen
    assert postings.entry.tolist() == [i for i in range(90) if i != 7]


def test_entries_saved_with_one_group_of_keys_are_read() -> None:
    entries = _entries(5, (0, Anchor.NONE, "a%03d"))
    arrays = {name: array for name, array in entries.to_arrays().items() if name not in ("group_at", "says")}
    read = TextEntries.from_arrays(SavedArrays(arrays, "a file"), 5, 0, 1)
    assert read["group_at"].tolist() == [0, 1, 2, 3, 4, 5]
    assert read["says"].tolist() == [-1] * 5
    columns, wanted = read.key_columns(), entries.key_columns()
    chosen = [chosen_postings(source, np.arange(5, dtype=np.int32), np.ones(1)) for source in (columns, wanted)]
    assert chosen[0].value.tolist() == chosen[1].value.tolist()


@pytest.mark.parametrize("name", ["says", "posting_at"])
def test_saved_groups_that_would_mislead_a_kernel_are_refused(name: str) -> None:
    arrays = _entries(5, (0, Anchor.NONE, "a%03d")).to_arrays()
    arrays[name] = np.full(5, 9, np.int32) if name == "says" else np.array([0, 0, 2, 3, 4, 5])
    with pytest.raises(SnapshotError, match=name):
        TextEntries.from_arrays(SavedArrays(arrays, "a file"), 5, 0, 1)


def test_keys_are_chosen_again_when_texts_turn_out_to_be_long() -> None:
    rng = random.Random(3)
    words = [f"{rng.randrange(16**5):05x}" for _ in range(400)]
    packed, linear = (tamis.Engine(schema=SCHEMA, matcher=name) for name in ("packed", "linear"))
    for i in range(300):
        filter = f"s LIKE '%{words[i]}%' AND t ILIKE '%{rng.choice(words)}%'"
        packed.subscribe(filter, id=i)
        linear.subscribe(filter, id=i)
    for n_words in ((3, 60), (60, 3), (3, 60)):
        columns = [[" ".join(rng.choices(words, k=n)) for _ in range(600)] for n in n_words]
        table = packed.match_table(pa.table(dict(zip("st", columns, strict=True))))
        for row in range(0, 600, 20):
            expected = sorted(linear.match({"s": columns[0][row], "t": columns[1][row]}))
            assert sorted(table.of(row)) == expected


def _numbers(literals: list[bytes]) -> Literals:
    values = [int.from_bytes(literal.ljust(8, b"\0"), "big") for literal in literals]
    return Literals(np.array(values, np.uint64), np.array([len(literal) for literal in literals]))


def _find(finder: Finder, rows: list[bytes]) -> list[tuple[int, int]]:
    offsets, padding = np.cumsum([5, *map(len, rows)]), np.full(5, 97, np.uint8)
    text = np.concatenate((padding, np.frombuffer(b"".join(rows), np.uint8), padding))
    return sorted(zip(*(array.tolist() for array in finder.find(text, offsets)), strict=True))


_HOLDS = {Anchor.NONE: bytes.__contains__, Anchor.START: bytes.startswith, Anchor.END: bytes.endswith}


@pytest.mark.parametrize("most_in_automaton", [0, 1_000], ids=["windows", "automaton"])
@pytest.mark.parametrize("n_rows", [1, 3, 500])
def test_a_finder_finds_every_literal_in_each_row(
    n_rows: int, most_in_automaton: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finders, "MOST_IN_AUTOMATON", most_in_automaton)
    rng = random.Random(n_rows)
    literals = sorted({bytes(rng.choices(b"aab\0", k=rng.randint(1, 8))) for _ in range(40)})
    rows = [bytes(rng.choices(b"aabc\0", k=rng.randint(0, 40))) for _ in range(n_rows)]
    for anchor, holds in _HOLDS.items():
        finder = finder_of(_numbers(literals), anchor)
        expected = [(r, i) for r, row in enumerate(rows) for i, literal in enumerate(literals) if holds(row, literal)]
        for some in (rows, rows[:1], rows):  # what one call leaves behind must not be seen by the next
            hits = _find(finder, some)
            assert sorted(set(hits)) == [pair for pair in expected if pair[0] < len(some)]
            assert (anchor is Anchor.NONE and most_in_automaton) or len(hits) == len(set(hits))


def test_a_hostile_text_hits_each_literal_once_per_row() -> None:
    literals = sorted(b"a" * k for k in range(1, 9))
    literals = sorted([*literals, *(b"b%07d" % i for i in range(finders.MOST_IN_AUTOMATON))])
    hits = _find(finder_of(_numbers(literals), Anchor.NONE), [b"a" * 50_000, b"", b"a" * 50_000])
    assert hits == [(row, i) for row in (0, 2) for i in range(8)]


@pytest.mark.parametrize(
    ("filter", "fits", "fits_not"),
    [
        ("s LIKE '%.exe'", ["a.exe", ".exe"], [".exe ", "exe", None]),
        ("s LIKE 'C:/Windows/%'", ["C:/Windows/", "C:/Windows/x"], ["C:/Windows", " C:/Windows/x"]),
        ("s LIKE '_bcd%'", ["abcd", "ébcde"], ["bcd", "aabcd"]),
        ("s LIKE '%bcd_'", ["bcdé", "abcde"], ["bcd", "bcdee"]),
        ("s LIKE 'Straße%Straße'", ["StraßeStraße", "Straße Straße"], ["Straße", "traßeStraße"]),
        ("s LIKE '%powershell.exe'", ["powershell.exe", "C:/powershell.exe"], ["powershell.exe ", "ershell.exe"]),
        ("s ILIKE 'whole text'", ["Whole Text", "WHOLE TEXT"], ["whole text ", "ole text"]),
        ("s LIKE 'abc%' AND t NOT LIKE '%xyz'", ["abcd"], ["ab"]),
    ],
)
def test_a_literal_at_an_end_is_found_there_alone(filter: str, fits: list[str], fits_not: list[str | None]) -> None:
    engine = tamis.Engine(schema=SCHEMA)
    id = engine.subscribe(filter)
    for i in range(200):  # enough for a segment, which has the first one
        engine.subscribe(f"s LIKE '%only{i}' OR s LIKE 'only{i}%'")
    for text, expected in [*((text, [id]) for text in fits), *((text, []) for text in fits_not)]:
        assert engine.match({"s": text, "t": "x", "n": 1}) == expected, text
        assert engine.match_table(pa.table({"s": pa.array([text] * 2, pa.string()), "t": ["x"] * 2})).of(1) == expected
    assert engine.match({"s": fits[0], "n": 1}) == ([] if " t " in filter else [id])


def test_programs_fit_what_patterns_match() -> None:
    rng, masks = random.Random(5), np.zeros(256, np.uint64)
    for _ in range(2_000):
        pattern = "".join(rng.choice("%%_ab\u00e9\U0001f600") for _ in range(rng.randint(0, 8)))
        text = "".join(rng.choice("aab\u00e9\U0001f600") for _ in range(rng.randint(0, 8)))
        like = Like("s", pattern)
        program = np.frombuffer(program_of(like) or b"", np.uint8).copy()
        data = np.frombuffer(text.encode(), np.uint8).copy()
        assert fits_like(program, 0, len(program), data, 0, len(data), masks) == meets(like, text), (pattern, text)
        assert not masks.any()


def test_a_few_rules_are_packed_for_tables_that_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "MANY_PAIRS", 2_000)
    monkeypatch.setattr(matcher, "LARGE_TABLE", 500)
    packed = []
    pack = matcher._pack
    monkeypatch.setattr(matcher, "_pack", lambda few, lookup: packed.append(len(few)) or pack(few, lookup))
    engine = tamis.Engine()
    for number in range(10):
        engine.subscribe(f"line ILIKE '%word{number} %'", id=number)
    table = {"line": [f"a WORD{i % 12} b" for i in range(100)]}
    answers = [engine.match_table(table) for _ in range(4)]
    assert [sorted(zip(answer.event.tolist(), answer.subscription, strict=True)) for answer in answers] == [
        sorted((i, i % 12) for i in range(100) if i % 12 < 10)
    ] * 4
    assert packed == [10, 10, 10]
    engine.match_table({"line": ["word1 "]})
    assert packed == [10, 10, 10]
    engine.subscribe("line = 'a WORD11 b'", id=11)
    assert engine.match_table(table).subscription.count(11) == 8


def test_what_needs_no_look_at_its_subscription_is_named() -> None:
    texts = ["s ILIKE '%abc%'", "s ILIKE '%abc%' OR t IS NULL", "n < 3", "s LIKE 'a%' AND n < 3", "n < 1 OR n > 2"]
    subscriptions = [Subscription(i, compile_source(text, SCHEMA).filters) for i, text in enumerate(texts)]
    core = PackedCore(subscriptions.__getitem__)
    assert sorted(core.add_many(np.arange(5, dtype=np.int32), subscriptions, [])) == [0, 2, 4]


def test_a_part_that_may_be_missing_is_not_required() -> None:
    compiled = compile_source("s MATCHES 'left(middle)?right(or|other)*end'", SCHEMA)
    literals = {key.literal for group in groups_of(compiled.filters[0]) for key in group}
    assert literals == {b"left", b"right", b"end"}


def test_an_alternative_without_a_literal_needs_none() -> None:
    """An event may match by that alternative alone."""
    word = Like("s", "%word%")
    assert required_groups(AnyOf((word, Like("s", "%other%")))) != []
    for without in (Like("s", "_%"), Like("s", "%word%", negated=True)):
        assert required_groups(AnyOf((word, without))) == []


@pytest.mark.parametrize("names", ["st", "ts"])
def test_the_literal_that_finds_a_rule_decides_its_own_condition_alone(names: str) -> None:
    """The rarer literal finds the rule, whichever condition it is of; the other condition is still to be met."""
    engine = tamis.Engine(schema=SCHEMA)
    for i in range(200):  # enough for a segment
        engine.subscribe(f"s LIKE '%ab%' AND t LIKE '%ab%' AND s LIKE '%only{i}%'")
    first, second = names
    id = engine.subscribe(f"{first} LIKE '%ab%' AND {second} LIKE '%quakes%'")
    assert engine.match({first: "xabx", second: "xquakesx"}) == [id]
    assert engine.match({first: "x", second: "xquakesx"}) == []
    assert engine.match_table(pa.table({first: ["x", "ab"], second: ["quakes", "quakes"]})).of(0) == []


def test_a_rule_of_hundreds_of_alternatives_is_found_by_their_literals() -> None:
    groups = required_groups(AnyOf(tuple(Like("s", f"%word{number}%") for number in range(600))))
    assert [len(group) for group in groups] == [600]


def test_a_long_rule_does_not_wait_among_those_that_every_event_meets() -> None:
    texts = [" OR ".join(f"s ILIKE '%word{number}%'" for number in range(300)), "s ILIKE '%short%'"]
    subscriptions = [Subscription(i, compile_source(text, SCHEMA).filters) for i, text in enumerate(texts)]
    core = PackedCore(subscriptions.__getitem__)
    core.add_many(np.arange(2, dtype=np.int32)[:1], subscriptions[:1])
    assert (len(core._store.texts._segments), len(core._store.texts._tail)) == (1, 0)
    core.add_many(np.arange(2, dtype=np.int32)[1:], subscriptions[1:])
    assert (len(core._store.texts._segments), len(core._store.texts._tail)) == (1, 1)
    assert core.match({"s": "a WORD299 and a SHORT one"}).tolist() == [0, 1]


def test_only_the_fields_of_an_event_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of rules names hundreds of fields; an event has a dozen."""
    names = [f"f{i}" for i in range(300)]
    engine = tamis.Engine(tamis.Schema({name: tamis.String() for name in names}))
    for name in names:
        engine.subscribe(f"{name} ILIKE '%needle%' AND {name} ILIKE '%hay%'", id=name)
    engine.subscribe("CASEI(f7) = CASEI('')", id="empty")
    views: list[int] = []
    scan = segment._Scanner.keep

    def noted(scanner: segment._Scanner, *arguments: Any) -> Any:
        views.append(scanner.view)
        return scan(scanner, *arguments)

    monkeypatch.setattr(segment._Scanner, "keep", noted)
    assert engine.match({"f3": "hay and Needle", "f9": "hay"}) == ["f3"]
    assert 0 < len(set(views)) <= 4
    assert engine.match({"f7": ""}) == ["empty"]
    assert engine.match_table({"f3": [None, "needle in hay"], "f7": ["", None]}).of(0) == ["empty"]
