"""``tamis backtest`` and ``tamis import sigma`` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app

RULES = {
    "wide": "line ILIKE '%net%'",
    "narrow": "line ILIKE '%net user%'",
    "present": "line IS NOT NULL",
    "silent": "line ILIKE '%mimikatz%'",
}
OLD = {"wide": "line ILIKE '%net use%'", "gone": "line ILIKE '%x%'", "present": "line IS NOT NULL"}
LINES = ("net user", "NET view", "dir", "net use", "type x")

SIGMA = """
title: A user is added
id: 5f1c0b1e-6f0e-4c7e-9a55-0d6b2f6f7f10
status: test
level: high
logsource: {product: windows, category: process_creation}
detection:
    selection: {line|contains|all: [net, user]}
    filter: {host|startswith: admin}
    condition: selection and not filter
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rules in (("rules", RULES), ("old", OLD)):
        texts = [json.dumps({"id": id, "filter": text}) for id, text in rules.items()]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(texts))
    events = [{"line": line, "at": f"2026-01-0{1 + i // 2}T10:00:00Z"} for i, line in enumerate(LINES)]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    (tmp_path / "rule.yml").write_text(SIGMA)
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(folder / argument) if "." in argument else argument for argument in arguments])
    return done.exit_code, done.stdout


def test_firings_days_verdicts_and_differences(folder: Path) -> None:
    code, text = run(
        folder, "backtest", "rules.jsonl", "events.jsonl", "--time", "at", "--against", "old.jsonl", "--json"
    )
    assert code == 0
    report = json.loads(text)
    rules = {rule.pop("id"): rule for rule in report["rules"]}
    assert {id: rule["fired"] for id, rule in rules.items()} == {"wide": 3, "narrow": 1, "present": 5, "silent": 0}
    assert rules["wide"]["days"] == {"2026-01-01": 2, "2026-01-02": 1}
    assert (report["events"], report["never"], report["always"]) == (5, ["silent"], ["present"])
    assert report["redundant"]["narrow"]["why"] == "covered"
    assert set(report["redundant"]) == {"narrow", "wide", "silent"}
    assert report["difference"] == {
        "added": ["narrow", "silent"],
        "removed": ["gone"],
        "changed": {"wide": {"gained": 1, "lost": 0}},
    }


def test_junit_and_exit_codes(folder: Path) -> None:
    options = ("backtest", "rules.jsonl", "events.jsonl", "--junit", "report.xml")
    assert run(folder, *options)[0] == 0
    assert run(folder, *options, "--fail-on", "never")[0] == 1
    suite = ElementTree.parse(folder / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["silent"]


def test_sigma_rules_are_imported_and_run(folder: Path) -> None:
    code, text = run(folder, "import", "sigma", "rule.yml")
    assert code == 0
    record = json.loads(text)
    assert record["id"] == "5f1c0b1e-6f0e-4c7e-9a55-0d6b2f6f7f10"
    assert record["metadata"]["title"] == "A user is added"
    code, text = run(folder, "backtest", "rule.yml", "events.jsonl", "--json")
    assert (code, [rule["fired"] for rule in json.loads(text)["rules"]]) == (0, [1])


def test_a_refused_rule_is_named_and_the_exit_code_says_so(folder: Path) -> None:
    (folder / "bad.yml").write_text("title: State\ncorrelation: {type: event_count}\n")
    done = CliRunner().invoke(app, ["import", "sigma", str(folder / "bad.yml"), str(folder / "rule.yml")])
    assert done.exit_code == 1
    assert "rule 'State': a correlation rule keeps state between events" in " ".join(done.stderr.split())
    assert len(done.stdout.splitlines()) == 1


def test_a_picture(folder: Path) -> None:
    run(folder, "backtest", "rules.jsonl", "events.jsonl", "--time", "at", "--picture", "days.svg")
    assert "<svg" in (folder / "days.svg").read_text()


MIXED = """
title: A process
id: process
logsource: {product: windows}
detection:
    selection: {EventID: 4688, Elevated: 'true', Size|lt: 10}
    condition: selection
---
title: Inside of objects
id: inside
logsource: {product: aws}
detection:
    selection: {request.items.cidr: 0.0.0.0/0, request|contains: '22'}
    filter: {error.code: '*'}
    condition: selection and not filter
---
title: A word
id: word
logsource: {product: linux}
detection:
    keywords: [mimikatz]
    condition: keywords
---
title: Many hashes
id: hashes
logsource: {product: windows}
detection:
    selection: {Hashes|contains: [HASHES]}
    condition: selection
"""

#: Events as loggers write them, and the rules that fire.
EVENTS: list[tuple[dict[str, object], set[str]]] = [
    ({"EventID": 4688, "Elevated": True, "Size": 9.5, "other": 1}, {"process"}),
    ({"EventID": "4688", "Elevated": "TRUE", "Size": "9", "other": "x"}, {"process"}),
    ({"EventID": 4688.0, "Elevated": "%%1936", "Size": 3, "other": [1]}, set()),
    ({"EventID": None, "Elevated": {"a": True}, "Size": [[]], "line": "a MimiKatz b"}, {"word"}),
    ({"request": {"items": [{"cidr": "0.0.0.0/0"}], "port": 22}, "error": {}}, {"inside"}),
    ({"request": {"items": [{"cidr": "0.0.0.0/0"}], "port": 22}, "error": {"code": 5}}, set()),
    ({"request": {"items": [], "port": 22}, "error": None}, set()),
    ({"request": "22", "error": "none"}, set()),
    ({"Hashes": "MD5=00000001,MD5=00000899,MD5=00000450"}, {"hashes"}),
    ({"Hashes": ["MD5=00000001", 5]}, {"hashes"}),
    ({}, set()),
]


@pytest.mark.parametrize("with_schema", [False, True])
def test_rules_of_sigma_take_events_as_loggers_write_them(tmp_path: Path, with_schema: bool) -> None:
    hashes = ", ".join(f"MD5={number:08}" for number in range(900))
    (tmp_path / "rules.yml").write_text(MIXED.replace("HASHES", hashes))
    (tmp_path / "events.jsonl").write_text("\n".join(json.dumps(event) for event, _ in EVENTS))
    code, _ = run(tmp_path, "import", "sigma", "rules.yml", "--out", "rules.jsonl", "--schema", "schema.json")
    assert code == 0
    assert len((tmp_path / "rules.jsonl").read_text().splitlines()) > 4  # the hashes are several subscriptions
    declared = ("--schema", "schema.json") if with_schema else ()
    code, text = run(tmp_path, "match", "rules.jsonl", "events.jsonl", *declared)
    assert code == 0
    fired: list[set[str]] = [set() for _ in EVENTS]
    for pair in map(json.loads, text.splitlines()):
        fired[pair["event"]].add(pair["subscription"].partition(" (part ")[0])
    assert fired == [rules for _, rules in EVENTS]
    for rules in ("rules.jsonl", "rules.yml"):
        code, text = run(tmp_path, "backtest", rules, "events.jsonl", *declared, "--json", "--no-redundancy")
        report = json.loads(text)
        counted = {rule["id"]: (rule["title"], rule["fired"]) for rule in report["rules"]}
        assert (code, counted) == (
            0,
            {
                "process": ("A process", 2),
                "inside": ("Inside of objects", 1),
                "word": ("A word", 1),
                "hashes": ("Many hashes", 2),
            },
        )


def test_a_rule_in_parts_is_redundant_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    rules = [
        ("long (part 1)", "line ILIKE '%abc%'", {"rule": "long", "title": "Long (part 1 of 2)"}),
        ("long (part 2)", "line ILIKE '%xyz%'", {"rule": "long", "title": "Long (part 2 of 2)"}),
        ("other (part 1)", "line ILIKE '%abcd%'", {"rule": "other"}),
        ("other (part 2)", "line ILIKE '%wxyz%'", {"rule": "other"}),
        ("mixed (part 1)", "line ILIKE '%abcde%'", {"rule": "mixed"}),
        ("mixed (part 2)", "line ILIKE '%nothing else%'", {"rule": "mixed"}),
    ]
    lines = [json.dumps({"id": id, "filter": text, "metadata": about}) for id, text, about in rules]
    (tmp_path / "rules.jsonl").write_text("\n".join(lines))
    events = [json.dumps({"line": line}) for line in ("abcd wxyz", "abc", "q")]
    (tmp_path / "events.jsonl").write_text("\n".join(events))
    report = json.loads(run(tmp_path, "backtest", "rules.jsonl", "events.jsonl", "--json")[1])
    assert {rule["id"]: rule["fired"] for rule in report["rules"]} == {"long": 2, "other": 1, "mixed": 0}
    assert report["rules"][0]["title"] == "Long"
    assert report["redundant"] == {"other": {"why": "covered", "by": ["long"]}}


EITHER = " AND ".join(f"(x{i} ILIKE '%aa%' OR x{i} NOT ILIKE '%aa%')" for i in range(12))
SOME = " AND ".join(f"(x{i} ILIKE '%ab%' OR x{i} NOT ILIKE '%b%')" for i in range(12))


def test_rules_whose_redundancy_was_not_decided_are_named(folder: Path) -> None:
    rules = {"wide": f"line ILIKE '%n%' AND {EITHER}", "narrow": f"line ILIKE '%net%' AND {SOME}", "apart": "z = 1"}
    (folder / "long.jsonl").write_text("\n".join(json.dumps({"id": id, "filter": rules[id]}) for id in rules))
    options = ("backtest", "long.jsonl", "events.jsonl")
    code, text = run(folder, *options, "--json", "--junit", "report.xml", "--fail-on", "undecided")
    report = json.loads(text)
    assert (code, report["undecided"], report["redundant"]) == (1, ["narrow"], {})
    words = {rule["id"]: rule.get("undecided") for rule in report["rules"]}
    assert words == {
        "wide": None,
        "narrow": "others may make it redundant; the proof ran out of its budget",
        "apart": None,
    }
    suite = ElementTree.parse(folder / "report.xml").getroot()
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["narrow"]
    assert "redundant: 0, not decided: 1" in run(folder, *options)[1]
    code, text = run(folder, *options, "--no-redundancy", "--json")
    assert json.loads(text)["undecided"] is None
    assert "redundant" not in run(folder, *options, "--no-redundancy")[1]


WRONG_CALLS = {
    "backtest rules.jsonl events.jsonl --fail-on changed": "needs the older rules: --against OLD_RULES",
    "backtest rules.jsonl events.jsonl --fail-on redundant --no-redundancy": "needs the proofs that --no-redundancy",
    "backtest rules.jsonl events.jsonl --junit absent/report.xml": "report.xml: there is no folder",
    "backtest rules.jsonl events.jsonl --picture absent/days.svg": "days.svg: there is no folder",
    "backtest rules.jsonl events.jsonl --namespace other": "'other'; there are rules in: default",
    "backtest ./absent/ events.jsonl": "absent/: there is no such folder",
    "backtest bad.yml events.jsonl": "bad.yml: none of its rules can be run; the reasons are above",
    "import sigma rule.yml --out absent/rules.jsonl": "there is no folder",
    "import sigma rules.jsonl": "rules.jsonl, rule 'rules': not YAML",
}


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_wrong_calls_say_what_to_do(call: str, folder: Path) -> None:
    (folder / "bad.yml").write_text(SIGMA.replace("selection and not filter", "other"))
    arguments = [str(folder / word) + "/" * word.endswith("/") if "." in word else word for word in call.split()]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == (1 if call.endswith("sigma rules.jsonl") else 2)
    words = "".join(done.stderr.replace("│", "").split())
    assert "".join(WRONG_CALLS[call].split()) in words, done.stderr


def test_firings_without_a_day_are_counted(folder: Path) -> None:
    options = [str(folder / "rules.jsonl"), str(folder / "events.jsonl"), "--time"]
    done = CliRunner().invoke(app, ["backtest", *options, "line"])
    assert done.exit_code == 0
    assert "9 of 9 firings have no day: 'line' is missing there, or no time such as 2026-01-31T12:00:00Z" in " ".join(
        done.stderr.split()
    )
    assert "have no day" not in CliRunner().invoke(app, ["backtest", *options, "at"]).stderr
