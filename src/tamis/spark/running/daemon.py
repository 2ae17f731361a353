"""The process that Spark's Python workers on one machine are forked from: it has imported what they need.

Spark's own daemon imports nothing before it forks, so every worker imports pyspark, pandas, Numba and tamis for
itself, pyspark even from a zip file without bytecode. `tamis.spark.session` names this module in
``spark.python.daemon.module`` when the master is local. On a cluster the daemon is Spark's: an executor may have no
tamis when its daemon starts (decision 0058).

Spark starts a daemon for each kind of worker. Only the one whose workers run functions imports first: the others look
up data sources or plan a read, and need little of it.
"""

from __future__ import annotations

import gc
import importlib
import os
import re
import sys
from pathlib import Path

__all__ = ["daemon_settings", "run"]

#: The kind of worker that runs functions.
_FUNCTIONS = "pyspark.worker"
#: What workers import. None of it starts a thread (Arrow's allocator would: see `run`), so that a fork loses nothing.
_IMPORTS = (
    "pyspark.worker",
    "pandas",
    "tamis.index.packed.core",
    "tamis.spark.matching.matching",
    "tamis.spark.subscriptions.compiling",
    "tamis.spark.snapshots.building",
)


def daemon_settings(master: str) -> dict[str, str]:
    """Return the setting that names this module where it is sure to be found: on this machine, by this Python."""
    is_here = re.fullmatch(r"local(\[.*\])?", master) and os.environ.get("PYSPARK_PYTHON") == sys.executable
    return {"spark.python.daemon.module": __name__} if is_here else {}


def run(arguments: list[str]) -> None:
    """Import for the kind of worker that ``arguments`` name, and serve Spark until it closes the standard input."""
    entries = {Path(entry).resolve() for entry in sys.path}
    sys.path[:] = [entry for entry in sys.path if not _is_copy(Path(entry).resolve(), entries)]
    if arguments == [_FUNCTIONS]:
        os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
        for module in _IMPORTS:
            importlib.import_module(module)
        # A worker looks for garbage after every task: it need not look through all that was imported.
        gc.collect()
        gc.freeze()
    from pyspark.daemon import manager

    manager()


def _is_copy(path: Path, entries: set[Path]) -> bool:
    """Return whether a file is the zip file of a pyspark that one of the entries of ``sys.path`` has as a package."""
    return path.parts[-4:] == ("pyspark", "python", "lib", "pyspark.zip") and path.parents[3] in entries


if __name__ == "__main__":
    run(sys.argv[1:])
