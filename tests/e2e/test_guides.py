"""The guides tell the truth: their console blocks are run, as those of the page about the command line are."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path

import pytest

from tests.e2e.test_cli_docs import BLOCK, ROOT, Shell


@pytest.mark.skipif(shutil.which("bash") is None, reason="not run: there is no bash on this machine")
@pytest.mark.parametrize("page", ["tutorial.md", "howto.md"])
def test_the_guides_show_what_happens(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell, checker = Shell(tmp_path), doctest.OutputChecker()
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        lines = block.splitlines(keepends=True)
        shown = "".join(shell.run(line[2:].strip()) for line in lines if line.startswith("$ "))
        expected = "".join(line for line in lines if not line.startswith("$ "))
        assert checker.check_output(expected, shown, doctest.ELLIPSIS), f"{block}\nshows\n{shown}"
        assert shell.code == 0 or "import jms" in block
