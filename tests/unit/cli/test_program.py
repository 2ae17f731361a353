"""The next commands that are printed can be typed as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tamis.cli.screen import program


def test_a_command_on_the_path_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "tamis"
    command.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "tamis"


def test_a_command_beside_the_path_is_called_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.chdir(tmp_path)
    assert program() == ".venv/bin/tamis"
