"""``make planted``: plant every bug of the catalogue, and demand that the ordinary tests find each of them.

The bugs are shared out among some workers, each with a copy of the tree. What is done is noted under ``build/planted``
for this state of the tree, so that a run that was stopped goes on. Ends with 1 if a bug is not found, or if its tests
fail without it. ``python -m tests.planted.run NAME...`` plants the bugs or subsystems that are named, whatever was
noted.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import queue
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.planted.bug import ROOT, Bug, missing_tests
from tests.planted.planting import Tree
from tests.planted.source_catalogue import BUGS, SUBSYSTEMS

PLACE = ROOT / "build" / "planted"
#: What a run of pytest is for when no bug is planted: the tests of a whole subsystem at once.
UNPLANTED = "(no bug)"


@dataclass(frozen=True)
class Job:
    """A run of pytest: with a bug, or with none."""

    name: str
    tests: list[str]
    bug: Bug | None = None


@dataclass
class Work:
    """What is to be done, what is done, and what it showed; shared by the workers."""

    notes: Path | None
    jobs: queue.SimpleQueue[Job] = field(default_factory=queue.SimpleQueue)
    done: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, name: str, verdict: str, seconds: float) -> None:
        """Print a verdict and keep it; only good ones are kept for the next run."""
        with self.lock:
            self.done[name] = verdict
            print(f"{verdict:<12} {seconds:6.1f} s  {name}", flush=True)
            if self.notes is not None and not is_bad(verdict):
                with self.notes.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, verdict]) + "\n")


def is_bad(verdict: str) -> bool:
    return verdict not in ("found", "silent")


def work_through(tree: Tree, work: Work) -> None:
    """Do jobs until there are none."""
    while True:
        try:
            job = work.jobs.get_nowait()
        except queue.Empty:
            return
        with contextlib.nullcontext() if job.bug is None else tree.planted(job.bug):
            outcome = tree.run(job.tests)
        if job.bug is None:
            verdict = "silent" if outcome.is_silent else "NOT SILENT"
        else:
            verdict = "found" if outcome.is_found else "NOT FOUND"
        work.note(job.name, verdict, outcome.seconds)
        if is_bad(verdict):
            print(outcome.tail, flush=True)


def state_of_the_tree() -> str:
    """Return a name for the sources and the tests: a verdict about another state proves nothing."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in ("src", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(ROOT)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def chosen(names: list[str]) -> list[Job]:
    """Return the jobs of what is named, or all: of each subsystem its tests without a bug, then its bugs."""
    some = [bug for bug in BUGS if not names or bug.name in names or bug.subsystem in names]
    tests = {
        subsystem: sorted({test for bug in some if bug.subsystem == subsystem for test in bug.tests})
        for subsystem in SUBSYSTEMS
    }
    jobs = [Job(f"{subsystem}: {UNPLANTED}", mine) for subsystem, mine in tests.items() if mine]
    return [*jobs, *(Job(f"{bug.subsystem}: {bug.name}", list(bug.tests), bug) for bug in some)]


def run(names: list[str], workers: int) -> int:
    """Plant bugs and return the exit code."""
    wrong = [f"{bug.name}: there is no {test}" for bug in BUGS for test in missing_tests(bug)]
    jobs = chosen(names)
    if wrong or not jobs:
        print("\n".join(wrong) or f"no bug and no subsystem is called {' or '.join(names)}", file=sys.stderr)
        return 2
    PLACE.mkdir(parents=True, exist_ok=True)
    work = Work(None if names else PLACE / f"done-{state_of_the_tree()}.jsonl")
    if work.notes is not None and work.notes.exists():
        work.done = dict(json.loads(line) for line in work.notes.read_text(encoding="utf-8").splitlines())
        print(f"{len(work.done)} of {len(jobs)} were done before", flush=True)
    for job in jobs:
        if job.name not in work.done:
            work.jobs.put(job)
    threads = [
        threading.Thread(target=work_through, args=(Tree(PLACE / f"tree-{number}"), work)) for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return summarise(work, len(jobs))


def summarise(work: Work, jobs: int) -> int:
    """Print a table and return the exit code."""
    for subsystem in SUBSYSTEMS:
        mine = {name: verdict for name, verdict in work.done.items() if name.startswith(f"{subsystem}: ")}
        if mine:
            silent = mine.pop(f"{subsystem}: {UNPLANTED}", "not run")
            n_found = sum(verdict == "found" for verdict in mine.values())
            print(f"{subsystem:<12} {n_found:3} of {len(mine):3} bugs found; without them: {silent}")
    bad = sorted(name for name, verdict in work.done.items() if is_bad(verdict))
    print(f"{len(work.done)} of {jobs} runs, {len(bad)} of them bad{''.join(f'{chr(10)}  {name}' for name in bad)}")
    return 1 if bad or len(work.done) < jobs else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant bugs and demand that the ordinary tests find them.")
    parser.add_argument("names", nargs="*", help="bugs or subsystems; all by default")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    return run(options.names, options.workers)


if __name__ == "__main__":
    sys.exit(main())
