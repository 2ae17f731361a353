"""The page about the command line tells the truth: its console blocks are run, top to bottom, in one folder."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tamis.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cli.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Shell:
    """Runs commands in a folder: plain ``tamis`` ones in this process, which is quick, the others by bash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = 0
        programs = {"tamis": ' -c "from tamis.cli.main import main; main()"', "python": ""}
        (folder / "bin").mkdir()
        for name, arguments in programs.items():
            launcher = folder / "bin" / name
            launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
            launcher.chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "COLUMNS": "80", "NO_COLOR": "1"}

    def run(self, command: str) -> str:
        if command == "echo $?":
            return f"{self.code}\n"
        words = shlex.split(command)
        if words[0] == "tamis" and not {"|", ">"} & set(words):
            done = CliRunner().invoke(app, words[1:], env={"COLUMNS": "80"})
            self.code, shown = done.exit_code, done.output
        else:
            script = ["bash", "-c", f"exec 2>&1\n{command}"]
            ended = subprocess.run(
                script, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True, check=False
            )
            self.code, shown = ended.returncode, ended.stdout
        return "".join(line.rstrip() + "\n" for line in shown.splitlines())


@pytest.mark.skipif(shutil.which("bash") is None, reason="not run: there is no bash on this machine")
def test_the_page_shows_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell, checker = Shell(tmp_path), doctest.OutputChecker()
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 8
    for block in blocks:
        lines = block.splitlines(keepends=True)
        shown = "".join(shell.run(line[2:].strip()) for line in lines if line.startswith("$ "))
        expected = "".join(line for line in lines if not line.startswith("$ "))
        assert checker.check_output(expected, shown, doctest.ELLIPSIS), f"{block}\nshows\n{shown}"
