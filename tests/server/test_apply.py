"""`tamis apply`: a broker and a snapshot become what files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import tamis
from tamis.cli.main import app
from tests.server.processes import BrokerProcess, ask


def apply(*arguments: str) -> tuple[int, Any]:
    """Return the exit code of the command, and what it printed."""
    done = CliRunner().invoke(app, ["apply", *arguments, "--json"])
    return done.exit_code, json.loads(done.stdout) if done.exit_code < 2 else done.stderr


def kinds_of(report: Any) -> dict[str, str]:
    return {rule["id"]: rule["what"] for rule in report["rules"]}


def test_a_broker_becomes_what_files_say(broker: BrokerProcess, tmp_path: Path) -> None:
    url, rules = ("--url", broker.url), tmp_path / "rules"
    rules.mkdir()
    (rules / "strong.cql2").write_text("force >= 5")
    (rules / "more.jsonl").write_text('{"id": "weak", "filter": "force < 2", "expires": "2100-01-01T00:00:00Z"}')
    ask(f"{broker.url}/v1/events", "POST", [{"force": 5.5}, {"force": 1}, {"force": 7}])
    ask(f"{broker.url}/v1/subscriptions", "POST", {"id": "by-hand", "filter": "force = 0"})

    code, report = apply(str(rules), *url, "--dry-run")
    assert (code, kinds_of(report), report["applied"]) == (1, {"strong": "added", "weak": "added"}, False)
    assert {rule["id"]: rule["fired"] for rule in report["rules"]} == {"strong": 2, "weak": 1}
    assert ask(f"{broker.url}/v1/subscriptions/strong").status == 404

    assert apply(str(rules), *url)[0] == 0
    assert apply(str(rules), *url, "--dry-run") == (
        0,
        {"added": 0, "changed": 0, "removed": 0, "same": 2, "examined": None, "applied": False, "rules": []},
    )
    ask(f"{broker.url}/v1/events", "POST", {"force": 6})
    (rules / "strong.cql2").write_text("force >= 7")
    (rules / "more.jsonl").unlink()
    code, report = apply(str(rules), *url)
    assert (code, kinds_of(report)) == (0, {"strong": "changed", "weak": "removed"})
    assert [(rule["fired_before"], rule["fired"]) for rule in report["rules"]] == [(3, 1), (1, None)]
    assert ask(f"{broker.url}/v1/subscriptions/strong").json["filter"] == "force >= 7"
    waiting = ask(f"{broker.url}/v1/subscriptions/strong/log").json["messages"]
    assert [message["event"]["force"] for message in waiting] == [6]  # changed in place: what waited is there
    assert ask(f"{broker.url}/v1/subscriptions/weak").status == 404
    assert ask(f"{broker.url}/v1/subscriptions/by-hand").status == 200  # of no set


def test_options_of_rules_reach_the_broker(broker: BrokerProcess, tmp_path: Path) -> None:
    url, file = ("--url", broker.url), tmp_path / "rules.jsonl"
    rule = {"id": "narrow", "filter": "loud > 1"}
    ask(f"{broker.url}/v1/events", "POST", {"loud": 0, "place": "here"})

    def write(**options: Any) -> None:
        file.write_text(json.dumps(rule | options))

    def options() -> list[Any]:
        shown = ask(f"{broker.url}/v1/subscriptions/narrow").json
        return [shown[name] for name in ("durable", "fields", "max_deliveries")]

    write(fields=["loud"], max_deliveries=4)
    assert apply(str(file), *url, "--set", "o")[0] == 0
    assert options() == [True, ["loud"], 4]
    assert apply(str(file), *url, "--set", "o", "--dry-run")[1]["same"] == 1
    write(durable=False)
    code, report = apply(str(file), *url, "--set", "o")
    assert (code, kinds_of(report)) == (0, {"narrow": "changed"})
    assert report["rules"][0]["options"] == {
        "durable": [True, False],
        "fields": [["loud"], []],
        "max_deliveries": [4, 0],
    }
    assert options() == [False, None, 0]
    write(max_deliveries=5_000)
    ask(f"{broker.url}/v1/subscriptions/narrow", "DELETE")
    code, problem = apply(str(file), *url, "--set", "o")
    assert (code, "rules.jsonl, line 1: rule 'narrow': " in problem, "max_deliveries" in problem) == (2, True, True)


def test_what_belongs_to_others_is_not_touched(broker: BrokerProcess, tmp_path: Path) -> None:
    url, file = ("--url", broker.url), tmp_path / "taken.cql2"
    file.write_text("taken > 1")
    ask(f"{broker.url}/v1/subscriptions", "POST", {"id": "taken", "filter": "taken > 0"})
    code, problem = apply(str(file), *url, "--set", "a")
    assert (code, "belongs to no set" in problem) == (2, True)
    assert apply(str(file), *url, "--set", "a", "--adopt")[0] == 0
    assert ask(f"{broker.url}/v1/subscriptions/taken").json["filter"] == "taken > 1"
    code, problem = apply(str(file), *url, "--set", "b", "--adopt")
    assert (code, "belongs to the set 'a'" in problem) == (2, True)


def test_a_rule_that_the_broker_refuses_is_named_and_nothing_changes(broker: BrokerProcess, tmp_path: Path) -> None:
    ask(f"{broker.url}/v1/events", "POST", {"refused": 1})
    (tmp_path / "good.cql2").write_text("refused > 0")
    (tmp_path / "odd.cql2").write_text("refused = 'text'")
    code, problem = apply(str(tmp_path), "--url", broker.url)
    assert (code, "odd.cql2" in problem, "refused" in problem) == (2, True, True)
    assert ask(f"{broker.url}/v1/subscriptions/good").status == 404


def test_a_snapshot_becomes_what_files_say(tmp_path: Path) -> None:
    directory, rules, events = tmp_path / "snapshot", tmp_path / "rules.jsonl", tmp_path / "events.jsonl"
    engine = tamis.Engine()
    engine.subscribe("mag >= 1", id="by-hand")
    engine.save(directory)
    rules.write_text('{"id": "strong", "filter": "mag >= 5"}\n{"id": "weak", "filter": "mag < 2"}')
    events.write_text('{"mag": 1}\n{"mag": 5}\n{"mag": 6}\n')
    options = ("--snapshot", str(directory), "--events", str(events))
    code, report = apply(str(rules), *options, "--dry-run")
    assert (code, {rule["id"]: rule["fired"] for rule in report["rules"]}) == (1, {"strong": 2, "weak": 1})
    assert apply(str(rules), *options)[0] == 0
    rules.write_text('{"id": "strong", "filter": "mag >= 6", "max_deliveries": 3}')  # a snapshot delivers nothing
    code, report = apply(str(rules), *options)
    assert [(rule["what"], rule["fired_before"], rule["fired"]) for rule in report["rules"]] == [
        ("changed", 2, 1),
        ("removed", 1, None),
    ]
    saved = {subscription.id: subscription.text for subscription in tamis.Engine.load(directory)}
    assert saved == {"by-hand": "mag >= 1", "strong": "mag >= 6"}
    code, report = apply(str(rules), *options, "--dry-run")
    assert (code, report["same"]) == (0, 1)


SIGMA = """
title: A process starts
id: process
logsource: {product: windows}
detection:
    selection: {EventID: 4688, Signed: 'true'}
    condition: selection
---
title: Open to the world
id: open
logsource: {product: aws}
detection:
    selection: {request.items.cidr: 0.0.0.0/0, request|contains: tcp}
    filter: {errorCode: '*'}
    condition: selection and not filter
"""


def test_rules_of_sigma_take_events_as_loggers_write_them(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(SIGMA)
    code, report = apply(str(tmp_path), "--url", broker.url, "--set", "sigma")
    assert code == 0, report
    request = {"items": [{"cidr": "0.0.0.0/0", "protocol": "tcp"}], "ports": [22, 80]}
    events = [
        {"EventID": 4688, "Signed": True},
        {"EventID": "4688", "Signed": "True"},
        {"EventID": [4688], "Signed": None},
        {"EventID": {"value": 4688}, "Signed": 1},
        {"request": request, "errorCode": None},
        {"request": request, "errorCode": 5},
        {"request": "tcp"},
    ]
    assert ask(f"{broker.url}/v1/events", "POST", events).json["accepted"] == len(events)

    def waiting(id: str) -> list[Any]:
        return [message["event"] for message in ask(f"{broker.url}/v1/subscriptions/{id}/log").json["messages"]]

    assert waiting("process") == events[:2]
    assert waiting("open") == [{"request": request}]
