"""Snapshots of formats 1 and 2, written by the code of their time, and what the present code makes of them."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pytest

import tamis
from tamis.engine.migration import migrate_snapshot
from tamis.errors import SnapshotError

OLD = Path(__file__).parent / "old_snapshots"
FORMATS = ["format1", "format2"]


@pytest.mark.parametrize("name", FORMATS)
def test_an_older_format_is_refused_with_the_command_that_converts_it(name: str) -> None:
    with pytest.raises(SnapshotError, match=rf"format {name[-1]}, .*convert it with: tamis migrate .*{name}/v000001"):
        tamis.Engine.load(OLD / name)


@pytest.mark.parametrize("name", FORMATS)
def test_everything_is_kept(tmp_path: Path, name: str) -> None:
    files = {path: path.read_bytes() for path in (OLD / name).rglob("*") if path.is_file()}
    migrate_snapshot(OLD / name, tmp_path)
    assert {path: path.read_bytes() for path in files} == files
    engine = tamis.Engine.load(tmp_path)
    balls = [3, 4] if name == "format2" else []
    assert {subscription.id for subscription in engine} == {"alice", "region", -7, 0, 2, "few", *balls}
    assert engine.subscription("alice").metadata == {"team": "red"}
    assert engine.subscription("region").expires == 32472144000000000
    assert engine.match({"price": 5, "symbol": "IBM"}) == [-7, "alice"]
    assert engine.match({"price": 0.2, "volume": 6}) == [0]
    assert engine.match({"price": 8.5, "volume": 8.5}) == [-7, 2]
    assert engine.match({"area": (1, 1)}) == ["region"]
    assert engine.match({}, namespace="other") == ["few"]
    assert engine.subscribe("price > 1") == (5 if balls else 3)
    if balls:
        assert engine.match({"look": [0.0, 0.5]}) == [3]


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_old_version_is_refused(tmp_path: Path, name: str) -> None:
    shutil.copytree(OLD / name, tmp_path / "old")
    path = tmp_path / "old" / "v000001" / "0.arrays"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(SnapshotError, match=r"0\.arrays: damaged"):
        migrate_snapshot(tmp_path / "old", tmp_path / "new")


def test_text_of_an_earlier_layout_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    """Format 3 had other arrays for text at first; the code of that time wrote the version."""
    with pytest.raises(SnapshotError, match="earlier layout of format 3: convert it with: tamis migrate"):
        tamis.Engine.load(OLD / "format3")
    migrate_snapshot(OLD / "format3", tmp_path)
    engine = tamis.Engine.load(tmp_path)
    assert {subscription.id for subscription in engine} == {*range(150), "alice", "r", 1001, 1002}
    assert engine.subscription("alice").metadata == {"team": "red"}
    assert engine.match({"symbol": "xxabc7yy", "price": 100.0}) == [7]
    assert engine.match({"symbol": "IBM", "price": 2.5}) == [1001, 1002, "alice"]
    assert engine.match({"area": (1, 1)}) == ["r"]


def test_the_layout_before_format_1_is_refused_by_name(tmp_path: Path) -> None:
    """It called itself format 1, too, and had no envelope."""
    version = tmp_path / "old" / "v000001"
    version.mkdir(parents=True)
    state = {"schema": {"attributes": {}}, "learns": True, "matcher": "linear", "next_id": 0}
    file = {"file": "subscriptions.arrow", "rows": 0, "bytes": 0, "sha256": ""}
    (version / "manifest.json").write_text(json.dumps({"format": 1, "tamis": "0.1.0", "state": state, **file}))
    with pytest.raises(SnapshotError, match="layout before format 1 .subscriptions.arrow alone., written by tamis 0.1"):
        migrate_snapshot(tmp_path / "old", tmp_path / "new")


def test_a_hostile_old_version_is_refused(tmp_path: Path) -> None:
    shutil.copytree(OLD / "format1", tmp_path / "old")
    path = tmp_path / "old" / "v000001" / "manifest.json"
    envelope = json.loads(path.read_bytes())
    contents = envelope.pop("contents")
    contents["namespaces"][0]["prefix"] = "../0"
    body = json.dumps(contents).encode()
    head = json.dumps(envelope | {"crc32": zlib.crc32(body)}).encode()
    path.write_bytes(head[:-1] + b', "contents": ' + body + b"}")
    with pytest.raises(SnapshotError, match="is a file outside the version"):
        migrate_snapshot(tmp_path / "old", tmp_path / "new")


def test_the_present_format_and_unknown_ones(tmp_path: Path) -> None:
    engine = tamis.Engine()
    engine.subscribe("x > 1")
    version = engine.save(tmp_path / "now")
    migrate_snapshot(tmp_path / "now", tmp_path / "again")
    assert tamis.Engine.load(tmp_path / "again").match({"x": 2}) == [0]
    with pytest.raises(SnapshotError, match="not signed, and a key demands that it is"):
        migrate_snapshot(tmp_path / "now", tmp_path / "new", b"k" * 32)
    path = version / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 9}))
    with pytest.raises(SnapshotError, match="format 9.*open it with the version of tamis that wrote it"):
        migrate_snapshot(tmp_path / "now", tmp_path / "new")
