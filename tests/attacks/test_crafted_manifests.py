"""Attack: a manifest in an object store whose digests are paths, whose objects are endless, or that names itself.

The cache keeps a file under the digest of its contents. A digest that was a path linked a file of this machine into the
version, without a look at it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.engine.snapshot import cache, local_copy
from tamis.engine.snapshot.cache import fetch_version
from tamis.engine.snapshot.manifest import MANIFEST, File, Manifest, Part, parse_manifest
from tamis.engine.snapshot.object_store import CloudStore
from tamis.engine.snapshot.remote import remote_newest
from tamis.errors import SnapshotError

GOOD = b"summary"
DIGEST = hashlib.sha256(GOOD).hexdigest()


class Bucket(CloudStore):
    """Objects of an attacker, in memory."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.uri = "s3://evil/rules"
        self.objects = objects
        self.sent = 0
        self._api = self

    def read(self, name: str, most: int) -> bytes | None:
        return self.objects.get(name)

    def exists(self, name: str) -> bool:
        return self.objects.get("all") is not None or name in self.objects

    _store = None

    def get(self, store: object, name: str) -> Any:
        return self

    def stream(self, min_chunk_size: int) -> Any:
        for _ in range(1_000):
            self.sent += 1
            yield b"x" * 1_000

    def _checked(self, name: str, request: Any) -> Any:
        return request()


def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, beside: dict[str, File], **objects: Any) -> Bucket:
    manifest = Manifest({"attributes": {}}, True, "packed", 1, [], beside=beside, home="parts-" + "0" * 32)
    store = Bucket({f"v000001/{MANIFEST}": manifest.to_bytes(), **objects})
    monkeypatch.setattr(cache, "open_store", lambda uri: store)
    monkeypatch.setattr("tamis.engine.snapshot.remote.open_store", lambda uri: store)
    monkeypatch.setenv("TAMIS_SNAPSHOT_CACHE", str(tmp_path / "cache"))
    return store


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a digest that is a path", {"summary": File(6, 0, "../../secret")}),
        ("a digest that is an absolute path", {"summary": File(6, 0, "/etc/hostname")}),
        ("a digest in capitals", {"summary": File(6, 0, DIGEST.upper())}),
        ("bytes below zero", {"summary": File(-1, 0, DIGEST)}),
        ("a manifest beside the manifest", {MANIFEST: File(7, 0, DIGEST)}),
        ("a path", {"../summary": File(7, 0, DIGEST)}),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(
    name: str, file: dict[str, File], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    bucket(monkeypatch, tmp_path, file)
    with pytest.raises(SnapshotError, match="cannot be a file|outside the version"):
        fetch_version("s3://evil/rules/v000001")
    assert not list(tmp_path.rglob("summary"))


def test_an_object_without_an_end_is_fetched_as_far_as_the_manifest_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bucket(monkeypatch, tmp_path, {"summary": File(2_500, 0, DIGEST)})
    with pytest.raises(SnapshotError, match="torn: more than the 2500 bytes"):
        fetch_version("s3://evil/rules/v000001")
    assert store.sent == 3
    assert not list((tmp_path / "cache" / "objects").iterdir())


def test_a_store_in_which_every_object_exists_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket(monkeypatch, tmp_path, {}, all=True, newest=b"9" * 40)
    with pytest.raises(SnapshotError, match="of every object that it exists"):
        remote_newest("s3://evil/rules")


def test_the_copy_of_another_machines_version_has_no_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to /dev/zero in the directory was copied without an end."""
    engine = tamis.Engine()
    engine.subscribe("price < 10", id="a")
    version = Path(engine.save(tmp_path / "rules"))
    os.symlink("/dev/zero", version / "more")
    os.mkfifo(version / "pipe")
    monkeypatch.setattr(local_copy.platform, "node", lambda: "elsewhere")
    monkeypatch.setenv("TAMIS_SNAPSHOT_CACHE", str(tmp_path / "cache"))
    copy = local_copy.local_version(version)
    assert copy != version
    assert {path.name for path in copy.iterdir()} == {path.name for path in version.iterdir()} - {"more", "pipe"}
    assert tamis.Engine.load(copy).match({"price": 5}) == ["a"]
    (version / "0.subscriptions.arrow").unlink()
    os.symlink("/dev/zero", version / "0.subscriptions.arrow")
    (copy / MANIFEST).unlink()
    os.rename(copy.parent, tmp_path / "old")
    with pytest.raises(SnapshotError, match="a file outside the version"):
        local_copy.local_version(version)


def test_a_cache_below_a_directory_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "cache").mkdir(mode=0o700)
    shared.chmod(0o777)  # without the sticky bit another user can put another directory in its place
    monkeypatch.setenv("TAMIS_SNAPSHOT_CACHE", str(shared / "cache"))
    with pytest.raises(SnapshotError, match="at every level"):
        local_copy.cache_directory()
    shared.chmod(0o755)
    assert local_copy.cache_directory() == shared / "cache"


def test_parts_are_named_by_their_digests_too() -> None:
    part = Part("default", "0", [(None, 0)], 0, False, "none", {"0.subscriptions.arrow": File(1, 0, "../x")})
    manifest = Manifest({"attributes": {}}, True, "packed", 1, [part])
    with pytest.raises(SnapshotError, match="cannot be a file"):
        parse_manifest("here", manifest.to_bytes())
