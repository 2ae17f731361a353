"""What the documents show is run: README's Python, and the explanation it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)


def test_the_python_of_the_readme_runs_and_prints_what_it_says() -> None:
    [code] = _blocks(ROOT / "README.md", "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    lines = printed.getvalue().splitlines()
    promised = [line.split("# ", 1)[1] for line in code.splitlines() if line.startswith("print(") and "# " in line]
    for line in promised:
        assert line in lines
    explanation, _ = _blocks(ROOT / "README.md", "text")
    assert explanation in printed.getvalue()
    assert lines[-1].startswith("[{'event': 0, 'subscription': 'alice'}")


def test_the_python_of_the_regions_page_prints_what_it_says() -> None:
    code = "\n".join(_blocks(ROOT / "docs" / "regions.md", "python"))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "regions.md", "exec"), {})
    promised = [line.split("  # ", 1)[1] for line in code.splitlines() if line.startswith("print(")]
    assert printed.getvalue().splitlines() == promised


#: There is nothing to test: JWT and webhooks do not exist, peers of the overlay trust one another.
NOT_BUILT = {"S3", "S9", "S21"}


def _promises() -> list[list[str]]:
    """The rows of the tables of docs/security.md: number, promise, code, tests."""
    lines = (ROOT / "docs" / "security.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| [GS]\d+ \|", line)]


def test_every_promise_has_code_and_tests_that_exist() -> None:
    for number, _, code, tests in _promises():
        for path in re.findall(r"`([\w/]+\.py)`", code):
            assert (ROOT / "src" / "tamis" / path).is_file(), f"{number}: {path}"
        for path, name in re.findall(r"`([\w/]+\.py)::(\w+)`", tests):
            text = (ROOT / "tests" / path).read_text()
            assert re.search(rf"^ *(?:async )?def {name}\(", text, re.MULTILINE), f"{number}: {path}::{name}"
        assert "::" in tests or number in NOT_BUILT, f"{number} has no test"


def test_every_promise_of_delivery_and_of_security_is_in_the_table() -> None:
    numbers = [row[0] for row in _promises()]
    assert numbers == [*(f"G{n}" for n in range(1, 18)), *(f"S{n}" for n in range(1, 25))]
