"""What the documents show is run: README's Python, and the explanation it prints; tests/spark runs its Spark."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)


def test_the_python_of_the_readme_runs_and_prints_what_it_says() -> None:
    [code] = [block for block in blocks(ROOT / "README.md", "python") if "tamis.spark" not in block]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    lines = printed.getvalue().splitlines()
    promised = [line.split("# ", 1)[1] for line in code.splitlines() if line.startswith("print(") and "# " in line]
    for line in promised:
        assert line in lines
    [explanation] = blocks(ROOT / "README.md", "text")
    assert explanation in printed.getvalue()
    assert lines[-1].startswith("[{'event': 0, 'subscription': 'alice'}")


def test_the_python_of_the_regions_page_prints_what_it_says() -> None:
    code = "\n".join(blocks(ROOT / "docs" / "regions.md", "python"))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "regions.md", "exec"), {})
    promised = [line.split("  # ", 1)[1] for line in code.splitlines() if line.startswith("print(")]
    assert printed.getvalue().splitlines() == promised
