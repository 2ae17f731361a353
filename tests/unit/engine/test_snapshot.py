"""Saving and loading: same answers, and a damaged or foreign directory is refused untouched."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.errors import SnapshotError


def _engine() -> tamis.Engine:
    engine = tamis.Engine()
    engine.subscribe("price < 100 AND symbol = 'IBM'", id="alice", metadata={"team": "red"})
    engine.subscribe("price IS NULL", id=-5, namespace="other", expires="2999-01-01T00:00:00Z")
    engine.subscribe("S_WITHIN(area, POLYGON((0 0, 4.1 0, 0 4, 0 0)))", id="region")
    engine.subscribe_boxes(["price", "volume"], [[0.1, 5]], [[0.3, float("inf")]])
    return engine


def test_round_trip(tmp_path: Path) -> None:
    before = _engine()
    assert before.save(tmp_path / "saved").name == "v000001"
    after = tamis.Engine.load(tmp_path / "saved")
    assert after.schema == before.schema
    assert [(s.id, s.filters, s.namespace, s.expires, s.metadata) for s in after] == [
        (s.id, s.filters, s.namespace, s.expires, s.metadata) for s in before
    ]
    for event in ({"price": 0.2, "volume": 6}, {"price": 5, "symbol": "IBM"}, {"area": (1, 1)}):
        assert after.match(event) == before.match(event) != []
    assert after.match({}, namespace="other") == [-5]
    assert after.subscribe("price > 1") == before.subscribe("price > 1") == 1


def test_a_learning_engine_goes_on_learning(tmp_path: Path) -> None:
    _engine().save(tmp_path)
    engine = tamis.Engine.load(tmp_path)
    engine.subscribe("brand_new = 'yes'", id="n")
    assert engine.match({"brand_new": "yes"}) == ["n"]


def test_a_closed_schema_stays_closed(tmp_path: Path) -> None:
    tamis.Engine(tamis.Schema({"x": tamis.Number()})).save(tmp_path)
    with pytest.raises(tamis.SubscriptionError, match="'y': unknown"):
        tamis.Engine.load(tmp_path).subscribe("y = 1")


def test_versions_are_added_and_never_changed(tmp_path: Path) -> None:
    engine = _engine()
    first = engine.save(tmp_path)
    kept = {path.name: path.read_bytes() for path in first.iterdir()}
    engine.unsubscribe("alice")
    assert engine.save(tmp_path).name == "v000002"
    assert {path.name: path.read_bytes() for path in first.iterdir()} == kept
    assert "alice" not in tamis.Engine.load(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v000001", "v000002"]


def test_the_newest_version_is_the_one_with_the_greatest_number(tmp_path: Path) -> None:
    """Numbers have six digits until there are more: as text v1000000 would come before v999999."""
    engine = _engine()
    engine.save(tmp_path).rename(tmp_path / "v999999")
    engine.unsubscribe("alice")
    assert engine.save(tmp_path).name == "v1000000"
    assert "alice" not in tamis.Engine.load(tmp_path)
    assert engine.save(tmp_path).name == "v1000001"


def test_a_version_is_synced_before_it_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("tamis.engine.snapshot.versions")  # the package has a function of this name
    done: list[str] = []
    sync, rename = module._sync, os.rename

    def note_sync(path: Path) -> None:
        done.append(path.name)
        sync(path)

    def note_rename(source: Path, target: Path) -> None:
        done.append("published")
        rename(source, target)

    monkeypatch.setattr(module, "_sync", note_sync)
    monkeypatch.setattr(os, "rename", note_rename)
    version = _engine().save(tmp_path)
    moment = done.index("published")
    assert {path.name for path in version.iterdir()} <= set(done[:moment])
    assert tmp_path.name in done[moment:]


def _damage_manifest(version: Path, **changes: object) -> None:
    path = version / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_an_older_or_newer_format_is_refused(tmp_path: Path) -> None:
    version = _engine().save(tmp_path)
    for format in (0, 1, 99, "2", None):
        _damage_manifest(version, format=format, tamis="0.0.1")
        with pytest.raises(SnapshotError, match=r"format .*, written by tamis 0\.0\.1; tamis .* reads format 3"):
            tamis.Engine.load(tmp_path)


def test_a_torn_file(tmp_path: Path) -> None:
    path = _engine().save(tmp_path) / "0.subscriptions.arrow"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(SnapshotError, match="0.subscriptions.arrow: torn"):
        tamis.Engine.load(tmp_path)


def test_a_flipped_bit(tmp_path: Path) -> None:
    path = _engine().save(tmp_path) / "0.subscriptions.arrow"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(SnapshotError, match="damaged: its checksum"):
        tamis.Engine.load(tmp_path)


@pytest.mark.parametrize("content", ["", "not json", "[]", '{"format": 3}', '{"format": 3, "rows": "x"}'])
def test_a_foreign_manifest(tmp_path: Path, content: str) -> None:
    (_engine().save(tmp_path) / "manifest.json").write_text(content)
    with pytest.raises(SnapshotError, match="manifest.json: (not a manifest|format None)"):
        tamis.Engine.load(tmp_path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="there is no such directory"):
        tamis.Engine.load(tmp_path / "nowhere")
    with pytest.raises(SnapshotError, match="there is no saved engine in it"):
        tamis.Engine.load(tmp_path)
    version = _engine().save(tmp_path)
    (version / "0.subscriptions.arrow").unlink()
    with pytest.raises(SnapshotError, match="cannot be read: No such file"):
        tamis.Engine.load(tmp_path)


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SnapshotError, match="there is a file of this name"):
        _engine().save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_unfinished_version_is_ignored(tmp_path: Path) -> None:
    _engine().save(tmp_path)
    (tmp_path / ".building-abc").mkdir()
    assert len(tamis.Engine.load(tmp_path)) == 4


def test_a_flipped_letter_in_the_manifest(tmp_path: Path) -> None:
    path = _engine().save(tmp_path) / "manifest.json"
    path.write_text(path.read_text().replace('"other"', '"otter"'))
    with pytest.raises(SnapshotError, match="manifest.json: damaged"):
        tamis.Engine.load(tmp_path)


def test_json_that_is_longer_as_text_than_text_may_be(tmp_path: Path) -> None:
    parts = [{"op": "=", "args": [{"property": "a"}, i % 3]} for i in range(2900)]
    engine = tamis.Engine()
    engine.subscribe({"op": "or", "args": parts}, id="j")
    explanation = engine.explain({"a": 1}, "j")
    assert explanation.matched
    assert str(explanation).splitlines()[1] == "  a = 0 no: a is 1"
    engine.save(tmp_path)
    assert tamis.Engine.load(tmp_path).match({"a": 1}) == ["j"]


class TestPacked:
    """Engines large enough to be saved as mapped arrays."""

    def engine(self) -> tamis.Engine:
        engine = tamis.Engine()
        engine.subscribe_boxes(
            ["price", "volume"], [[i, -np.inf] for i in range(300)], [[i + 9, i] for i in range(300)]
        )
        for i in range(40):
            engine.subscribe(f"symbol = 's{i}' AND price < {i} OR price > {i} AND name LIKE '%{i}'", id=f"text {i}")
        engine.subscribe("area IS NULL", id="loose")
        engine.subscribe("price <> 5 AND symbol IN ('s1', 's2')", id="short", expires="2999-01-01T00:00:00Z")
        engine.subscribe_boxes(["volume"], [[1]], [[2]], ids=["named box"])
        for id in (7, "text 3"):
            engine.unsubscribe(id)
        return engine

    EVENTS = (
        {"price": 5, "volume": 3},
        {"symbol": "s2", "price": 1},
        {"price": 50, "name": "a12"},
        {"volume": 1.5},
        {},
    )

    def test_round_trip(self, tmp_path: Path) -> None:
        before = self.engine()
        version = before.save(tmp_path)
        assert (version / "0.arrays").exists()
        after = tamis.Engine.load(tmp_path)
        assert len(after) == len(before) == 341
        assert [(s.id, s.filters, s.expires) for s in after] == [(s.id, s.filters, s.expires) for s in before]
        for event in self.EVENTS:
            assert after.match(event) == before.match(event) != []
        assert str(after.explain({"price": 5}, 2)) == str(before.explain({"price": 5}, 2))

    def test_a_loaded_engine_goes_on(self, tmp_path: Path) -> None:
        self.engine().save(tmp_path)
        engine = tamis.Engine.load(tmp_path)
        with pytest.raises(tamis.DuplicateSubscriptionError, match="'text 4' exists"):
            engine.subscribe("price > 1", id="text 4")
        for id in (8, "text 4", "loose", "named box"):
            engine.unsubscribe(id)
        assert engine.subscribe("price = 8", id="text 4") == "text 4"
        assert list(engine.subscribe_boxes(["price"], [[8]], [[8]])) == [300]
        assert {300, "text 4"} <= set(engine.match({"price": 8}))
        assert engine.save(tmp_path).name == "v000002"
        again = tamis.Engine.load(tmp_path)
        assert len(again) == len(engine) == 339
        assert again.match({"price": 8}) == engine.match({"price": 8})

    def test_every_matcher_can_open_it(self, tmp_path: Path) -> None:
        before = self.engine()
        before.save(tmp_path)
        for matcher in ("linear", "counting"):
            after = tamis.Engine.load(tmp_path, matcher=matcher)
            assert [(s.id, s.filters) for s in after] == [(s.id, s.filters) for s in before]
            for event in self.EVENTS:
                assert after.match(event) == before.match(event)

    def test_damage_is_found(self, tmp_path: Path) -> None:
        for file in ("0.arrays", "0.axes.json", "0.subscriptions.arrow"):
            path = self.engine().save(tmp_path) / file
            data = bytearray(path.read_bytes())
            data[len(data) // 3] ^= 4
            path.write_bytes(data)
            with pytest.raises(SnapshotError, match=f"{file}: damaged"):
                tamis.Engine.load(tmp_path)

    def test_two_processes_share_one_file(self, tmp_path: Path) -> None:
        self.engine().save(tmp_path)
        program = "import sys, tamis; print(tamis.Engine.load(sys.argv[1]).match({'price': 5, 'volume': 3}))"
        runs = [subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True) for _ in "ab"]
        want = f"{tamis.Engine.load(tmp_path).match({'price': 5, 'volume': 3})}\n"
        assert [run.stdout for run in runs] == [want, want], runs[0].stderr
