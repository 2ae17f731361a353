"""Versions that come in parts, build upon others, and are pruned."""

from __future__ import annotations

import gc
import platform
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

import tamis
from tamis.engine import snapshot
from tamis.engine.ids import Ids
from tamis.engine.snapshot import local_copy
from tamis.engine.snapshot.manifest import Part, measure, read_manifest
from tamis.engine.snapshot.parts import write_parts, write_removed
from tamis.errors import SnapshotError
from tamis.model.tables import SubscriptionTable

SCHEMA = tamis.Schema({"x": tamis.Number(), "name": tamis.String()})
STATE = snapshot.EngineState(SCHEMA, False, "packed", 0)


def _engine(first: int, n: int) -> tamis.Engine:
    engine = tamis.Engine(SCHEMA)
    for i in range(first, first + n):
        engine.subscribe(
            f"x >= {i} AND (name = 'a' OR x < {i + 50})", id=f"s{i}", namespace="odd" if i % 5 == 4 else "default"
        )
    return engine


def _write(directory: Path, sizes: list[int], *, kept: list[Part] | None = None, removed: int = 0) -> Path:
    """Write a version with a part per size, after the parts that are kept."""
    with snapshot.building(directory) as place:
        parts = list(kept or ())
        if removed:
            write_removed(place.staging, "gone.removed", np.arange(removed, dtype=np.int32))
            parts[0] = msgspec.structs.replace(
                parts[0], removed={"gone.removed": measure(place.staging / "gone.removed")}
            )
        first = 0
        for number, size in enumerate(sizes):
            for place_of, space in enumerate(_engine(first, size).namespaces()):
                parts += write_parts(place.staging, f"p{number}-{place_of}", space, SCHEMA)
            first += size
        return Path(snapshot.seal(place, STATE, parts))


def _homed(version: Path) -> list[Part]:
    return [msgspec.structs.replace(part, home=part.home or version.name) for part in read_manifest(version).parts]


@pytest.mark.parametrize("sizes", [[300], [200, 100], [3, 290, 7]])
def test_parts_are_one_engine(tmp_path: Path, sizes: list[int]) -> None:
    loaded, whole = tamis.Engine.load(_write(tmp_path, sizes)), _engine(0, 300)
    for matcher in ("packed", "linear"):
        loaded = tamis.Engine.load(tmp_path, matcher=matcher)
        assert len(loaded) == len(whole) == 300
        for event in ({"x": 60}, {"x": 60, "name": "a"}, {"name": "a"}):
            for namespace in ("default", "odd"):
                assert loaded.match(event, namespace=namespace) == whole.match(event, namespace=namespace)
    assert loaded.subscription("s7").text == whole.subscription("s7").text


def test_a_parted_engine_lives_on_and_is_saved(tmp_path: Path) -> None:
    engine = tamis.Engine.load(_write(tmp_path, [200, 100]))
    engine.unsubscribe("s10")
    engine.subscribe("x = 60", id="new")
    engine.subscribe_boxes(["x"], [[59.0]], [[61.0]])
    again = tamis.Engine.load(engine.save(tmp_path))
    assert len(again) == len(engine) == 301
    assert again.match({"x": 60}) == engine.match({"x": 60})
    assert "s10" not in again
    assert {"new", 0} <= set(again.match({"x": 60}))


def test_a_version_that_builds_upon_another(tmp_path: Path) -> None:
    base = _write(tmp_path, [300])
    removed = [subscription.id for subscription in tamis.Engine.load(base) if subscription.namespace == "default"][:20]
    version = _write(tmp_path, [], kept=_homed(base), removed=20)
    engine = tamis.Engine.load(version)
    assert len(engine) == 280
    assert not {subscription.id for subscription in engine} & set(removed)
    assert [path.name for path in version.iterdir() if path.suffix == ".arrays"] == []
    assert tamis.Engine.load(engine.save(tmp_path)).match({"x": 60}) == engine.match({"x": 60})


def test_rows_leave_the_part_that_they_are_in(tmp_path: Path) -> None:
    base = _write(tmp_path, [200, 100])
    kept = [part for part in _homed(base) if part.namespace == "default"]
    second = [f"s{i}" for i in range(200, 300) if i % 5 != 4][:10]
    with snapshot.building(tmp_path) as place:
        write_removed(place.staging, "gone.removed", np.arange(10, dtype=np.int32))
        kept[1] = msgspec.structs.replace(kept[1], removed={"gone.removed": measure(place.staging / "gone.removed")})
        version = Path(snapshot.seal(place, STATE, kept))
    left = {subscription.id for subscription in tamis.Engine.load(version)}
    assert left == {
        subscription.id for subscription in tamis.Engine.load(base) if subscription.namespace == "default"
    } - set(second)


def test_pruning_keeps_what_is_built_upon_and_what_is_read(tmp_path: Path) -> None:
    base = _write(tmp_path, [10])
    upon = _write(tmp_path, [], kept=_homed(base))
    _write(tmp_path, [5])
    reader = tamis.Engine.load(upon)
    assert snapshot.prune(tmp_path, keep=1) == []
    del reader
    gc.collect()
    assert snapshot.prune(tmp_path, keep=1, needed=["v000002"]) == []
    assert snapshot.prune(tmp_path, keep=1) == ["v000001", "v000002"]
    assert len(tamis.Engine.load(tmp_path)) == 5


@pytest.mark.parametrize(
    "change", [{"home": "../v000001"}, {"prefix": "../x"}, {"files": {"/etc/passwd": {"bytes": 1, "crc32": 1}}}]
)
def test_a_manifest_that_leads_out_of_its_directory(tmp_path: Path, change: dict[str, object]) -> None:
    with snapshot.building(tmp_path) as place:
        [part] = write_parts(place.staging, "p", _engine(0, 3).namespaces()[0], SCHEMA)
        part = msgspec.convert({**msgspec.to_builtins(part), **change}, Part)
        snapshot.seal(place, STATE, [part])
    with pytest.raises(SnapshotError, match="is not a version|is a file outside the version"):
        tamis.Engine.load(tmp_path)


def test_ids_as_arrow() -> None:
    ids = Ids()
    ids.append_many(["a", "b"])
    assert ids.to_arrow(np.array([1, 0, 1], np.int32)).to_pylist() == ["b", "a", "b"]
    numbers = Ids()
    numbers.append_range(range(10, 13))
    numbers.append_many([5, 7])
    numbers.append_range(range(20, 22))
    rows = np.array([6, 3, 0, 4, 2], np.int32)
    assert numbers.to_arrow(rows).to_pylist() == [21, 5, 10, 7, 12] == numbers.of(rows)
    ids.append_range(range(3))
    assert ids.to_arrow(np.array([0, 2], np.int32)).to_pylist() == ["a", "0"]
    assert Ids().to_arrow(np.array([], np.int32)).to_pylist() == []


def test_only_parts_from_another_machine_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMIS_SNAPSHOT_CACHE", str(tmp_path / "copies"))
    version = _write(tmp_path / "engine", [30, 20])
    first, *_, last = _homed(version)
    assert local_copy.local_parts(version, [first]) == version == local_copy.local_version(version)
    assert not (tmp_path / "copies").exists()
    monkeypatch.setattr(platform, "node", lambda: "another machine")
    copy = local_copy.local_parts(version, [first])
    assert copy.is_relative_to(tmp_path / "copies")
    copied = {path.name for path in copy.iterdir()}
    assert local_copy.local_parts(version, [last]) == copy
    assert copied < {path.name for path in copy.iterdir()} <= {path.name for path in version.iterdir()}
    assert all((copy / name).read_bytes() == (version / name).read_bytes() for name in copied)
    assert local_copy.local_version(version).is_relative_to(tmp_path / "copies")


@pytest.mark.parametrize("ids", [range(40), [f"s{i}" for i in range(40)], [i if i % 3 else f"s{i}" for i in range(40)]])
@pytest.mark.parametrize("n_removed", [0, 7])
def test_ids_of_a_saved_engine_as_arrow(tmp_path: Path, ids: Sequence[int | str], n_removed: int) -> None:
    """Rows of one part and of several, without gaps and with some, numbers, text and both."""
    engine = tamis.Engine(SCHEMA)
    corners = np.zeros((5, 1)), np.ones((5, 1))
    engine.subscribe_table(SubscriptionTable.from_boxes(["x"], *corners, range(900, 905)))
    for id in ids:
        engine.subscribe("x < 9", id=id)
    for id in ids[:n_removed]:
        engine.unsubscribe(id)
    engine.save(tmp_path)
    loaded = tamis.Engine.load(tmp_path)
    for extra in (7_000, 7_001):
        matches = loaded.match_table({"x": np.array([0.5, 20.0, 5.0])})
        named = matches.ids.of(matches.rows)
        arrow = matches.ids.to_arrow(matches.rows).to_pylist()
        assert arrow == (named if len({type(id) for id in named}) == 1 else [str(id) for id in named])
        assert sorted(map(str, named)) == sorted(map(str, [*range(900, 905), *ids[n_removed:], *ids[n_removed:]]))
        loaded.subscribe("x < 0", id=extra)  # another part behind the saved ones


def test_ids_of_several_saved_parts_as_arrow(tmp_path: Path) -> None:
    """The rows of a later part begin behind those of the parts before it."""
    _write(tmp_path, [5, 5, 5])
    loaded = tamis.Engine.load(tmp_path)
    matches = loaded.match_table({"x": np.array([30.0, 3.0]), "name": ["a", "a"]})
    named = matches.ids.of(matches.rows)
    assert len(named) > 10
    assert matches.ids.to_arrow(matches.rows).to_pylist() == named
