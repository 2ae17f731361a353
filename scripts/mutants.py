"""Draw small mutations of the code and see whether a test fails for each: `make mutants`.

A mutation flips a comparison, a condition or a Boolean, moves a number by one, or drops a statement. It is made in a
temporary copy of the tree, the tests of its module run there, and the copy is mended again. A mutant that no test fails
for *survived*: the report names the file, the line and the change. Either a test is missing, or the change means
nothing (an optimisation, a limit that may as well be one larger). A test that fails is run again without the mutation:
it must pass then, or the mutant counts as not judged.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNCOPIED = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis")

SERVER = ["http", "access", "audit", "openapi", "pages", "log", "covering_question", "many_subscriptions"]

#: ``{package: (its modules, the tests that concern it, cheap ones first)}``. A test file that is named after the
#: mutated module runs before all others.
AREAS: dict[str, tuple[list[str], list[str]]] = {
    "model": (["model"], ["tests/unit/model", "tests/unit/language", "tests/test_cases.py"]),
    "algebra": (["algebra"], ["tests/unit/algebra", "tests/property/test_algebra_laws.py", "tests/test_cases.py"]),
    "index": (
        ["index"],
        [
            *(f"tests/unit/{folder}" for folder in ("index", "index_balls", "index_mics", "counting")),
            *("tests/unit/index_packed", "tests/contract", "tests/test_cases.py", "tests/papers/test_zcurve.py"),
        ],
    ),
    "engine": (
        ["engine"],
        ["tests/unit/engine", "tests/contract/test_engine_life.py", "tests/unit/index_packed/test_life.py"],
    ),
    "runtime": (
        ["runtime"],
        [
            *("tests/unit/runtime", "tests/unit/routing", "tests/simulation/test_partition.py"),
            *(f"tests/server/test_{name}.py" for name in ("store", "log", "audit", "webhooks", "client", "http")),
        ],
    ),
    "routing": (["routing"], ["tests/unit/routing", "tests/unit/runtime", "tests/simulation/test_partition.py"]),
    "node": (["node"], ["tests/unit/node", "tests/unit/routing", "tests/simulation/test_partition.py"]),
    "store": (
        ["runtime/stores/sqlite_store.py", "runtime/broker/committer.py", "runtime/stores/audit_log.py"],
        ["tests/server/test_store.py", "tests/server/test_log.py", "tests/server/test_audit.py"],
    ),
    "kernels": (["kernels"], ["tests/unit/kernels", "tests/unit/geometry", "tests/unit/index_packed"]),
    "spark": (["spark"], ["tests/unit/spark", "tests/spark/test_match.py", "tests/spark/test_pipeline.py"]),
    "web": (["web"], [f"tests/server/test_{name}.py" for name in SERVER]),
}

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Mutation:
    """The bytes ``start`` to ``end`` of a file become ``after``."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        before, after = (" ".join(text.split())[:70] for text in (self.before, self.after))
        return f"{self.path}:{self.line}  {before}  ->  {after}"

    def applied(self, source: bytes) -> bytes:
        """Return the mutated file."""
        return source[: self.start] + self.after.encode() + source[self.end :]


@functools.cache
def mutations(path: Path, source: str) -> list[Mutation]:
    """Return every mutation of a file."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    results = []
    for node, after in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = source.encode()[start:end].decode()
        results.append(Mutation(path, node.lineno, start, end, before, after))
    return results


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield nodes, each with the text that takes its place."""
    for node in _living(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            other = copy.deepcopy(node)
            other.ops = [FLIPPED[type(node.ops[0])]()]
            yield node, f"({ast.unparse(other)})"
        elif isinstance(node, ast.BoolOp):
            other_op: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, f"({ast.unparse(ast.BoolOp(other_op, node.values))})"
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, str(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield node, str(node.value + 1)
        elif isinstance(node, ast.If | ast.IfExp):
            yield node.test, f"(not ({ast.unparse(node.test)}))"
        elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            yield node, "pass"


def _living(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes whose change can change what the program does: no annotation, no message, no text."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "bases") or isinstance(tree, ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or _is_for_readers(child):
                continue
            yield child
            yield from _living(child)


def _is_for_readers(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__repr__", "__str__")
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def files_of(area: str, root: Path = ROOT) -> list[Path]:
    """Return the files of an area, relative to the root."""
    source = root / "src" / "tamis"
    places = [source / name for name in AREAS[area][0]]
    files = [path for place in places for path in ([place] if place.suffix else sorted(place.rglob("*.py")))]
    return [path.relative_to(root) for path in files if path.exists()]


def draw(areas: Sequence[str], count: int, seed: int) -> list[tuple[str, Mutation]]:
    """Draw mutations, as many of each area as of the others."""
    chance = random.Random(seed)
    by_area = {
        area: [
            mutation
            for path in files_of(area)
            for mutation in mutations(path, (ROOT / path).read_text(encoding="utf-8"))
        ]
        for area in areas
    }
    return [(area, chance.choice(by_area[area])) for area in (areas[i % len(areas)] for i in range(count))]


def stages(area: str, path: Path, root: Path = ROOT) -> list[list[str]]:
    """Return what to run for a file: the tests named after it, then the tests of its area."""
    tests = [test for test in AREAS[area][1] if (root / test).exists()]
    named = [
        str(file.relative_to(root))
        for file in sorted((root / "tests").rglob(f"test_{path.stem}.py"))
        if area == "spark" or "spark" not in file.parts
    ]
    return [stage for stage in (named, tests) if stage]


class Copy:
    """A temporary copy of the tree in which tests run."""

    def __init__(self, place: Path, cpu_seconds: int) -> None:
        self.root = place / "tree"
        self.cpu_seconds = cpu_seconds
        #: Tests that failed without a mutation.
        self.failing_anyway: list[str] = []
        shutil.copytree(ROOT, self.root, ignore=UNCOPIED)

    def failure(self, tests: list[str]) -> str:
        """Run tests until one fails; return its id, ``time`` when they take too long, nothing when all pass."""
        left_out = [f"--deselect={test}" for test in self.failing_anyway]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *left_out, *tests]
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        log = self.root / "mutants.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=out, stderr=out, preexec_fn=self._limit
            )
        try:
            code = process.wait(4 * self.cpu_seconds)
        except subprocess.TimeoutExpired:
            return "time"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", log.read_text(errors="replace"), re.MULTILINE)
        return "" if code in (0, 5) else failed[1] if failed else "time"

    def _limit(self) -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (self.cpu_seconds, self.cpu_seconds))

    def verdict(self, area: str, mutation: Mutation) -> str:
        """Return ``SURVIVED``, or ``killed`` with the test that failed."""
        while True:
            with self._mutated(mutation):
                failed = next(filter(None, map(self.failure, stages(area, mutation.path, self.root))), "")
            if failed in ("", "time"):
                return "killed by the time limit" if failed else "SURVIVED"
            if not self.failure([failed]):
                return f"killed by {failed}"
            self.failing_anyway.append(failed)

    @contextlib.contextmanager
    def _mutated(self, mutation: Mutation) -> Iterator[None]:
        path = self.root / mutation.path
        before, times = path.read_bytes(), path.stat()
        path.write_bytes(mutation.applied(before))
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # Numba's cache looks at it


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--area", action="append", choices=AREAS, help="may be given several times; all otherwise")
    parser.add_argument("--cpu-seconds", type=int, default=600, help="for one run of tests")
    options = parser.parse_args(arguments)
    drawn = draw(options.area or list(AREAS), options.count, options.seed)
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="tamis-mutants-") as place:
        copied = Copy(Path(place), options.cpu_seconds)
        for area, mutation in drawn:
            verdicts.append(copied.verdict(area, mutation))
            print(f"{mutation}\n    {verdicts[-1]}", flush=True)
    survived = verdicts.count("SURVIVED")
    print(f"{len(drawn) - survived} killed, {survived} survived; seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
