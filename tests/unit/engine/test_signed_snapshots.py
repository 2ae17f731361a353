"""Signed snapshots: with a key only what its owner wrote is opened; without one nothing changes."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import msgspec
import pytest

import tamis
from tamis.engine.snapshot.manifest import MANIFEST, measure, read_manifest
from tamis.engine.snapshot.signing import KEY_FILE, read_key
from tamis.errors import SnapshotError

KEY, OTHER = b"k" * 32, b"o" * 32


def _engine() -> tamis.Engine:
    engine = tamis.Engine()
    engine.subscribe("price < 100", id="alice")
    engine.subscribe_boxes(["x"], [[0.0]] * 200, [[9.0]] * 200)
    return engine


def _reseal(version: Path, **changes: object) -> None:
    """Compute checksums again as an attacker would who has no key; the envelope takes ``changes``."""
    envelope = json.loads((version / MANIFEST).read_bytes())
    contents = envelope.pop("contents")
    for part in contents["parts"]:
        for name in part["files"]:
            part["files"][name] |= {"bytes": (file := measure(version / name)).bytes, "crc32": file.crc32}
    body = json.dumps(contents).encode()
    head = json.dumps(envelope | {"crc32": zlib.crc32(body)} | changes).encode()
    (version / MANIFEST).write_bytes(head[:-1] + b', "contents": ' + body + b"}")


def test_what_is_signed_opens_with_its_key_and_without(tmp_path: Path) -> None:
    version = _engine().save(tmp_path, key=KEY)
    assert all(file.sha256 for file in read_manifest(version).files())
    for key in (KEY, None):
        assert tamis.Engine.load(tmp_path, key=key).match({"price": 5}) == ["alice"]


def test_another_key_and_no_signature_are_refused(tmp_path: Path) -> None:
    _engine().save(tmp_path / "signed", key=KEY)
    _engine().save(tmp_path / "plain")
    with pytest.raises(SnapshotError, match="not signed with this key, or changed since"):
        tamis.Engine.load(tmp_path / "signed", key=OTHER)
    with pytest.raises(SnapshotError, match="not signed, and a key demands that it is"):
        tamis.Engine.load(tmp_path / "plain", key=KEY)


@pytest.mark.parametrize("name", ["0.subscriptions.arrow", "0.arrays", "0.axes.json"])
def test_a_file_with_a_new_checksum_is_refused(tmp_path: Path, name: str) -> None:
    version = _engine().save(tmp_path, key=KEY)
    data = bytearray((version / name).read_bytes())
    data[len(data) // 2] ^= 1
    (version / name).write_bytes(data)
    _reseal(version)
    with pytest.raises(SnapshotError, match="not signed with this key, or changed since"):
        tamis.Engine.load(tmp_path, key=KEY)


def test_a_file_whose_crc32_is_kept_is_refused(tmp_path: Path) -> None:
    """Four bytes more make any CRC32; only the SHA-256 notices."""
    version = _engine().save(tmp_path, key=KEY)
    envelope = json.loads((version / MANIFEST).read_bytes())
    file = envelope["contents"]["parts"][0]["files"]["0.axes.json"]
    path = version / "0.axes.json"
    path.write_bytes(_with_crc32(b" " * (file["bytes"] - 4), file["crc32"]))
    assert measure(path).crc32 == file["crc32"]
    with pytest.raises(SnapshotError, match=r"0\.axes\.json: changed: its SHA-256"):
        tamis.Engine.load(tmp_path, key=KEY)


def _with_crc32(data: bytes, wanted: int) -> bytes:
    """Return the bytes with four more, so that their CRC32 is the one that is wanted."""
    table = [zlib.crc32(bytes([i])) ^ zlib.crc32(b"\0") ^ 0 for i in range(256)]
    reverse = {entry >> 24: (i, entry) for i, entry in enumerate(table)}
    places, state = [], wanted ^ 0xFFFFFFFF
    for _ in range(4):
        i, entry = reverse[state >> 24]
        places.append(i)
        state = ((state ^ entry) << 8) & 0xFFFFFFFF
    state, more = zlib.crc32(data) ^ 0xFFFFFFFF, b""
    for i in reversed(places):
        more += bytes([(state & 0xFF) ^ i])
        state = (state >> 8) ^ table[i]
    return data + more


def test_the_environment_names_a_key_for_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key_file = tmp_path / "key"
    key_file.write_bytes(KEY + b"\n")
    key_file.chmod(0o600)
    _engine().save(tmp_path / "plain")
    monkeypatch.setenv(KEY_FILE, str(key_file))
    with pytest.raises(SnapshotError, match="not signed, and a key demands"):
        tamis.Engine.load(tmp_path / "plain")
    _engine().save(tmp_path / "signed")
    assert len(tamis.Engine.load(tmp_path / "signed")) == 201
    monkeypatch.delenv(KEY_FILE)
    with pytest.raises(SnapshotError, match="not signed with this key"):
        tamis.Engine.load(tmp_path / "signed", key=OTHER)


def test_a_key_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="a key has 32 to 4,096 bytes"):
        _engine().save(tmp_path / "saved", key=b"short")
    assert not (tmp_path / "saved").exists()
    path = tmp_path / "key"
    path.write_bytes(KEY)
    path.chmod(0o644)
    with pytest.raises(SnapshotError, match="other users can read the key: chmod 600"):
        read_key(path)
    with pytest.raises(SnapshotError, match="the key cannot be read: No such file"):
        read_key(tmp_path / "nowhere")


def test_a_signature_without_digests_is_refused(tmp_path: Path) -> None:
    """A signature of a manifest without the SHA-256 of its files proves nothing about them."""
    version = _engine().save(tmp_path, key=KEY)
    manifest = read_manifest(version)
    (version / MANIFEST).unlink()
    bare = [
        msgspec.structs.replace(
            part, files={name: msgspec.structs.replace(file, sha256=None) for name, file in part.files.items()}
        )
        for part in manifest.parts
    ]
    msgspec.structs.replace(manifest, parts=bare).write(version, KEY)
    with pytest.raises(SnapshotError, match="signed, but not every file has a SHA-256"):
        tamis.Engine.load(tmp_path, key=KEY)
