"""Sigma rules: what each modifier means, what is refused, and random rules against an evaluation written apart."""

from __future__ import annotations

import decimal
import fnmatch
import ipaddress
import operator
import random
import re
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tamis
from tamis.errors import ModelError
from tamis.files.sigma_rules import read_sigma_rules
from tamis.model.language.foreign.sigma_fields import read_fields
from tamis.model.language.foreign.sigma_networks import network_expression
from tamis.model.language.foreign.sigma_numbers import number_expression
from tamis.model.text.regex import regex_machine
from tamis.model.types.value_text import text_of

yaml = pytest.importorskip("yaml")


def rule(detection: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "title": "A rule",
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, repr(detection))),
        "status": "test",
        "level": "high",
        "tags": ["attack.execution", "attack.t1059"],
        "logsource": {"product": "windows", "category": "process_creation"},
        "detection": detection,
        **more,
    }


def imported(folder: Path, *rules: Any, **options: Any) -> Any:
    file = folder / "rules.yml"
    file.write_text("\n---\n".join(rule if isinstance(rule, str) else yaml.safe_dump(rule) for rule in rules))
    return read_sigma_rules([file], **options)


#: A selection, events that it matches, and events that it does not.
MODIFIERS = {
    "equal ignores case": ({"f": "Cmd.exe"}, [{"f": "CMD.EXE"}], [{"f": "xcmd.exe"}, {}, {"g": "cmd.exe"}]),
    "cased": ({"f|cased": "Cmd"}, [{"f": "Cmd"}], [{"f": "cmd"}]),
    "contains": ({"f|contains": "-eNc"}, [{"f": "a -enc b"}], [{"f": "a -en b"}]),
    "contains cased": ({"f|contains|cased": "Enc"}, [{"f": "aEncb"}], [{"f": "aencb"}]),
    "startswith": ({"f|startswith": "C:\\Win"}, [{"f": "c:\\windows"}], [{"f": "d:c:\\win"}]),
    "endswith": ({"f|endswith": "\\cmd.exe"}, [{"f": "C:\\CMD.exe"}], [{"f": "C:\\cmd.exe2"}]),
    "list is any": ({"f|contains": ["ab", "cd"]}, [{"f": "xcd"}], [{"f": "ac"}]),
    "all": ({"f|contains|all": ["ab", "cd"]}, [{"f": "cdab"}], [{"f": "ab"}, {"f": "cd"}]),
    "map is and": ({"f": "a", "g": "b"}, [{"f": "a", "g": "B"}], [{"f": "a"}, {"g": "b"}]),
    "list of maps is or": ([{"f": "a"}, {"g": "b"}], [{"f": "a"}, {"g": "b"}], [{"f": "b", "g": "a"}]),
    "wildcards": ({"f": "a*b?c"}, [{"f": "axxbyc"}, {"f": "abyc"}], [{"f": "abc"}]),
    "escaped wildcards": ({"f": r"a\*b\?"}, [{"f": "a*b?"}], [{"f": "axb?"}, {"f": "a*bx"}]),
    "percent and underscore": ({"f|contains": "5%_"}, [{"f": "15%_"}], [{"f": "15xx"}]),
    "null": ({"f": None}, [{}, {"g": "x"}], [{"f": ""}]),
    "empty": ({"f": ""}, [{"f": ""}], [{"f": "x"}, {}]),
    "anything": ({"f": "*"}, [{"f": ""}, {"f": "x"}], [{}]),
    "exists": ({"f|exists": True}, [{"f": "x"}], [{}]),
    "not exists": ({"f|exists": False}, [{}], [{"f": "x"}]),
    "number": ({"f": 5}, [{"f": 5}], [{"f": 6}, {}]),
    "gt": ({"f|gt": 5}, [{"f": 6}], [{"f": 5}]),
    "gte": ({"f|gte": 5}, [{"f": 5}], [{"f": 4}]),
    "lt": ({"f|lt": 5}, [{"f": 4}], [{"f": 5}]),
    "lte": ({"f|lte": 5}, [{"f": 5}], [{"f": 6}]),
    "boolean": ({"f": True}, [{"f": True}], [{"f": False}, {}]),
    "regular expression": ({"f|re": "a[0-9]+$"}, [{"f": "xa12"}], [{"f": "A12"}, {"f": "a12b"}]),
    "re i": ({"f|re|i": "a[0-9]+"}, [{"f": "xA12"}], [{"f": "b12"}]),
    "re m": ({"f|re|m": "^b$"}, [{"f": "a\nb\nc"}], [{"f": "ab"}]),
    "re s": ({"f|re|s": "a.b"}, [{"f": "a\nb"}], [{"f": "ab"}]),
    "cidr": ({"f|cidr": "172.16.0.0/12"}, [{"f": "172.31.2.3"}], [{"f": "172.32.0.1"}, {"f": "1172.16.0.1"}]),
    "cidr v6": ({"f|cidr": ["::1/128", "fe80::/10"]}, [{"f": "::1"}, {"f": "FE80::5"}], [{"f": "fec0::1"}]),
    "base64": ({"f|base64|contains": "foo"}, [{"f": "xZm9v"}], [{"f": "foo"}]),
    "base64offset": ({"f|base64offset|contains": "http"}, [{"f": "xaHR0c"}, {"f": "odHRwx"}], [{"f": "http"}]),
    "wide": ({"f|wide|base64offset|contains": "ab"}, [{"f": "YQBiA"}], [{"f": "ab"}]),
    "windash": ({"f|windash|contains": " -x"}, [{"f": "a -x"}, {"f": "a /x"}, {"f": "a –x"}], [{"f": "a x"}]),
    "keywords": (["failure", "denied*root"], [{"m": "a FAILURE"}, {"m": "denied to root"}], [{"m": "root denied"}, {}]),
}


@pytest.mark.parametrize("name", MODIFIERS)
@pytest.mark.parametrize("negated", [False, True])
def test_each_modifier_by_hand(name: str, negated: bool, tmp_path: Path) -> None:
    selection, matching, others = MODIFIERS[name]
    condition = {"condition": "not selection" if negated else "selection"}
    result = imported(tmp_path, rule({"selection": selection, **condition}))
    assert not result.refused
    engine = tamis.Engine()
    engine.subscribe(result.records[0].filter, id="rule")
    for event, expected in [*((sample, True) for sample in matching), *((sample, False) for sample in others)]:
        assert bool(engine.match(event)) == (expected != negated), (event, result.records[0].filter)


def test_conditions_join_selections(tmp_path: Path) -> None:
    parts = {"sel_a": {"f": "a"}, "sel_b": {"g": "b"}, "filter_x": {"h": "x"}, "filter_y": {"h": "y"}}
    cases = {
        "1 of sel_*": [({"f": "a"}, True), ({"g": "b"}, True), ({"h": "x"}, False)],
        "all of sel_*": [({"f": "a"}, False), ({"f": "a", "g": "b"}, True)],
        "all of sel_* and not 1 of filter_*": [({"f": "a", "g": "b"}, True), ({"f": "a", "g": "b", "h": "Y"}, False)],
        "1 of them": [({"h": "x"}, True), ({}, False)],
        "sel_a and (sel_b or not filter_x)": [({"f": "a", "h": "x"}, False), ({"f": "a"}, True)],
    }
    for condition, events in cases.items():
        result = imported(tmp_path, rule({**parts, "condition": condition}))
        engine = tamis.Engine()
        engine.subscribe(result.records[0].filter, id="rule")
        assert [bool(engine.match(event)) for event, _ in events] == [expected for _, expected in events], condition


def test_metadata_and_the_log_source(tmp_path: Path) -> None:
    document = rule({"selection": {"f": "a"}, "condition": "selection"})
    record = imported(tmp_path, document).records[0]
    assert record.id == document["id"]
    assert record.metadata == {
        "title": "A rule",
        "status": "test",
        "level": "high",
        "tags": "attack.execution, attack.t1059",
        "logsource.product": "windows",
        "logsource.category": "process_creation",
    }
    condition_record = imported(tmp_path, document, logsource="condition").records[0]
    assert condition_record.filter.startswith(
        "logsource.product = 'windows' AND logsource.category = 'process_creation' AND "
    )
    assert imported(tmp_path, document, logsource="namespace").records[0].namespace == "windows-process_creation"


REFUSED = {
    "correlation": ({"title": "c", "correlation": {"type": "event_count"}}, "correlation rule"),
    "timestamp part": (rule({"s": {"f|hour": 3}, "condition": "s"}), "part of a timestamp"),
    "no rule": ("- a\n- b", "a Sigma rule is a YAML mapping"),
    "not YAML": ("a: [", "not YAML"),
    "aliases": ("a: &x [1]\nb: *x", "YAML aliases"),
    "look-ahead": (rule({"s": {"f|re": "a(?=b)"}, "condition": "s"}), "have no look-ahead (?=...)"),
    "unknown modifier": (rule({"s": {"f|nonsense": "a"}, "condition": "s"}), "not a valid Sigma rule"),
    "unknown selection": (rule({"s": {"f": "a"}, "condition": "t"}), "'t' not defined in detections (selections: s)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_refused_by_name(name: str, tmp_path: Path) -> None:
    document, reason = REFUSED[name]
    result = imported(tmp_path, document)
    assert not result.records
    assert [reason in refusal.reason for refusal in result.refused] == [True], result.refused


def test_one_bad_rule_does_not_keep_the_others_out(tmp_path: Path) -> None:
    good, bad = rule({"s": {"f": "a"}, "condition": "s"}), REFUSED["timestamp part"][0]
    result = imported(tmp_path, bad, good, good)
    assert [record.id for record in result.records] == [good["id"]]
    assert [refusal.reason for refusal in result.refused if "timestamp" not in refusal.reason] == [
        f"the id {good['id']} is that of a rule in {tmp_path / 'rules.yml'}; give one of them another id"
    ]


def test_a_field_is_text_however_rules_write_its_values(tmp_path: Path) -> None:
    rules = [
        rule({"s": {"EventID": value, "Port": port}, "condition": "s"})
        for value, port in ((4688, 22), ("4689", "22*"), (4690.0, "ssh"), (True, 22.5))
    ]
    texts = [record.filter for record in imported(tmp_path, *rules).records]
    assert texts == [
        "CASEI(EventID) = CASEI('4688') AND CASEI(Port) = CASEI('22')",
        "CASEI(EventID) = CASEI('4689') AND CASEI(Port) LIKE CASEI('22%')",
        "CASEI(EventID) = CASEI('4690') AND CASEI(Port) = CASEI('ssh')",
        "CASEI(EventID) = CASEI('true') AND CASEI(Port) = CASEI('22.5')",
    ]


def test_a_file_of_fields(tmp_path: Path) -> None:
    file = tmp_path / "fields.toml"
    file.write_text(
        'keywords = ["message"]\n[fields]\nImage = "process.path"\nUser = ["user", "account"]\n'
        'EventID = {name = "code", type = "string"}\n'
    )
    detection = {"s": {"Image": "a", "User": "b", "EventID": 1}, "k": ["c"], "condition": "s or k"}
    record = imported(tmp_path, rule(detection), fields=read_fields(file)).records[0]
    assert record.filter == (
        "CASEI(code) = CASEI('1') AND CASEI(process.path) = CASEI('a') "
        "AND (CASEI(user) = CASEI('b') OR CASEI(account) = CASEI('b')) OR CASEI(message) LIKE CASEI('%c%')"
    )
    file.write_text('[fields]\nImage = {nam = "x"}\n')
    with pytest.raises(ModelError, match="field 'Image': expected name and type"):
        read_fields(file)


def test_networks_by_their_addresses() -> None:
    rng = random.Random(5)
    for _ in range(300):
        network = ipaddress.ip_network((rng.getrandbits(32), rng.randint(1, 32)), strict=False)
        expression = re.compile(network_expression(network))
        near = [
            network[0],
            network[-1],
            network[0] - 1 if int(network[0]) else network[0],
            ipaddress.ip_address(rng.getrandbits(32)),
        ]
        for address in near:
            assert bool(expression.search(str(address))) == (address in network), (network, address)


def _texts_of(address: ipaddress.IPv6Address) -> list[str]:
    """Return an address as RFC 5952 writes it, in full, without leading zeros, and with its end as an IPv4 address."""
    in_full = address.exploded
    short = ":".join(f"{int(group, 16):x}" for group in in_full.split(":"))
    end = str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    front = ipaddress.IPv6Address(int(address) >> 32 << 32 | 0x10001).compressed.removesuffix("1:1")
    return [address.compressed, address.compressed.upper(), in_full, short, front + end]


def test_networks_of_version_6_by_their_addresses() -> None:
    rng = random.Random(6)
    lengths = (0, 1, 7, 10, 16, 20, 32, 33, 48, 64, 65, 80, 96, 97, 104, 112, 120, 127, 128)
    for _ in range(400):
        groups = [rng.choice([0, 0, 0, 1, 0xDB8, 0xFFFF, rng.getrandbits(16)]) for _ in range(8)]
        whole = int("".join(f"{group:04x}" for group in groups), 16)
        network = ipaddress.IPv6Network((whole, rng.choice(lengths)), strict=False)
        machine = regex_machine(network_expression(network))
        for mask in (-1, 0xFFFF, 0xFF << 64):
            number = int(network.network_address) | rng.getrandbits(128) & int(network.hostmask) & mask
            address = ipaddress.IPv6Address(number ^ (1 << rng.randrange(128)) * (rng.random() < 0.4))
            for text in _texts_of(address):
                assert machine.matches(text) == (address in network), (network, text)
    assert not regex_machine(network_expression(ipaddress.ip_network("::/0"))).matches("10.0.0.1")


def test_a_large_rule_stays_one_filter_and_is_found_by_its_literals(tmp_path: Path) -> None:
    detection: dict[str, Any] = {
        "selection_image": {"Image|endswith": [f"\\tool{i}.exe" for i in range(40)]},
        "selection_line": {"CommandLine|contains": [f"-option{i}" for i in range(200)]},
        "condition": "all of selection_* and not 1 of filter_*",
    }
    for i in range(20):
        detection[f"filter_{i}"] = {"Parent|startswith": f"C:\\Program{i}\\", "User|contains": ["SYSTEM", f"user{i}"]}
    record = imported(tmp_path, rule(detection)).records[0]
    engine = tamis.Engine()
    engine.subscribe(record.filter, id="large")
    for i in range(300):
        engine.subscribe(f"other ILIKE '%word{i}%'", id=i)
    assert [len(subscription.filters) for subscription in engine if subscription.id == "large"] == [1]
    assert engine.statistics()["namespaces"]["default"]["loose"] == 0
    event = {"Image": "C:\\TOOL7.exe", "CommandLine": "x -OPTION150 y", "User": "root"}
    assert engine.match(event) == ["large"]
    assert engine.match({**event, "Parent": "c:\\program3\\x"}) == ["large"]
    assert engine.match({**event, "Parent": "c:\\program3\\x", "User": "the USER3"}) == []
    assert engine.match({**event, "CommandLine": "x"}) == []


FIELDS = ("Image", "CommandLine", "User")
WORDS = ("cmd", "PowerShell", "whoami", "net user", "ß", "Ärger", "a", "", "x*y", "-enc", "\\temp\\")


def random_rule(rng: random.Random) -> dict[str, Any]:
    """Return a rule with selections, filters, and a condition."""

    def item() -> tuple[str, Any]:
        values = [rng.choice(WORDS) for _ in range(rng.randint(1, 4))]
        modifier = rng.choice(("", "|contains", "|startswith", "|endswith", "|contains|all", "|re|i", "|cased"))
        if modifier == "|re|i":
            values = [
                re.escape(value.split("\\")[0]).replace("ß", "s").replace("Ä", "x") + "[a-z]?" for value in values
            ]
        if "all" in modifier and len(values) < 2:
            values = [*values, "e"]
        return rng.choice(FIELDS) + modifier, values if rng.random() < 0.9 else None if not modifier else values

    detection: dict[str, Any] = {
        f"{kind}_{i}": dict([item() for _ in range(rng.randint(1, 2))]) for kind in ("sel", "filter") for i in range(2)
    }
    detection["condition"] = rng.choice(
        ("1 of sel_*", "all of sel_*", "all of sel_* and not 1 of filter_*", "1 of sel_* and not all of filter_*")
    )
    return rule(detection)


def says(detection: dict[str, Any], event: dict[str, str]) -> bool:
    """Evaluate a rule of `random_rule` on an event: two-valued, value by value."""

    def fits(text: str | None, modifiers: list[str], value: str | None) -> bool:
        if value is None or text is None:
            return value is None and text is None
        if "re" in modifiers:
            return re.search(value.casefold(), text.casefold()) is not None
        pattern = value.replace("[", "[[]")
        before, after = "startswith" not in modifiers, "endswith" not in modifiers
        if "contains" in modifiers or not before or not after:
            pattern = ("*" if before else "") + pattern + ("*" if after else "")
        if "cased" in modifiers:
            return fnmatch.fnmatchcase(text, pattern)
        return fnmatch.fnmatchcase(text.casefold(), pattern.casefold())

    def holds(name: str) -> bool:
        for key, values in detection[name].items():
            field, *modifiers = key.split("|")
            answers = [
                fits(event.get(field), modifiers, value) for value in (values if isinstance(values, list) else [values])
            ]
            if not (all(answers) if "all" in modifiers else any(answers)):
                return False
        return True

    sel, fil = ([holds(f"{kind}_{i}") for i in range(2)] for kind in ("sel", "filter"))
    return {
        "1 of sel_*": any(sel),
        "all of sel_*": all(sel),
        "all of sel_* and not 1 of filter_*": all(sel) and not any(fil),
        "1 of sel_* and not all of filter_*": any(sel) and not all(fil),
    }[detection["condition"]]


def check_random_rules(folder: Path, seed: int, n_rules: int, n_events: int) -> None:
    rng = random.Random(seed)
    rules = list({drawn["id"]: drawn for drawn in (random_rule(rng) for _ in range(n_rules))}.values())
    result = imported(folder, *rules)
    assert not result.refused
    engine = tamis.Engine()
    for record in result.records:
        engine.subscribe(record.filter, id=record.id)
    events = [
        {name: "".join(rng.choices((*WORDS, " "), k=rng.randint(0, 4))) for name in FIELDS if rng.random() < 0.8}
        for _ in range(n_events)
    ]
    table = pa.table({name: pa.array([event.get(name) for event in events], pa.string()) for name in FIELDS})
    in_table = engine.match_table(table)
    tabled: list[set[Any]] = [set() for _ in events]
    for event, id in zip(in_table.event.tolist(), in_table.ids.of(in_table.rows), strict=True):
        tabled[event].add(id)
    for i, event in enumerate(events):
        expected = {rule["id"] for rule in rules if says(rule["detection"], event)}
        assert set(engine.match(event)) == expected == tabled[i], event


@pytest.mark.parametrize("seed", range(3))
def test_random_rules_against_an_evaluation_written_apart(seed: int, tmp_path: Path) -> None:
    check_random_rules(tmp_path, seed, 60, 60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_random_sigma_rules(seed: int, tmp_path: Path) -> None:
    check_random_rules(tmp_path, seed, 300, 300)


@pytest.mark.parametrize("seed", range(2))
def test_numbers_in_decimal_text_compare_as_numbers(seed: int) -> None:
    rng = random.Random(seed)
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

    def size() -> str:
        whole = str(rng.choice([0, 1, 9, 10, 19, 80, 99, 100, rng.randint(0, 2000)]))
        return whole + (f".{''.join(rng.choices('0159', k=rng.randint(1, 3)))}" if rng.random() < 0.6 else "")

    for _ in range(2_000):
        op, bound = rng.choice(list(compare)), text_of(decimal.Decimal(rng.choice(["", "-"]) + size()))
        expression = re.compile(number_expression(op, bound))
        for _ in range(4):
            number = rng.choice(["", "-"]) + rng.choice(["", "0", "00"]) + size()
            number = bound if rng.random() < 0.2 else number
            expected = compare[op](decimal.Decimal(number), decimal.Decimal(bound))
            assert bool(expression.search(number)) == expected, (op, bound, number)
        assert expression.search("x") is None
