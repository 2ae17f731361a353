"""A bug as a change of the source: one text in one module becomes another, and named tests must fail for it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path("src")


@dataclass(frozen=True)
class Bug:
    """One wrong decision.

    Attributes
    ----------
    name
        Says what the code does wrong; no two bugs share one.
    module
        The module it is planted in, as documents write it: a path below ``src/tamis`` or ``src``, without suffix.
    says
        The wrong decision in one sentence.
    before, after
        The text of the source, which stands there exactly once, and what replaces it.
    tests
        What pytest is given, one argument each: ``path::test`` or ``path::Class::test`` of ordinary tests, of which at
        least one must fail. The cheapest that do.
    costly
        Whether the tests start processes or compile large kernels: never in the sample of `make test`.
    """

    name: str
    module: str
    says: str
    before: str
    after: str
    tests: tuple[str, ...]
    costly: bool = False
    subsystem: str = ""


def source_of(bug: Bug, root: Path = ROOT) -> Path:
    """Return the file that a bug changes, relative to ``root``: the only place that knows where modules are.

    When the module has moved, it is the only file with this text.
    """
    for named in (SOURCE / "tamis" / f"{bug.module}.py", SOURCE / f"{bug.module}.py"):
        if (root / named).is_file():
            return named
    paths = [path for path in (root / SOURCE).rglob("*.py") if bug.before in path.read_text(encoding="utf-8")]
    if len(paths) != 1:
        raise LookupError(f"{bug.name}: there is no {bug.module}.py, and {len(paths)} files below src have its text")
    return paths[0].relative_to(root)


def planted_source(bug: Bug, root: Path = ROOT) -> tuple[Path, str]:
    """Return the file that a bug changes and its text with the bug in it."""
    path = source_of(bug, root)
    text = (root / path).read_text(encoding="utf-8")
    if text.count(bug.before) != 1:
        raise LookupError(f"{bug.name}: {path} has its text {text.count(bug.before)} times, not once: {bug.before!r}")
    changed = text.replace(bug.before, bug.after)
    if ast.dump(ast.parse(changed)) == _dump(text):
        raise LookupError(f"{bug.name}: changes nothing in {path}")
    return path, changed


@lru_cache
def _dump(text: str) -> str:
    return ast.dump(ast.parse(text))


@lru_cache
def _statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def missing_tests(bug: Bug, root: Path = ROOT) -> list[str]:
    """Return those of a bug's tests that do not exist, without importing them."""
    return [node for node in bug.tests if not _exists(node, root)]


def _exists(node: str, root: Path) -> bool:
    path, *names = node.split("[")[0].split("::")
    if not (root / path).is_file() or not names:
        return False
    body = _statements((root / path).read_text(encoding="utf-8"))
    for name in names:
        inner = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
        if not inner:
            return False
        body = inner[0].body
    return True
