"""The file that keeps how far a client has read: its contents are on disk before it has its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tamis.node.cursor import Cursor
from tamis.runtime.client.client import _CursorFile


def test_a_cursor_is_flushed_before_it_replaces_the_former_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, deeds = tmp_path / "place", list[tuple[str, str]]()
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle: int) -> None:
        deeds.append(("flush", path.with_name("place.new").read_text()))
        fsync(handle)

    def noted_replace(draft: Path, target: Path) -> None:
        deeds.append(("replace", draft.read_text()))
        replace(draft, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    file = _CursorFile(path)
    file.keep(Cursor(5, 7))
    file.keep(Cursor(5, 7))  # it is stored already
    assert deeds == [("flush", "5-7"), ("replace", "5-7")]
    assert _CursorFile(path).read() == Cursor(5, 7)
