"""Write docs/simulated-lines.md: which functions of the product's running parts no simulated seed enters.

    python scripts/simulated_lines.py [SEEDS]

Runs the worlds of ``tests/simulation`` for that many seeds (200) under coverage.py, in this process, with lost and
restored disks, changed filters, shared queues, readers that fail, rings, links that drop and links that are skipped.
Lines move with every edit, so the page names functions and counts lines.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGE = ROOT / "src" / "tamis", ROOT / "docs" / "simulated-lines.md"
#: What runs a broker, a client and their links; the rest of `runtime` is the simulator, and doors to other systems.
PARTS = ("node", "routing", "runtime/broker", "runtime/client", "runtime/disk", "runtime/stores", "web")
SEEDS = 200

_HEAD = """# What no simulated seed runs

Written by `python scripts/simulated_lines.py`: do not edit by hand. {seeds} seeds of `tests/simulation` drove clients,
edges and brokers through simulated wires and disks. Of each module the table says how many of its lines in functions a
seed ran, and which functions none entered. Modules of which no seed runs a line are listed below the table: sockets,
HTTP, files and the pages of the server, which `tests/server` and `tests/attacks` run in real processes.

| module | lines run | functions that no seed enters |
|---|--:|---|
"""


class Function(NamedTuple):
    """A function or method, and the lines of its own statements, those of inner functions left out."""

    name: str
    lines: frozenset[int]


def functions_of(tree: ast.AST, prefix: str = "") -> Iterator[Function]:
    """Yield every function of a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = list(functions_of(node, f"{prefix}{node.name}."))
            lines = {part.lineno for body in node.body for part in ast.walk(body) if _is_statement(part)}
            taken = frozenset[int]().union(*(function.lines for function in inner))
            yield Function(f"{prefix}{node.name}", frozenset(lines - taken))
            yield from inner
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")
        else:
            yield from functions_of(node, prefix)


def _is_statement(node: ast.AST) -> bool:
    """Whether a node is a statement that does something: a docstring does nothing."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return isinstance(node, ast.stmt) and not is_text


def row_of(module: str, functions: list[Function], run: Collection[int]) -> str | None:
    """Return the row of a module, given the lines that were run; None when no function was entered."""
    done = set(run)
    lines = frozenset[int]().union(*(function.lines for function in functions))
    if not lines & done:
        return None
    missing = [f"`{function.name}`" for function in functions if function.lines and not function.lines & done]
    return f"| `{module}` | {len(lines & done)} of {len(lines)} | {', '.join(missing)} |"


def run_seeds(n: int) -> dict[str, set[int]]:
    """Run seeds; return the lines that were run, by the path of the file."""
    import coverage

    measured = coverage.Coverage(data_file=None, branch=False, source=[str(SOURCE)], config_file=False)
    measured.start()
    from tests.simulation.test_changed_filters import ChangingWorld
    from tests.simulation.test_consumers import Shared
    from tests.simulation.test_dropping_links import drop, skip
    from tests.simulation.test_failing_readers import Failing
    from tests.simulation.test_rings import live
    from tests.simulation.world import RESTORED, World

    for seed in range(n):
        World(seed).run()
        if seed % 10 == 0:
            World(seed, weather=RESTORED).run()
            ChangingWorld(seed).run()
            Shared(seed).run()
            drop(seed)
            skip(seed)
            live(seed)
            Failing(seed).run()
    measured.stop()
    data = measured.get_data()
    return {path: set(data.lines(path) or ()) for path in data.measured_files()}


def page_of(run: dict[str, set[int]], seeds: int) -> str:
    """Return the page."""
    rows: list[str] = []
    silent: dict[str, list[str]] = {}
    for part in PARTS:
        for path in sorted((SOURCE / part).rglob("*.py")):
            functions = list(functions_of(ast.parse(path.read_text(encoding="utf-8"))))
            if not any(function.lines for function in functions):
                continue
            module = path.relative_to(SOURCE).as_posix()
            row = row_of(module, functions, run.get(str(path), ()))
            if row is None:
                silent.setdefault(str(Path(module).parent), []).append(f"`{path.name}`")
            else:
                rows.append(row)
    lists = [f"- `{folder}`: {', '.join(names)}" for folder, names in silent.items()]
    return "\n".join([_HEAD.format(seeds=seeds) + "\n".join(rows), "", "No function is entered in:", "", *lists, ""])


def main(seeds: int) -> None:
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(page_of(run_seeds(seeds), seeds), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {seeds} seeds")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
