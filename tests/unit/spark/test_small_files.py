"""Small files in a directory: whole or absent, and the first writer of a name wins. In a store: `tests/cloud`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tamis.errors import SnapshotError

pytest.importorskip("pyspark")

from tamis.spark.running.small_files import absolute_location, small_files


def test_the_first_writer_wins_until_the_file_is_replaced(tmp_path: Path) -> None:
    log = small_files(tmp_path / "log")
    assert (log.read("a/0"), log.names()) == (None, [])
    assert log.create("a/0", b"first") == b"first"
    assert log.create("a/0", b"second") == b"first"
    log.replace("a/0", b"third")
    log.replace("b", b"")
    assert (log.read("a/0"), log.names()) == (b"third", ["a/0", "b"])
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["0", "b"]


def test_the_remains_of_a_killed_writer_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = small_files(f"file://{tmp_path}")

    def killed(*paths: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", killed)
        with pytest.raises(KeyboardInterrupt):
            log.create("a", b"unfinished")
    assert (log.read("a"), log.names()) == (None, [])
    assert log.create("a", b"whole") == b"whole"


def test_locations_are_made_absolute_and_uris_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location("log") == str(tmp_path / "log")
    assert absolute_location("file:///data/log") == "/data/log"
    assert absolute_location("s3://b/x/") == "s3://b/x"
    with pytest.raises(SnapshotError, match="ftp:// is not a store"):
        absolute_location("ftp://b/x")
    for location in (Path("s3://b/x"), "s3:/b/x", "file:/data"):
        with pytest.raises(SnapshotError, match="a URI has two slashes"):
            small_files(location)
