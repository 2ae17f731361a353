"""What only a new process can tell: how much it grows, and how long it takes to the first match."""

from __future__ import annotations

import gc
import json
import sys
import threading

from tamis_bench.matching.systems import Ours
from tamis_bench.timing import is_merging, resident_bytes
from tamis_bench.workloads.boxes import make_work

__all__ = ["COLD_START", "GROWTH", "print_growth"]

#: Prints the bytes by which the process grows; arguments: work, n.
GROWTH = "from tamis_bench.matching.fresh import print_growth; print_growth()"

#: Prints the seconds from the first line to the first match of 10,000 boxes.
COLD_START = """
import time
start = time.perf_counter()
import numpy as np
import tamis
engine = tamis.Engine()
lo = np.arange(40_000.0).reshape(10_000, 4)
engine.subscribe_boxes(["a", "b", "c", "d"], lo, lo + 100.0)
engine.match({"a": 50.0, "b": 51.0, "c": 52.0, "d": 53.0})
print(time.perf_counter() - start)
"""


def print_growth() -> None:
    """Print by how many bytes this process grows while it loads a work; null where the system does not tell."""
    name, n = sys.argv[1], int(sys.argv[2])
    work = make_work(name, n, 16)
    warm = Ours(make_work(name, min(n, 2_000), 16))  # libraries and kernels are not the index
    warm.match(work.events)
    gc.collect()
    before = resident_bytes()
    ours = Ours(work)
    ours.match(work.events)
    for thread in threading.enumerate():
        if is_merging() and thread is not threading.current_thread():
            thread.join()
    gc.collect()
    after = resident_bytes()
    print(json.dumps(None if before is None or after is None else after - before))
