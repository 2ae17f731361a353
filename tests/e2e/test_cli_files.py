"""Files: every format says the same, and nothing a file says is misread."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from typer.testing import CliRunner, Result

from tamis.cli.main import app
from tamis.errors import LimitError, TableError
from tamis.files import EventFile, batches, text
from tamis.files.csv_values import learned_kind, typed_column
from tamis.model.types import Boolean, Number, String

EVENTS = [
    {"id": 7, "mag": 4.5, "felt": True, "place": "a, b", "at": "2018-02-01T00:00:00Z", "where": "POINT (1 1)"},
    {"id": 8, "mag": 5, "felt": False, "place": 'say "x"', "at": "2018-02-02T00:00:00Z", "where": "POINT (9 9)"},
    {"id": 9, "place": "two\nlines"},
    {"id": 10, "mag": -1.0, "felt": True, "at": "2018-02-03T00:00:00Z", "where": "POLYGON ((0 0, 1 0, 0 1, 0 0))"},
]
SUBSCRIPTIONS = [
    {"id": "mag", "filter": "mag >= 4.5"},
    {"id": "felt", "filter": "felt = TRUE"},
    {"id": "place", "filter": "place LIKE '%,%' OR place LIKE '%lines'"},
    {"id": "unplaced", "filter": "place IS NULL"},
    {"id": "at", "filter": "at >= TIMESTAMP('2018-02-02T00:00:00Z')"},
    {"id": "where", "filter": "S_WITHIN(where, BBOX(0, 0, 2, 2))"},
    {"id": "whole", "filter": "id IN (8, 10)"},
]
PAIRS = {
    0: ["felt", "mag", "place", "where"],
    1: ["at", "mag", "whole"],
    2: ["place"],
    3: ["at", "felt", "unplaced", "where", "whole"],
}


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def as_jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode("utf-8-sig")


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    """Write the events as a data engineer would: moments as timestamps, geometry as WKB."""
    rows = [dict(row) for row in rows]
    for row in rows:
        if "at" in row:
            row["at"] = dt.datetime.fromisoformat(row["at"])
        if "where" in row:
            row["where"] = shapely.to_wkb(shapely.from_wkt(row["where"]))
    names = list(dict.fromkeys(name for row in rows for name in row))
    sink = io.BytesIO()
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), sink)
    return sink.getvalue()


FORMATS = {
    "e.jsonl": as_jsonl,
    "e.ndjson": lambda rows: b"\xef\xbb\xbf" + as_jsonl(rows).replace(b"\n", b"\r\n\r\n"),
    "e.json": lambda rows: json.dumps(rows, indent=2).encode(),
    "minified.json": lambda rows: json.dumps(rows, separators=(",", ":")).encode(),
    "objects.json": lambda rows: "\n".join(json.dumps(row, indent=1) for row in rows).encode(),
    "e.csv": as_csv,
    "e.parquet": as_parquet,
    "e.jsonl.gz": lambda rows: gzip.compress(as_jsonl(rows)),
    "e.json.gz": lambda rows: gzip.compress(json.dumps(rows).encode()),
    "e.csv.gz": lambda rows: gzip.compress(as_csv(rows)),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [2, 20_000])
def test_every_format_gives_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    monkeypatch.setattr(batches, "BATCH_ROWS", size)
    monkeypatch.setattr("tamis.files.events.BATCH_ROWS", size)
    (tmp_path / name).write_bytes(FORMATS[name](EVENTS))
    (tmp_path / "s.jsonl").write_bytes(as_jsonl(SUBSCRIPTIONS))
    result = run("match", tmp_path / "s.jsonl", tmp_path / name)
    assert result.exit_code == 0, result.stderr
    read: dict[int, list[str]] = {}
    for line in result.stdout.splitlines():
        pair = json.loads(line)
        read.setdefault(pair["event"], []).append(pair["subscription"])
    assert read == PAIRS


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_shows_the_same_event(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FORMATS[name](EVENTS))
    document = json.loads(run("try", "id = 7", tmp_path / name, "--json").stdout)
    assert document["rows"] == [{"row": 0, "event": EVENTS[0]}]
    assert run("explain", "mag = 5 AND felt = FALSE", tmp_path / name, "--row", 1).exit_code == 0


@pytest.mark.parametrize("name", [name for name in FORMATS if not name.startswith(("minified", "objects"))])
def test_every_format_holds_subscriptions(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FORMATS[name](SUBSCRIPTIONS))
    assert json.loads(run("reduce", tmp_path / name, "--json").stdout)["before"] == len(SUBSCRIPTIONS)


def test_dates_in_parquet_start_where_date_literals_do(tmp_path: Path) -> None:
    pq.write_table(pa.table({"day": [dt.date(2018, 2, 1), dt.date(2018, 2, 2)]}), tmp_path / "e.parquet")
    document = json.loads(run("try", "day = DATE('2018-02-02')", tmp_path / "e.parquet", "--json").stdout)
    assert [row["row"] for row in document["rows"]] == [1]


def test_literals_decide_what_csv_cells_are(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("zip,flag,n\n00123,1,+5\n123,0, 7 \n")
    for question, rows in [
        ("zip = '00123'", [0]),
        ("zip = 123", [0, 1]),
        ("flag = TRUE", [0]),
        ("flag = 1", [0]),
        ("n >= 5", [0, 1]),
    ]:
        document = json.loads(run("try", question, tmp_path / "e.csv", "--json").stdout)
        assert [row["row"] for row in document["rows"]] == rows, question


def test_csv_cells_that_do_not_fit_are_refused_by_line(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text('mag,place\n5,"two\nlines"\nn/a,x\n1e999,y\n,z\n6,w\n')
    refused = run("try", "mag > 1", tmp_path / "e.csv")
    assert refused.exit_code == 2
    assert "e.csv, line 4: attribute 'mag': expected a number, not a string (got 'n/a')" in refused.stderr
    result = run("try", "mag > 1", tmp_path / "e.csv", "--on-bad", "skip", "--json")
    assert [row["row"] for row in json.loads(result.stdout)["rows"]] == [0, 4]
    assert "line 5: attribute 'mag': expected a number, not a string (got '1e999')" in result.stderr


def test_large_whole_numbers_stay_exact(tmp_path: Path) -> None:
    big = 2**53 + 1
    (tmp_path / "e.jsonl").write_text(f'{{"n": {big}}}\n{{"n": 0.5}}\n{{"n": {2**64 - 1}}}\n')
    (tmp_path / "e.csv").write_text(f"n\n{big}\n0.5\n{2**64 - 1}\n")
    for name in ("e.jsonl", "e.csv"):
        assert json.loads(run("try", f"n = {big}", tmp_path / name, "--json").stdout)["matches"] == 1
        assert json.loads(run("try", f"n = {big - 1}", tmp_path / name, "--json").stdout)["matches"] == 0
        assert json.loads(run("try", f"n = {2**64 - 1}", tmp_path / name, "--json").stdout)["matches"] == 1


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", None, "-2"], Number(), [1, None, -2]),
        (["1.5", "2", "1e3"], Number(), [1.5, 2.0, 1000.0]),
        (["true", "FALSE"], Boolean(), [True, False]),
        (["007", "1"], String(), ["007", "1"]),
        (["1", "x"], String(), ["1", "x"]),
        (["-", "1"], String(), ["-", "1"]),
        (["nan", "1"], String(), ["nan", "1"]),
        (["99999999999999999999"], Number(), [99999999999999999999]),
    ],
)
def test_what_csv_columns_are_taken_for(cells: list[str | None], kind: object, values: list[object]) -> None:
    column = pa.array(cells, pa.large_string())
    learned = learned_kind(column)
    assert learned == kind
    typed = typed_column(column, learned)
    assert (typed.to_pylist() if isinstance(typed, pa.Array) else typed) == values


def test_a_bomb_is_counted_as_it_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_UNPACKED", 1_000_000)
    path = tmp_path / "e.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 200_000))
    assert path.stat().st_size < 10_000
    with pytest.raises(LimitError, match="unpack it first"):
        list(EventFile(str(path)).batches())


def test_a_line_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * (text.MAX_LINE + 1))
    with pytest.raises(LimitError, match="line 1: bytes of a line"):
        list(EventFile(str(path)).batches())
    path = path.rename(tmp_path / "e.json")
    with pytest.raises(TableError, match="line 1: not JSON: unterminated string"):
        list(EventFile(str(path)).batches())


def test_long_texts_of_a_json_array_are_read_over_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "CHUNK", 7)
    rows = [{"n": n, "umlaut": "äöü" * n, "x": -1.5e-7} for n in range(30)]
    (tmp_path / "e.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1))
    [batch] = EventFile(str(tmp_path / "e.json")).batches()
    assert [batch.event(i) for i in range(30)] == rows
    assert batch.lines[1] == 7


def test_batches_are_bounded_by_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES", 1_000)
    (tmp_path / "e.jsonl").write_bytes(as_jsonl([{"text": "x" * 400}] * 7))
    assert [list(batch.rows) for batch in EventFile(str(tmp_path / "e.jsonl")).batches()] == [[0, 1, 2], [3, 4, 5], [6]]


def test_only_the_columns_wanted_are_read(tmp_path: Path) -> None:
    for name in ("e.parquet", "e.csv", "e.jsonl"):
        (tmp_path / name).write_bytes(FORMATS[name](EVENTS))
        [batch] = EventFile(str(tmp_path / name)).batches(["mag", "unheard"])
        assert list(batch.columns) == ["mag"]


def test_an_empty_file_has_no_events(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text("\n\n")
    (tmp_path / "e.json").write_text("[]")
    (tmp_path / "e.csv").write_text("mag,place\n")
    for name in ("e.jsonl", "e.json", "e.csv"):
        result = run("try", "mag > 1", tmp_path / name)
        assert (result.exit_code, "0 of 0 events match" in result.stdout) == (0, True)


def test_a_run_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_ROWS", 1)  # the first event is written before the second one fails
    (tmp_path / "s.jsonl").write_bytes(as_jsonl(SUBSCRIPTIONS[:1]))
    (tmp_path / "e.jsonl").write_text('{"mag": 5}\nbroken\n')
    (tmp_path / "o.jsonl").write_text("old\n")
    before = sorted(tmp_path.iterdir())
    assert run("match", tmp_path / "s.jsonl", tmp_path / "e.jsonl", "--out", tmp_path / "o.jsonl").exit_code == 2
    assert (tmp_path / "o.jsonl").read_text() == "old\n"
    assert sorted(tmp_path.iterdir()) == before
