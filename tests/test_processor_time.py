"""The plugin that counts processor time: it counts work in this process and in children, and waiting not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.processor_time import seconds_so_far

ROOT = Path(__file__).parents[1]
WORK = "import time\nwhile time.process_time() < 0.3: pass\n"
TESTS = f"""
import subprocess, sys, time

def test_works():
    end = time.process_time() + 0.3
    while time.process_time() < end: pass

def test_has_it_done():
    subprocess.run([sys.executable, "-S", "-c", {WORK!r}], check=True)

def test_leaves_an_orphan():
    script = {WORK!r} + "print('done', flush=True)"
    starter = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {{script!r}}])"
    command = [sys.executable, "-S", "-c", starter]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == b"done\\n"

def test_waits():
    time.sleep(0.3)
"""
#: The orphan is counted on Linux only.
WORKING = {"works", "has_it_done", "leaves_an_orphan"} if sys.platform.startswith("linux") else {"works", "has_it_done"}


def test_a_living_child_counts() -> None:
    before = seconds_so_far()
    script = f"{WORK}print('done', flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        worked = seconds_so_far() - before
        child.kill()
    assert worked > 0.25


def test_tests_are_listed_with_what_they_cost(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.processor_time", "-p", "no:cacheprovider"]
    command += ["-c", str(tmp_path / "none.ini"), f"--rootdir={tmp_path}", str(tmp_path / "test_some.py")]
    (tmp_path / "none.ini").write_text("[pytest]\n")
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    costs = {line.split()[1]: float(line.split()[0]) for line in done.stdout.splitlines() if "::" in line}
    assert costs.keys() == {f"test_some.py::test_{name}" for name in {*WORKING, "leaves_an_orphan", "waits"}}
    assert min(costs[f"test_some.py::test_{name}"] for name in WORKING) >= 0.3
    assert costs["test_some.py::test_waits"] < 0.2
