"""scripts/plain_words.py finds phrases that are hard to read, and nothing else; the tree has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import plain_words
from scripts.plain_words import checked_files, findings, findings_in, names_in, sentences_in

BAD = [
    ("closed by whoever opened it", "whoever"),
    ("Nobody waits for a timer", "Nobody"),
    ("the client hears of it", "hears"),
    ("wait for so many seconds", "so many"),
    ("'x' is no number", "is no number"),
    ("Bytes that are no\n    frame", "are no frame"),
    ("the key 'x' stands twice", "stands twice"),
    ("the table is built anew", "anew"),
]

GOOD = [
    "the caller that opened the file closes it",
    "there is no such file",
    "There\n  are no subscriptions",
    "it is no longer valid, and is no more than a hint",
    "there are so many boxes that caches matter",
    "`NOBODY` is larger than every row",
    "duplicate key 'x'",
    "expected a number, not 'x'",
]


@pytest.mark.parametrize(("sentence", "phrase"), BAD)
def test_a_sentence_that_is_hard_to_read_is_found(sentence: str, phrase: str) -> None:
    assert [finding.phrase for finding in findings(sentence)] == [phrase]


@pytest.mark.parametrize("sentence", GOOD)
def test_a_plain_sentence_passes(sentence: str) -> None:
    assert not list(findings(sentence))


def test_comments_literals_and_bound_names_of_a_module_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""First line.\n\nWritten by whoever\ncalls."""\nheard = 1  # nobody reads\ntext = f"{heard} is no number"\n'
    )
    assert [(line, phrase) for line, phrase, _ in findings_in(module)] == [
        (3, "whoever"),
        (5, "heard"),
        (5, "nobody"),
        (6, "is no number"),
    ]


def test_the_checker_reads_itself_except_for_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(plain_words.__file__)
    assert findings_in(path) == []
    monkeypatch.setattr(plain_words, "TABLES", ())
    assert {"nobody", "anew"} <= {finding.phrase for finding in findings_in(path)}


def test_the_name_of_a_test_is_read_as_a_sentence() -> None:
    source = "def test_that_nobody_waits(): ...\nclass Tests:\n    async def test_a_list_is_no_map(self): ..."
    assert [(line, phrase) for line, phrase, _ in sentences_in(source)] == [(1, "nobody"), (3, "is no map")]


def test_a_script_of_a_page_is_read(tmp_path: Path) -> None:
    path = tmp_path / "page.js"
    path.write_text("/** Nobody waits. */\nconst found = rows;\nfunction show(told) {}\nids.map((one, i) => one.id);\n")
    assert [(line, phrase) for line, phrase, _ in findings_in(path)] == [
        (1, "Nobody"),
        (2, "found"),
        (3, "told"),
        (4, "one"),
    ]


def test_documents_and_modules_are_read() -> None:
    names = {path.name for path in checked_files()}
    assert {
        "README.md",
        "language.md",
        "engine.py",
        "errors.py",
        "plain_words.py",
        "health.py",
        "run.py",
        "tree.js",
    } <= names
    assert "report.md" not in names
    assert "test_plain_words.py" not in names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("found = 1", ["found"]),
        ("rows = [one.id for one in rows]", ["one"]),
        ("def _told(given, *, size): ...", ["_told", "given"]),
        ("self._asked = 1", ["_asked"]),
        ("class Known: ...", ["Known"]),
        ("try: ...\nexcept OSError as found: ...", ["found"]),
        ("match rows:\n    case [one, *ones]: ...", ["one", "ones"]),
        ("print(found, self.found)", []),  # bound elsewhere, perhaps by others
        ("matches = find(one=1)", []),
        ("one_by_one, found_at = 1, 2", []),
    ],
)
def test_a_name_that_says_nothing_is_found_where_it_is_bound(source: str, names: list[str]) -> None:
    assert sorted(finding.phrase for finding in names_in(source)) == sorted(names)
