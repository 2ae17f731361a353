"""The command line, command by command: what people and scripts get when all is well."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import tamis
from tamis.cli.main import app
from tamis.demo import datasets
from tamis.engine.snapshot.array_file import map_arrays, write_arrays
from tamis.model.language.parse import parse
from tests import naive
from tests.effort import effort
from tests.fuzz.snapshots import Changer

EVENTS = [
    {"id": "a", "mag": 4.5, "depth": 10, "place": "Alaska", "at": "2018-02-01T00:00:00Z", "where": "POINT (1 1)"},
    {"id": "b", "mag": 5.5, "depth": 100, "place": "Chile", "at": "2018-02-02T00:00:00Z", "where": "POINT (9 9)"},
    {"id": "c", "mag": 6, "place": "Taiwan [red]", "at": "2018-02-03T00:00:00Z"},
]
SUBSCRIPTIONS = [
    {"id": "strong", "filter": "mag >= 5"},
    {"id": "shallow", "filter": "depth < 70"},
    {"id": "here", "filter": "S_WITHIN(where, BBOX(0, 0, 2, 2))"},
    {"id": "late", "filter": "at > TIMESTAMP('2018-02-01T12:00:00Z')"},
]
PAIRS = [(0, "here"), (0, "shallow"), (1, "late"), (1, "strong"), (2, "late"), (2, "strong")]


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def pairs(text: str) -> list[tuple[Any, Any]]:
    return [(row["event"], row["subscription"]) for row in lines(text)]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "events.jsonl", EVENTS)


@pytest.fixture
def subscriptions(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the real program; it has no terminal, so no colour and no progress bar."""
    command = [sys.executable, "-c", "from tamis.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)


def test_version_and_help() -> None:
    assert run("--version").stdout == f"tamis {tamis.__version__}\n"
    shown = run("--help")
    assert shown.exit_code == 0
    for command in ("demo", "try", "match", "explain", "covers", "reduce"):
        assert f"tamis {command}" in shown.stdout, "the help of all shows an example of each"
        assert f"tamis {command}" in run(command, "-h").stdout.split("Examples")[1]


def test_version_needs_no_library() -> None:
    heavy = "[name for name in ('numba', 'pyarrow', 'numpy', 'shapely') if name in sys.modules]"
    code = f"import sys\nfrom tamis.cli.main import main\ntry:\n main()\nfinally:\n print({heavy}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_demo_shows_matches_reasons_and_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run("demo", "--limit", 3)
    assert shown.exit_code == 0, shown.output
    assert "1,707 events x 67 subscriptions" in shown.stdout
    assert "Hualian, Taiwan" in shown.stdout
    assert "yes: mag is" in shown.stdout
    assert "no: depth is" in shown.stdout
    assert "can never match" in shown.stdout
    assert "tamis try" in shown.stdout
    assert "The map: tamis-demo.html" in shown.stdout
    assert (tmp_path / "tamis-demo.html").stat().st_size > 100_000
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "\x1b" not in shown.stdout, "a log has no colour"


def test_demo_json_is_one_document_and_true(tmp_path: Path) -> None:
    done = program("demo", "--json", "--limit", 4, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])
    engine = tamis.Engine(tamis.Schema.from_arrow(datasets.earthquakes()))
    for name, text in datasets.quake_subscriptions():
        engine.subscribe(text, id=name)
    assert document["matches"] == len(engine.match_table(datasets.earthquakes()))
    assert len(document["newest"]) == 4
    assert [explanation["matched"] for explanation in document["explanations"]] == [True, False]
    assert document["reduction"]["before"] == 67
    assert "impossible-range" in document["reduction"]["impossible"]
    assert effort(lambda: run("demo", "--json"), rounds=1) < 2000, "a first look is quick"


def test_demo_says_when_the_map_cannot_be_written_or_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    refused = run("demo", "--map", tmp_path / "none" / "map.html")
    assert refused.exit_code == 2
    assert "choose another path with --map" in refused.stderr
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tamis-demo.html").mkdir()
    shown = run("demo", "--limit", 1)
    assert shown.exit_code == 0, "a map that was not requested is not worth a failure"
    assert "no map: tamis-demo.html" in shown.stderr
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)))
    shown = run("demo", "--map", tmp_path / "map.html", "--open")
    assert opened == [(tmp_path / "map.html").as_uri()]
    assert "there is no browser" in shown.stderr


def test_demo_saves_files_that_the_other_commands_read(tmp_path: Path) -> None:
    assert run("demo", "--save", tmp_path / "quakes").exit_code == 0
    result = run("match", tmp_path / "quakes" / "subscriptions.jsonl", tmp_path / "quakes" / "earthquakes.parquet")
    schema = tamis.Schema.from_arrow(datasets.earthquakes())
    rows = [schema.event(row) for row in datasets.earthquakes().to_pylist()]
    trees = [parse(text) for _, text in datasets.quake_subscriptions()]
    wanted = sum(naive.evaluate(tree, row) is True for tree in trees for row in rows)
    assert len(result.stdout.splitlines()) == wanted == 8866


def test_try_counts_and_shows(events: Path) -> None:
    shown = run("try", "mag >= 5", events)
    assert shown.exit_code == 0
    assert "2 of 3 events match (66.7%)" in shown.stdout
    assert re.search(r"match \(.*%\); \d+\.\d s$", shown.stdout, re.MULTILINE)
    assert "Taiwan [red]" in shown.stdout, "text of others is not markup"
    assert "not shown: 1 more matches" in run("try", "mag >= 5", events, "--limit", 1).stdout


def test_try_json(events: Path) -> None:
    document = json.loads(run("try", "mag >= 5", events, "--json", "--limit", 1).stdout)
    assert (document["events"], document["matches"], document["skipped"]) == (3, 2, 0)
    assert document["rows"] == [{"row": 1, "event": EVENTS[1]}]


def test_try_without_matches_is_done_not_no(events: Path) -> None:
    assert run("try", "mag > 9", events).exit_code == 0


@pytest.mark.parametrize("text", ["TRUE", "unheard IS NULL", "mag > 0 OR unheard > 1"])
def test_filters_that_need_no_column(events: Path, text: str) -> None:
    assert json.loads(run("try", text, events, "--json").stdout)["matches"] == 3


def test_presence_of_a_value_of_no_type(tmp_path: Path) -> None:
    events = write_lines(tmp_path / "e.jsonl", [{"extra": {"nested": 1}}, {}, {"extra": {}}])
    document = json.loads(run("try", "extra IS NOT NULL", events, "--json").stdout)
    assert [row["row"] for row in document["rows"]] == [0, 2]


def test_a_name_that_no_event_has_is_told(events: Path) -> None:
    assert "no event of" in run("try", "magg >= 5", events).stderr
    assert "did you mean 'mag'?" in run("try", "magg >= 5", events).stderr


def test_times_without_a_zone_need_one(tmp_path: Path) -> None:
    events = write_lines(tmp_path / "e.jsonl", [{"at": "2018-02-01T01:00:00"}])
    text = "at = TIMESTAMP('2018-02-01T00:00:00Z')"
    assert json.loads(run("try", text, events, "--zone", "Europe/Berlin", "--json").stdout)["matches"] == 1
    assert json.loads(run("try", text, events, "--zone", "UTC", "--json").stdout)["matches"] == 0
    refused = run("try", text, events)
    assert refused.exit_code == 2
    assert "--zone Europe/Berlin" in refused.stderr


def test_a_schema_says_what_the_file_does_not(tmp_path: Path, events: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"attributes": {"id": {"type": "string"}, "at": {"type": "timestamp"}}}')
    result = run("try", "at > TIMESTAMP('2018-02-01T12:00:00Z')", events, "--schema", schema, "--json")
    assert json.loads(result.stdout)["matches"] == 2
    refused = run("try", "mag > 1", events, "--schema", schema)
    assert (refused.exit_code, "attribute 'mag': unknown" in refused.stderr) == (2, True)


def test_match_prints_sorted_pairs(subscriptions: Path, events: Path) -> None:
    result = run("match", subscriptions, events)
    assert pairs(result.stdout) == PAIRS
    assert "3 events, 4 subscriptions: 6 matches" in result.stderr
    assert run("match", subscriptions, events, "--json").stderr == ""


def test_match_takes_several_threads(tmp_path: Path, subscriptions: Path, events: Path) -> None:
    many = tmp_path / "many.jsonl"
    many.write_text("\n".join([events.read_text().strip()] * 400) + "\n")
    result = run("match", subscriptions, many, "--threads", 2)
    assert result.exit_code == 0, result.stderr
    assert pairs(result.stdout) == pairs(run("match", subscriptions, many).stdout)
    assert len(pairs(result.stdout)) == 400 * len(PAIRS)
    assert run("match", subscriptions, events, "--threads", 0).exit_code == 2


def test_match_calls_events_by_a_column(subscriptions: Path, events: Path) -> None:
    result = run("match", subscriptions, events, "--event-id", "id", "--json")
    assert pairs(result.stdout) == [(EVENTS[row]["id"], id) for row, id in PAIRS]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_match_writes_files(tmp_path: Path, subscriptions: Path, events: Path, suffix: str) -> None:
    out = tmp_path / f"pairs{suffix}"
    document = json.loads(run("match", subscriptions, events, "--out", out, "--json").stdout)
    assert (document["matches"], document["out"]) == (6, str(out))
    if suffix == ".parquet":
        rows = pq.ParquetFile(out).read().to_pylist()
        assert [(row["event"], row["subscription"]) for row in rows] == PAIRS
    elif suffix == ".csv":
        assert out.read_text().splitlines() == ["event,subscription", *(f"{event},{id}" for event, id in PAIRS)]
    else:
        assert pairs(out.read_text()) == PAIRS
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_cells_that_a_spreadsheet_would_run_are_disarmed(tmp_path: Path) -> None:
    risky = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain"]
    subscriptions = write_lines(tmp_path / "s.jsonl", [{"id": risky_id, "filter": "TRUE"} for risky_id in risky])
    events = write_lines(tmp_path / "e.jsonl", [{"id": "=cmd"}])
    assert run("match", subscriptions, events, "--event-id", "id", "--out", tmp_path / "o.csv").exit_code == 0
    cells = (tmp_path / "o.csv").read_bytes().decode()
    assert cells.count("'=cmd,") == 7
    assert all(f"'{risky_id}" in cells for risky_id in risky[:-1])
    assert ",plain\n" in cells


def test_match_keeps_namespaces_apart_and_ends_what_has_expired(tmp_path: Path, events: Path) -> None:
    rows = [
        {"id": 1, "filter": "mag > 0", "namespace": "north"},
        {"id": 2, "filter": "mag > 5"},
        {"id": 3, "filter": "mag > 5", "expires": "2001-01-01T00:00:00Z"},
    ]
    subscriptions = write_lines(tmp_path / "s.jsonl", rows)
    assert pairs(run("match", subscriptions, events).stdout) == [(1, 2), (2, 2)]
    assert pairs(run("match", subscriptions, events, "--namespace", "north").stdout) == [(0, 1), (1, 1), (2, 1)]
    assert run("match", subscriptions, events, "--namespace", "nowhere").stdout == ""


def test_match_skips_and_lists_what_is_bad(tmp_path: Path, subscriptions: Path) -> None:
    events = tmp_path / "e.jsonl"
    events.write_text('{"mag": 6}\nnot json\n\n{"mag": "six", "depth": 1}\n{"mag": 6, "mag": 7}\n{"depth": 3}\n')
    result = run("match", subscriptions, events, "--on-bad", "skip")
    assert result.exit_code == 0
    assert pairs(result.stdout) == [(0, "strong"), (4, "shallow")], "a bad row matches nothing, not even by its depth"
    assert "skipped 3 rows" in result.stderr
    assert "e.jsonl, line 2: not JSON" in result.stderr
    assert "e.jsonl, line 4: attribute 'mag': expected a number" in result.stderr
    assert "e.jsonl, line 5: duplicate key 'mag'" in result.stderr


def test_match_skips_bad_subscriptions(tmp_path: Path, events: Path) -> None:
    rows = [{"id": "good", "filter": "mag > 5.6"}, {"id": "bad", "filter": "mag >"}, {"filter": 5}, {"id": "none"}]
    result = run("match", write_lines(tmp_path / "s.jsonl", rows), events, "--on-bad", "skip")
    assert pairs(result.stdout) == [(2, "good")]
    assert "skipped 3 rows" in result.stderr
    assert "line 2: subscription 'bad': expected" in result.stderr


def test_filters_in_a_text_file_are_called_by_their_line(tmp_path: Path, events: Path) -> None:
    (tmp_path / "alerts.txt").write_text("# strong ones\nmag > 5.6\n\nplace LIKE 'Al%'\n")
    assert pairs(run("match", tmp_path / "alerts.txt", events).stdout) == [(0, 4), (2, 2)]


def test_filters_may_be_cql2_json(tmp_path: Path, events: Path) -> None:
    filter = {"op": ">", "args": [{"property": "mag"}, 5.6]}
    subscriptions = write_lines(tmp_path / "s.jsonl", [{"id": "json", "filter": filter}])
    assert pairs(run("match", subscriptions, events).stdout) == [(2, "json")]


def test_explain_says_why_and_why_not(events: Path) -> None:
    yes = run("explain", "mag >= 5 AND depth > 50", events, "--row", 1)
    assert (yes.exit_code, yes.stdout.splitlines()[0]) == (0, "match")
    no = run("explain", "mag >= 5 AND depth > 50", '{"mag": 4.5}')
    assert no.exit_code == 1
    assert no.stdout.splitlines() == [
        "no match",
        "  mag >= 5 AND depth > 50",
        "  ^^^^^^^^ no: mag is 4.5",
        "               ^^^^^^^^^^ unknown: depth is missing",
    ]


def test_explain_json() -> None:
    result = run("explain", "mag >= 5", '{"mag": 6}', "--json")
    condition = {"condition": "mag >= 5", "attribute": "mag", "value": "6", "outcome": True}
    assert json.loads(result.stdout) == {
        "matched": True,
        "subscription": "mag >= 5",
        "conditions": [condition],
        "tree": condition,
    }


def test_explain_json_has_a_tree_in_which_not_is_a_step() -> None:
    result = run("explain", "NOT (mag >= 5)", '{"mag": 4}', "--json")
    tree = json.loads(result.stdout)["tree"]
    assert (tree["operator"], tree["outcome"], [part["outcome"] for part in tree["parts"]]) == ("NOT", True, [False])


def test_covers_yes_and_no() -> None:
    assert run("covers", "mag >= 4", "mag >= 5 AND depth < 70").exit_code == 0
    no = run("covers", "mag >= 5", "mag >= 4")
    assert (no.exit_code, no.stdout.split(":")[0]) == (1, "no")
    witness = json.loads(re.findall(r"\{.*\}", no.stdout)[0])
    assert 4 <= witness["mag"] < 5


def test_covers_json_shows_a_witness_as_one_would_write_it() -> None:
    later, since = "at > TIMESTAMP('2018-02-01T00:00:00Z')", "at > TIMESTAMP('2018-01-01T00:00:00Z')"
    document = json.loads(run("covers", later, since, "--json").stdout)
    assert (document["covers"], document["unknown"]) == (False, False)
    assert document["witness"]["at"].startswith("2018-0")


def test_reduce_reports_and_writes_what_remains(tmp_path: Path) -> None:
    rows = {"wide": "mag > 1", "narrow": "mag > 2", "same": "1 < mag", "never": "mag > 2 AND mag < 1"}
    path = write_lines(tmp_path / "s.jsonl", [{"id": id, "filter": text} for id, text in rows.items()])
    document = json.loads(run("reduce", path, "--json").stdout)
    counts = {"before", "kept", "covered", "equivalent", "subsumed", "merged", "impossible", "undecided"}
    assert (set(document), document["undecided"]) == (counts, [])
    assert (document["before"], document["impossible"]) == (4, ["never"])
    shown = run("reduce", path, "--out", tmp_path / "small.jsonl")
    assert "4 subscriptions -> 1 (25%)" in shown.stdout
    [left] = lines((tmp_path / "small.jsonl").read_text())
    assert left["id"] in ("same", "wide")
    assert tamis.equivalent(left["filter"], "mag > 1")


def test_control_characters_reach_no_terminal(tmp_path: Path) -> None:
    events = write_lines(tmp_path / "e.jsonl", [{"place": "\x1b[31mred\x07", "mag": 1}])
    shown = run("try", "mag = 1", events)
    assert "\x1b" not in shown.output
    assert "\\x1b[31mred\\x07" in shown.stdout
    assert "\x1b" not in run("try", "mag = \x1b", events).output


def test_values_that_json_writers_stumble_over_are_shown(tmp_path: Path) -> None:
    events = tmp_path / "e.jsonl"
    events.write_text('{"mag": 1, "big": 1%s, "odd": "\\ud800", "list": [1, {"a": null}]}\n' % ("0" * 40))
    assert json.loads(run("try", "mag = 1", events, "--json").stdout)["rows"][0]["event"] == {
        "mag": 1,
        "big": 10**40,
        "odd": "\ud800",
        "list": [1, {"a": None}],
    }
    assert "\\ud800" in run("try", "mag = 1", events).stdout
    subscriptions = write_lines(tmp_path / "s.jsonl", [{"id": 1, "filter": "mag = 1"}])
    for name in ("big", "odd", "list"):
        refused = run("match", subscriptions, events, "--event-id", name)
        assert (refused.exit_code, f"the event id '{name}' is" in refused.stderr) == (2, True)


def test_the_program_reads_a_pipe(subscriptions: Path) -> None:
    done = program("match", subscriptions, "-", input="".join(json.dumps(row) + "\n" for row in EVENTS))
    assert (done.returncode, pairs(done.stdout)) == (0, PAIRS)


def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path) -> None:
    subscriptions = write_lines(tmp_path / "s.jsonl", [{"id": f"everything-{n}", "filter": "TRUE"} for n in range(50)])
    events = write_lines(tmp_path / "e.jsonl", [{"mag": 1}] * 10_000)
    code = "from tamis.cli.main import main; main()"
    command = [sys.executable, "-c", code, "match", str(subscriptions), str(events)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=240) == 141


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="not run: there are no named pipes on this system")
def test_ctrl_c_ends_quietly(tmp_path: Path, subscriptions: Path) -> None:
    events = tmp_path / "events.jsonl"
    os.mkfifo(events)
    # A job in the background ignores Ctrl-C, and so would what it starts: listen to it again.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from tamis.cli.main import main; main()"
    command = [sys.executable, "-c", program, "match", subscriptions, events]
    # The pipe opens when the program opens its end: it reads events from here on.
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        events.open("w"),
    ):
        process.send_signal(signal.SIGINT)
        shown = process.communicate(timeout=240)
    assert (process.returncode, shown) == (130, (b"", b""))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="not run: there is no /dev/full on this system")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_said_so(options: list[str]) -> None:
    command = [sys.executable, "-c", "from tamis.cli.main import main; main()", "covers", "x < 2", "x < 1", *options]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "error: the output cannot be written: No space left on device\n")


class TestVerify:
    def saved(self, directory: Path) -> Path:
        engine = tamis.Engine()
        engine.subscribe("mag > 4", id="a")
        return engine.save(directory)

    def test_sound_versions(self, tmp_path: Path) -> None:
        self.saved(tmp_path)
        self.saved(tmp_path)
        result = run("verify", tmp_path)
        assert result.exit_code == 0
        first, second = (result.stdout.splitlines()[at : at + 4] for at in (0, 4))
        assert (first[0], second[0]) == ("v000001: sound", "v000002: sound")
        assert [line.partition(":")[0].strip() for line in first[1:]] == ["checksums", "structure", "signature"]
        assert "not signed: nothing shows who wrote it" in first[3]
        [first, _] = json.loads(run("verify", tmp_path, "--json").stdout)
        assert (first["checksums"], first["structure"], first["signature"]) == (True, True, "not signed")

    def test_what_a_key_proves(self, tmp_path: Path) -> None:
        key = tmp_path / "key"
        key.write_bytes(b"k" * 32)
        key.chmod(0o600)
        engine = tamis.Engine()
        engine.subscribe("mag > 4", id="a")
        engine.save(tmp_path / "saved", key=b"k" * 32)
        assert "the signature was not checked" in run("verify", tmp_path / "saved").stdout
        result = run("verify", tmp_path / "saved", "--key-file", key)
        assert (result.exit_code, "signed with this key" in result.stdout) == (0, True)
        self.saved(tmp_path / "plain")
        result = run("verify", tmp_path / "plain", "--key-file", key, "--json")
        assert result.exit_code == 1
        assert "not signed, and a key demands" in json.loads(result.stdout)[0]["problem"]

    def test_a_crafted_version_has_right_checksums_and_no_structure(self, tmp_path: Path) -> None:
        engine = tamis.Engine()
        engine.subscribe_boxes(["x"], [[0.0]] * 200, [[9.0]] * 200)
        version = engine.save(tmp_path)
        arrays = {name: np.array(array) for name, array in map_arrays(version / "0.arrays").items()}
        arrays["plain.segment0.column_axes"][0] = 77
        (version / "0.arrays").unlink()
        write_arrays(version / "0.arrays", arrays)
        Changer(version, 0).seal()
        [report] = json.loads(run("verify", tmp_path, "--json").stdout)
        assert (report["sound"], report["checksums"], report["structure"]) == (False, True, False)
        assert "0.arrays: the array 'plain.segment0.column_axes' must ascend" in report["problem"]

    def test_an_older_format_is_migrated(self, tmp_path: Path) -> None:
        old = Path(__file__).parents[1] / "unit" / "engine" / "old_snapshots" / "format1"
        assert "convert it with: tamis migrate" in run("verify", old).stdout
        result = run("migrate", old, tmp_path / "new")
        assert (result.exit_code, "v000001" in result.stdout) == (0, True)
        assert run("verify", tmp_path / "new").exit_code == 0

    def test_a_damaged_version_is_named(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path) / "0.subscriptions.arrow"
        self.saved(tmp_path)
        path.write_bytes(path.read_bytes()[:-1])
        result = run("verify", tmp_path, "--json")
        assert result.exit_code == 1
        first, second = json.loads(result.stdout)
        assert (first["version"], first["sound"], second["sound"]) == ("v000001", False, True)
        assert "0.subscriptions.arrow: torn" in first["problem"]

    def test_nothing_to_verify(self, tmp_path: Path) -> None:
        for directory, problem in ((tmp_path, "no saved engine in it"), (tmp_path / "nowhere", "no such directory")):
            result = run("verify", directory)
            assert result.exit_code == 2
            assert problem in result.stderr
