"""Wrong input: a message that names the culprit, exit code 2, nothing on standard output, no traceback."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tamis.cli.main import app

FILES: dict[str, str | bytes] = {
    "e.jsonl": '{"id": "x", "mag": 4.5, "at": "2018-02-01T00:00:00Z"}\n{"mag": 5}\n',
    "s.jsonl": '{"id": "a", "filter": "mag > 4"}\n',
    "broken.jsonl": '{"mag": 1}\n{"mag": }\n',
    "list.jsonl": "[1, 2]\n",
    "nan.jsonl": '{"mag": 1}\n\n{"mag": NaN}\n',
    "huge.jsonl": '{"mag": 1}\n{"mag": 1e999}\n',
    "twice.jsonl": '{"mag": 1, "mag": 2}\n',
    "twice-inside.jsonl": '{"mag": 1, "g": {"a": 1, "a": 2}}\n',
    "latin.jsonl": b'{"place": "M\xfcnchen"}\n',
    "deep.jsonl": '{"a": ' + "[" * 40 + "]" * 40 + "}\n",
    "deepest.jsonl": '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
    "wide.jsonl": "{" + ", ".join(f'"a{n}": 1' for n in range(300)) + "}\n",
    "digits.jsonl": '{"mag": ' + "9" * 5000 + "}\n",
    "mixed.jsonl": '{"mag": 5}\n{"mag": "five"}\n',
    "open.json": '[{"mag": 1},\n {"mag": 2}',
    "comma.json": '[{"mag": 1}\n {"mag": 2}]',
    "after.json": '[{"mag": 1}]\n{"mag": 2}',
    "number.json": '[{"mag": 1},\n\n 5]',
    "constant.json": '[{"mag": 1},\n {"mag": -Infinity}]',
    "empty.csv": "",
    "ragged.csv": "mag,place\n1,x\n2\n",
    "header.csv": "mag,mag\n1,2\n",
    "nameless.csv": "mag,\n1,2\n",
    "quote.csv": 'mag,place\n1,"x" y\n',
    "cut.jsonl.gz": gzip.compress(b'{"mag": 1}\n' * 1000)[:-20],
    "plain.jsonl.gz": '{"mag": 1}\n',
    "text.parquet": "this is not a Parquet file\n",
    "notes.txt": "mag > 1\n",
    "syntax.jsonl": '{"id": "a", "filter": "mag > 4"}\n{"id": "b", "filter": "mag >> 4"}\n',
    "same.jsonl": '{"id": "a", "filter": "mag > 4"}\n{"id": "a", "filter": "mag > 5"}\n',
    "filterless.jsonl": '{"id": "a", "query": "mag > 4"}\n',
    "odd-id.jsonl": '{"id": 1.5, "filter": "mag > 4"}\n',
    "odd-expiry.jsonl": '{"id": "a", "filter": "mag > 4", "expires": "tomorrow"}\n',
    "disagree.jsonl": '{"id": "a", "filter": "size > 4"}\n{"id": "b", "filter": "size = \'big\'"}\n',
    "nothing.jsonl": "\n",
    "schema.json": '{"attributes": {"mag": {"type": "number"}, "at": {"type": "timestamp"}}}',
    "schema-word.json": '{"attributes": {"mag": {"type": "integer"}}}',
    "schema-list.json": "[]",
    "schema-broken.json": "{",
    "schema-region.json": '{"attributes": {"mag": {"type": "region"}}}',
}

CASES: list[tuple[str, list[str]]] = [
    # files that are not there, or are not what they are called
    ("try|mag > 4|absent.jsonl", ["absent.jsonl: there is no such file"]),
    ("serve|check|--data|absent", ["absent: there is no such directory"]),
    ("serve|check|--backup|absent", ["absent: there is no such directory"]),
    ("import|eventbridge|absent.json", ["absent.json: there is no such file"]),
    ("import|eventbridge|open.json", ["open.json: not JSON"]),
    ("import|eventbridge|broken.jsonl", ["broken.jsonl, line 2: not JSON"]),
    ("import|jms|latin.jsonl", ["latin.jsonl: not text in UTF-8"]),
    ("demo|--map|folder.jsonl", ["folder.jsonl: the map cannot be written", "--map"]),
    ("try|mag > 4|absent.parquet", ["absent.parquet: there is no such file"]),
    ("match|absent.jsonl|e.jsonl", ["absent.jsonl: there is no such file"]),
    ("try|mag > 4|folder.jsonl", ["folder.jsonl: a directory, not a file"]),
    ("try|mag > 4|notes.txt", ["notes.txt: unknown file type; tamis reads .jsonl, .json, .csv and .parquet"]),
    ("try|mag > 4|text.parquet", ["text.parquet: not a Parquet file"]),
    ("try|mag > 4|plain.jsonl.gz", ["plain.jsonl.gz: not a complete gzip file"]),
    ("try|mag > 4|cut.jsonl.gz", ["cut.jsonl.gz: not a complete gzip file"]),
    # JSON
    ("try|mag > 4|broken.jsonl", ["broken.jsonl, line 2: not JSON: expecting value at column 9"]),
    ("try|mag > 4|list.jsonl", ["list.jsonl, line 1: expected an object", "not a list"]),
    ("try|mag > 4|nan.jsonl", ["nan.jsonl, line 3: NaN is not JSON; leave a missing value out"]),
    ("try|mag > 4|huge.jsonl", ["huge.jsonl, line 2: 1e999 is beyond the range of numbers"]),
    ("try|mag > 4|twice.jsonl", ["twice.jsonl, line 1: duplicate key 'mag'"]),
    ("try|mag > 4|twice-inside.jsonl", ["duplicate key 'a'"]),
    ("try|mag > 4|latin.jsonl", ["latin.jsonl, line 1: not UTF-8 text", "hint: convert the file first"]),
    ("try|mag > 4|deep.jsonl", ["deep.jsonl, line 1: nested more than 32 deep"]),
    ("try|mag > 4|deepest.jsonl", ["deepest.jsonl, line 1: nested more than 32 deep"]),
    ("try|mag > 4|wide.jsonl", ["wide.jsonl, line 1: 300 attributes are more than the 256 accepted"]),
    ("try|mag > 4|digits.jsonl", ["digits.jsonl, line 1: a number of more than 400 digits"]),
    ("try|mag > 4|open.json", ["open.json, line 2: the array has no end"]),
    ("try|mag > 4|comma.json", ["comma.json, line 2: expected ',' or ']'"]),
    ("try|mag > 4|after.json", ["after.json, line 2: there is more after the end of the array"]),
    ("try|mag > 4|number.json", ["number.json, line 3: expected an object", "not a number"]),
    ("try|mag > 4|constant.json", ["constant.json, line 2: -Infinity is not JSON"]),
    # CSV
    ("try|mag > 4|empty.csv", ["empty.csv: empty; the first line of a CSV file names its columns"]),
    ("try|mag > 0|ragged.csv", ["ragged.csv, line 3: 1 cells, but the header names 2 columns"]),
    ("try|mag > 0|header.csv", ["header.csv, line 1: duplicate column 'mag'"]),
    ("try|mag > 0|nameless.csv", ["nameless.csv, line 1: a column has no name"]),
    ("try|mag > 0|quote.csv", ["quote.csv, line 2: not CSV"]),
    # filters
    ("try|mag >|e.jsonl", ["expected a value at column 6", "  mag >\n       ^"]),
    ("try||e.jsonl", ["expected"]),
    ("try|mag = 'big'|e.jsonl", ["attribute 'mag': it is a number, and 'big' does not fit"]),
    ("try|S_WITHIN(id, BBOX(0, 0, 1, 1))|e.jsonl", ["attribute 'id': it is a string, but S_WITHIN needs a region"]),
    ("try|id > TIMESTAMP('2018-01-01T00:00:00Z')|e.jsonl", ["a timestamp is compared with it", "hint: a column holds"]),
    ("try|size > 4|numbers.parquet", ["numbers.parquet has no column 'size'", "(there are mag, deep)"]),
    ("explain|dep > 4|numbers.parquet|--row|0", ["numbers.parquet has no column 'dep' (did you mean 'deep'?)"]),
    ("covers|mag >|mag > 4", ["expected a value at column 6"]),
    ("covers|mag > 4|mag = 'x'", ["attribute 'mag': known as a number", "hint: one attribute has one type"]),
    ("covers|size > 4|mag > 4|--schema|schema.json", ["attribute 'size': unknown (known are mag, at"]),
    # events that do not fit
    ("try|mag > 4|mixed.jsonl", ["mixed.jsonl, line 2: attribute 'mag': expected a number, not a string (got 'five')"]),
    ("try|mag > 4|nan.parquet", ["nan.parquet, row 1: attribute 'mag': NaN and infinity are not numbers"]),
    ("try|at > TIMESTAMP('2018-01-01T00:00:00Z')|naive.parquet", ["row 0", "a time without a zone", "--zone UTC"]),
    ("try|mag > 4|e.jsonl|--zone|Europe/Atlantis", ["there is no time zone 'Europe/Atlantis'", "IANA"]),
    ('explain|mag > 4|{"mag": }', ["the event: not JSON: expecting value at column 9"]),
    ('explain|mag > 4|{"mag": "x"}', ["attribute 'mag': it is a string"]),
    ("explain|mag > 4|e.jsonl", ["e.jsonl: choose an event of the file with --row N"]),
    ("explain|mag > 4|e.jsonl|--row|9", ["e.jsonl: there is no row 9; the last one is row 1"]),
    ("explain|mag > 4|broken.jsonl|--row|1", ["broken.jsonl, line 2: not JSON"]),
    ("explain|mag > 4|{}|--row|1", ["--row needs a file of events"]),
    # subscriptions
    ("match|syntax.jsonl|e.jsonl", ["syntax.jsonl, line 2: subscription 'b': expected a value at column 6"]),
    ("match|same.jsonl|e.jsonl", ["same.jsonl, line 2: subscription 'a'", "exists already", "hint: two rows"]),
    ("match|filterless.jsonl|e.jsonl", ["filterless.jsonl, line 1: there is no 'filter' (found id, query)"]),
    ("match|odd-id.jsonl|e.jsonl", ["odd-id.jsonl, line 1: a subscription id is a string or an int64, not 1.5"]),
    ("match|odd-expiry.jsonl|e.jsonl", ["odd-expiry.jsonl, line 1", "expected a timestamp"]),
    ("match|disagree.jsonl|e.jsonl", ["disagree.jsonl, line 2: subscription 'b'", "'big' does not fit"]),
    ("match|nothing.jsonl|e.jsonl", ["nothing.jsonl: no subscriptions found"]),
    ("match|notes.doc|e.jsonl", ["notes.doc: unknown file type"]),
    (
        "match|s.jsonl|e.jsonl|--event-id|id",
        ["e.jsonl, line 2: the event id 'id' is missing", "--event-id"],
    ),
    (
        "match|s.jsonl|e.jsonl|--event-id|nope|--on-bad|skip",
        ["e.jsonl has no 'nope'", "choose another --event-id"],
    ),
    ("match|s.jsonl|e.jsonl|--event-id|mag", ["the event id 'mag' is 4.5, not text or an int64"]),
    ("match|-|-", ["standard input holds the subscriptions or the events, not both"]),
    ("match|s.jsonl|e.jsonl|--out|pairs.xlsx", ["pairs.xlsx: unknown file type; tamis writes"]),
    ("match|s.jsonl|e.jsonl|--out|absent/pairs.csv", ["absent/pairs.csv: there is no directory absent"]),
    ("reduce|syntax.jsonl", ["syntax.jsonl, line 2: subscription 'b': expected a value"]),
    ("reduce|same.jsonl", ["subscription 'a' exists already"]),
    ("reduce|disagree.jsonl", ["known as a number, but subscription 'b' uses it as a string"]),
    ("reduce|odd-expiry.jsonl", ["odd-expiry.jsonl, line 1: expires: expected a timestamp"]),
    ("reduce|s.jsonl|--schema|schema-region.json", ["s.jsonl, line 1: subscription 'a'", "it is a region"]),
    # schemas
    ("try|mag > 4|e.jsonl|--schema|absent.json", ["absent.json: there is no such file"]),
    ("try|mag > 4|e.jsonl|--schema|schema-word.json", ["attribute 'mag': expected", "schema-word.json"]),
    ("try|mag > 4|e.jsonl|--schema|schema-list.json", ["a schema is", "schema-list.json"]),
    ("try|mag > 4|e.jsonl|--schema|schema-broken.json", ["a schema is JSON text", "schema-broken.json"]),
    # the command line itself
    ("nonsense", ["No such command 'nonsense'"]),
    ("try|mag > 4", ["Missing argument"]),
    ("try|mag > 4|e.jsonl|--limit|-1", ["--limit"]),
    ("try|mag > 4|e.jsonl|--limit|many", ["--limit"]),
    ("match|s.jsonl|e.jsonl|--on-bad|ignore", ["--on-bad"]),
    ("demo|--loud", ["No such option"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        (made / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (made / "folder.jsonl").mkdir()
    pq.write_table(pa.table({"mag": [1.0, 2.0], "deep": [1, 2]}), made / "numbers.parquet")
    pq.write_table(pa.table({"mag": [1.0, float("nan")]}), made / "nan.parquet")
    pq.write_table(pa.table({"at": pa.array([0], pa.timestamp("us"))}), made / "naive.parquet")
    return made


def run(arguments: str) -> Result:
    return CliRunner().invoke(app, arguments.split("|"), env={"COLUMNS": "200"})


@pytest.mark.parametrize(("arguments", "expected"), CASES, ids=[case[0][:60] for case in CASES])
def test_wrong_input(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, expected: list[str]) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    done = run(arguments)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit), "no other exception leaves a command"
    for words in expected:
        assert words in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == before, "nothing is left behind"


def test_json_output_stays_clean_when_something_is_wrong(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = run("try|mag > 4|broken.jsonl|--json")
    assert (done.exit_code, done.stdout) == (2, "")


def test_a_statement_is_not_accepted_as_a_condition(tmp_path: Path) -> None:
    file = tmp_path / "rules.txt"
    file.write_text("SELECT * FROM quakes WHERE mag > 4\nwhere is null\nWHERE mag > 4\nmag > 4\n")
    done = CliRunner().invoke(app, ["import", "sql", str(file)])
    assert done.exit_code == 1
    assert done.stderr.count("give only the text after WHERE") == 2
    assert done.stdout.splitlines()[-1] == '{"id":4,"filter":"mag > 4"}'
