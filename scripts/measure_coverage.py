"""Measure which lines and branches the tests take, and list the modules below 90 %: `make coverage`.

The tests that need no JVM and no browser run under coverage.py, with the processes that they start. A module below the
mark is fine when ``docs/coverage.md`` gives a reason for it; the exit code is 1 when one has none, or when a reason is
no longer needed. Paths as arguments measure only some tests, and then nothing is judged.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "build" / "coverage"
ENOUGH = 90.0


def exceptions(page: str) -> dict[str, str]:
    """Return the reasons of the page, by pattern: the rows of its table whose first cell is in backquotes."""
    return dict(re.findall(r"^\| `([^`]+)` \| (.+?) \|$", page, re.MULTILINE))


def measured(report: dict[str, dict[str, dict[str, dict[str, float]]]]) -> dict[str, float]:
    """Return the per cent of each module, by its path as documents write it: below src/tamis, or below src."""
    return {
        path.partition("src/")[2].removeprefix("tamis/"): file["summary"]["percent_covered"]
        for path, file in report["files"].items()
        if file["summary"]["num_statements"]
    }


def judge(modules: dict[str, float], reasons: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the modules below the mark without a reason, and the reasons that no module needs."""
    low = [path for path, percent in modules.items() if percent < ENOUGH]
    unnamed = [path for path in low if not any(fnmatch(path, pattern) for pattern in reasons)]
    return unnamed, [pattern for pattern in reasons if not any(fnmatch(path, pattern) for path in low)]


def run_tests(tests: list[str]) -> int:
    """Run tests under coverage.py and write the report; return pytest's exit code."""
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    coverage = [sys.executable, "-m", "coverage"]
    chosen = ["-m", "not (soak or slow or spark or browser)", "-n", os.environ.get("WORKERS", "2"), "--timeout", "1200"]
    code = subprocess.run([*coverage, "run", "-m", "pytest", "-q", *chosen, *tests], cwd=ROOT, check=False).returncode
    subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, check=True)
    subprocess.run([*coverage, "json", "--quiet", "-o", str(DATA / "report.json")], cwd=ROOT, check=True)
    return code


def main(tests: list[str]) -> int:
    code = run_tests(tests)
    modules = measured(json.loads((DATA / "report.json").read_text(encoding="utf-8")))
    reasons = exceptions((ROOT / "docs" / "coverage.md").read_text(encoding="utf-8"))
    for path, percent in sorted(modules.items(), key=lambda module: module[1]):
        if percent < ENOUGH:
            reason = next((why for pattern, why in reasons.items() if fnmatch(path, pattern)), "no reason is given")
            print(f"{percent:5.1f} %  {path}  ({reason})")
    unnamed, unneeded = judge(modules, reasons)
    print(f"{sum(percent < ENOUGH for percent in modules.values())} of {len(modules)} modules are below {ENOUGH:.0f} %")
    if code or tests:
        return code
    for pattern in unneeded:
        print(f"docs/coverage.md: `{pattern}` matches no module below {ENOUGH:.0f} %; remove it")
    return int(bool(unnamed or unneeded))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
