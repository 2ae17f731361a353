"""Every form of Sigma that the specification and public rules have: `tests/cases/sigma.yml`, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.files.sigma_rules import SigmaRecords, read_sigma_rules
from tamis.model.language.foreign.sigma_fields import read_fields

yaml = pytest.importorskip("yaml")

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "sigma.yml").read_text(encoding="utf-8"))

FIELDS = """
[placeholders]
lab_hosts = ["lab-1", "lab-2", "bench-*"]
"""


def read(folder: Path, *documents: dict[str, Any]) -> SigmaRecords:
    (folder / "fields.toml").write_text(FIELDS)
    (folder / "rules.yml").write_text(yaml.safe_dump_all(documents, allow_unicode=True), encoding="utf-8")
    return read_sigma_rules([folder / "rules.yml"], read_fields(folder / "fields.toml"))


def rule(detection: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"title": "A rule", "logsource": {"category": "test"}, "detection": detection, **more}


def firing(records: SigmaRecords, event: dict[str, Any]) -> list[str]:
    engine = tamis.Engine()
    for record in records.records:
        engine.subscribe(record.filter, id=record.id)
    return [str(id) for id in engine.match(event)]


@pytest.mark.parametrize("case", CASES, ids=[str(case["detection"])[:60] for case in CASES])
def test_each_form_fires_as_written(case: dict[str, Any], tmp_path: Path) -> None:
    result = read(tmp_path, rule(case["detection"]))
    assert not result.refused
    for event in case["fires"]:
        assert firing(result, event), (event, result.records[0].filter)
    for event in case["silent"]:
        assert not firing(result, event), (event, result.records[0].filter)


def test_there_are_cases_of_every_modifier() -> None:
    from sigma.modifiers import modifier_mapping

    text = repr([case["detection"] for case in CASES])
    refused = {"minute", "hour", "day", "week", "month", "year"}
    spelled_out = {"ignorecase": "i", "multiline": "m", "dotall": "s"}
    missing = [name for name in modifier_mapping if f"|{name}" not in text and name not in {*refused, *spelled_out}]
    assert missing == []


REFUSED = {
    "count": (rule({"s": {"f": "a"}, "condition": "s | count() by g > 5"}), "an aggregation (| count() by g > 5)"),
    "near": (rule({"s": {"f": "a"}, "t": {"g": "b"}, "condition": "s | near t"}), "an aggregation (| near t)"),
    "correlation": ({"title": "c", "correlation": {"type": "event_count"}}, "correlation rule"),
    "filter": ({"title": "c", "filter": {"rules": ["a"]}}, "global filter"),
    "hour": (rule({"s": {"f|hour": 3}, "condition": "s"}), "a part of a timestamp"),
    "no list": (rule({"s": {"f|expand": "%users%"}, "condition": "s"}), "the placeholder %users% has no values"),
    "unknown action": (rule({"s": {"f": "a"}, "condition": "s"}, action="destroy"), "unknown action"),
    "no condition": (rule({"sel": {"f": "a"}}), "has no condition; write one, such as condition: sel"),
    "empty condition": (rule({"sel": {"f": "a"}, "condition": None}), "has no condition; write one"),
    "number as condition": (rule({"s": {"f": "a"}, "condition": 3}), "a condition is text or a list of texts, not 3"),
    "no selection": (rule({"condition": "s"}), "its detection has no selection, only a condition"),
    "empty selection": (rule({"s": None, "condition": "s"}), "a selection, or a value without a field, is empty"),
    "empty list": (rule({"s": [{"f": "a"}, {}], "condition": "s"}), "selection 's' is empty"),
    "empty expression": (rule({"s": {"f|re": None}, "condition": "s"}), "field 'f|re': |re needs a regular expression"),
    "empty text": (
        rule({"s": {"f|contains": ["a", None]}, "condition": "s"}),
        "selection 's', field 'f|contains': |contains needs text, not an empty value",
    ),
    "no network": (
        rule({"s": {"f|cidr": "nonsense"}, "condition": "s"}),
        "selection 's', field 'f|cidr': |cidr needs a network such as 10.0.0.0/8, not 'nonsense'",
    ),
    "no number": (
        rule({"s": [{"g": 1}, {"f|gt": "many"}], "condition": "s"}),
        "selection 's', field 'f|gt': |gt needs a number, not 'many'",
    ),
    "neither true nor false": (rule({"s": {"f|exists": "maybe"}, "condition": "s"}), "|exists needs true or false"),
    "no field": (rule({"s": {"f|fieldref": 3}, "condition": "s"}), "|fieldref needs the name of a field, not 3"),
    "nested": (rule({"s": {"f": {"g": "a"}}, "condition": "s"}), "is written with a dot, as in outer.inner"),
    "two modifiers": (rule({"s": {"f|contains|re": "a"}, "condition": "s"}), "do not go together: contains, re"),
    "far typo": (rule({"s": {"f|zz": "a"}, "condition": "s"}), "Unknown modifier 'zz'; known are all, base64"),
    "part of a time": (rule({"s": {"when|minute": 3}, "condition": "s"}), "attribute 'when': a part of a timestamp"),
    "parenthesis": (rule({"s": {"f|re": "a(b"}, "condition": "s"}), "needs a closing ) for the (: (b at character 2"),
    "a subscription": ({"id": "a", "filter": "x > 1"}, "it has no detection"),
    "typo": (rule({"s": {"f|containz": "a"}, "condition": "s"}), "Unknown modifier 'containz'; did you mean contains?"),
}


def test_rules_without_an_id_that_share_a_title(tmp_path: Path) -> None:
    result = read(tmp_path, rule({"s": {"f": "a"}, "condition": "s"}), rule({"s": {"f": "b"}, "condition": "s"}))
    [refused] = result.refused
    assert refused.reason.startswith("it has no id, and a rule in ")
    assert refused.reason.endswith("has its title (A rule) as the id; give this rule an id")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_refused_by_name(name: str, tmp_path: Path) -> None:
    document, reason = REFUSED[name]
    result = read(tmp_path, document)
    assert not result.records
    assert [reason in refused.reason for refused in result.refused] == [True], result.refused


def test_placeholders_that_are_not_listed_may_have_values_together(tmp_path: Path) -> None:
    (tmp_path / "fields.toml").write_text('[placeholders]\n"*" = ["*"]\nhosts = ["lab-*"]\n')
    detection = {"s": {"User|expand": "%admins%", "Host|expand": "%hosts%"}, "condition": "s"}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rule(detection)))
    result = read_sigma_rules([tmp_path / "rules.yml"], read_fields(tmp_path / "fields.toml"))
    assert [record.filter for record in result.records] == ["CASEI(Host) LIKE CASEI('lab-%') AND User IS NOT NULL"]


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "void.yml").write_text("# nothing\n")
    assert [rule.reason for rule in read_sigma_rules([tmp_path / "void.yml"]).refused] == ["there is no rule in it"]


def test_documents_share_what_a_global_one_says(tmp_path: Path) -> None:
    id, own_id = "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-666666666666"
    documents: list[dict[str, Any]] = [
        {"action": "global", "title": "Shared", "id": id, "level": "high", "detection": {"condition": "s"}},
        {"logsource": {"product": "lab", "service": "one"}, "detection": {"s": {"f": "a"}}},
        {"logsource": {"product": "lab", "service": "two"}, "detection": {"s": {"f": "b"}}},
        {"action": "repeat", "id": own_id, "detection": {"s": {"g": "c"}}},
        {"action": "reset"},
        rule({"s": {"f": "d"}, "condition": "s"}),
    ]
    result = read(tmp_path, *documents)
    assert not result.refused
    assert [record.id for record in result.records] == [id, "Shared (2)", own_id, "A rule"]
    assert [record.metadata.get("level") for record in result.records] == ["high", "high", "high", None]
    assert [record.metadata.get("logsource.service") for record in result.records] == ["one", "two", "two", None]
    assert firing(result, {"f": "a"}) == [id]
    assert sorted(firing(result, {"f": "b", "g": "c"})) == sorted(["Shared (2)", own_id])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[placeholders]\nusers = []", "placeholder 'users': expected a text, a number or a list"),
        ("[placeholders]\nusers = [true]", "placeholder 'users': expected"),
        ("placeholders = 5", "[placeholders] is a table"),
    ],
)
def test_placeholders_of_a_wrong_shape(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "fields.toml").write_text(text)
    with pytest.raises(tamis.TamisError) as error:
        read_fields(tmp_path / "fields.toml")
    assert message in str(error.value)


def test_a_rule_that_is_longer_than_a_filter_becomes_several(tmp_path: Path) -> None:
    hashes = [f"SHA256={number:064x}" for number in range(600)]
    names = [f"name{number}" for number in range(5_000)]
    selections = {"h": {"Hashes|contains": hashes}, "n": {"Name": names}, "f": {"User": "lab"}}
    result = read(
        tmp_path,
        rule({**selections, "condition": "(h or n) and not f"}),
        rule({**selections, "condition": "n"}, title="n"),
    )
    assert not result.refused
    assert result.n_rules == 2
    parts = [record for record in result.records if record.metadata.get("rule") == "A rule"]
    assert len(parts) == len(result.records) - 1 > 1
    assert [record.id for record in parts] == [f"A rule (part {n})" for n in range(1, len(parts) + 1)]
    engine = tamis.Engine()
    for record in parts:
        engine.subscribe(record.filter, id=record.id)
    for value in (hashes[0].upper(), hashes[300], hashes[-1]):
        assert len(engine.match({"Hashes": f"x,{value},y", "User": "eve"})) == 1
        assert not engine.match({"Hashes": value, "User": "LAB"})
    assert engine.match({"Name": "NAME4999"})
    assert not engine.match({"Hashes": "SHA256=1", "Name": "name"})


def test_a_rule_without_a_list_that_could_be_cut_is_refused(tmp_path: Path) -> None:
    filters = [f"\\folder{number:0200}" for number in range(100)]
    result = read(tmp_path, rule({"s": {"f": "a"}, "x": {"g|contains": filters}, "condition": "s and not x"}))
    assert ["characters of filter text" in refused.reason for refused in result.refused] == [True]


@pytest.mark.parametrize(
    "odd",
    [
        {"date": "20220105"},
        {"status": "odd"},
        {"level": 5},
        {"tags": "nodot"},
        {"id": 5},
        {"related": 1},
        {"logsource": 1},
    ],
    ids=str,
)
def test_metadata_of_a_wrong_form_keeps_no_rule_out(odd: dict[str, Any], tmp_path: Path) -> None:
    result = read(tmp_path, rule({"s": {"f": "a"}, "condition": "s"}, **odd))
    assert [record.id for record in result.records] == ["5" if "id" in odd else "A rule"]
