"""Every record of a broker's disk is on one page, and the page names what exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tamis.errors import ModelError
from tamis.node import records
from tamis.node.effects import Persist
from tamis.node.records import KINDS, Kind, LinkPosition, RecordForm, Stored, find_kind

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "tamis"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("disk_format", ROOT / "scripts" / "disk_format.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_disk_format_is_current(script: ModuleType) -> None:
    page = (ROOT / "docs" / "disk-format.md").read_text(encoding="utf-8")
    assert page == script.page(page), "run: python scripts/disk_format.py"
    assert all(f'`("{name}"' in page for name in KINDS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_owner_and_structs_of_a_kind_exist(kind: Kind[object]) -> None:
    assert re.search(r"\brecords\b", (SOURCE / kind.owner).read_text(encoding="utf-8")), "the owner does not use it"
    for path, name in re.findall(r"`([a-z_/]+\.py)(?:::(\w+))?`", kind.layout.words):
        text = (SOURCE / path).read_text(encoding="utf-8")
        assert not name or f"class {name}" in text


def test_every_kind_of_the_module_is_listed() -> None:
    assert {value.name for value in vars(records).values() if isinstance(value, Kind)} == set(KINDS)


def test_values_come_back() -> None:
    stored = {}
    for change in (
        records.LINK.put("east", value=LinkPosition(7, 1, 2)),
        records.PRODUCER.put("ann", "sensors", value=(41, 17)),
        records.TOKENS.put(value=[("ann", "ab")]),
        records.PAUSED.put("east", value=True),
        records.SCHEMA.put(value=b"{}"),
    ):
        assert change.value is not None
        stored[change.key] = change.value
    assert stored["link", "east"] == b"\x93\x07\x01\x02"
    assert records.LINK.find(stored, "east") == LinkPosition(7, 1, 2)
    assert list(records.PRODUCER.items(stored)) == [(("ann", "sensors"), (41, 17))]
    assert records.TOKENS.find(stored) == [("ann", "ab")]
    assert records.PAUSED.find(stored, "east") is True
    assert records.PAUSED.find(stored, "west") is None
    assert records.SCHEMA.drop().value is None


def test_a_key_of_no_kind_is_refused() -> None:
    assert find_kind(("audit", "1")).form is RecordForm.LOG
    for key in (("mystery",), ("epoch", "more"), ("out", "east")):
        with pytest.raises(ModelError, match="no kind"):
            find_kind(key)


def test_stored_records_are_changed_by_apply_alone() -> None:
    stored = Stored({("number", "east"): b"7"})
    assert stored.keys_of("number") == [("number", "east")]
    for change in (
        lambda: stored.__setitem__(("number", "west"), b"8"),
        lambda: stored.pop(("number", "east")),
        lambda: stored.update({("number", "west"): b"8"}),
        lambda: stored.setdefault(("number", "west"), b"8"),
        lambda: stored.__ior__({("number", "west"): b"8"}),
        stored.clear,
    ):
        with pytest.raises(TypeError, match="by `apply` alone"):
            change()
    stored.apply([Persist(("number", "west"), b"8"), Persist(("number", "east"), None)])
    assert stored.keys_of("number") == [("number", "west")]
    assert stored == {("number", "west"): b"8"}
