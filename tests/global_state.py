"""What all tests of a process share: each must leave it as it was, or the next one depends on the order of tests."""

from __future__ import annotations

import decimal
import gc
import os
import signal
import sys
from pathlib import Path

import numpy as np

from tamis.index.registry import COVERING_INDEXES, MATCHERS
from tamis.model.derived import functions
from tamis.model.types import registry
from tamis.routing.policies import POLICIES

__all__ = ["changes", "global_state"]

#: pytest itself says here which test runs.
_OF_PYTEST = "PYTEST_CURRENT_TEST"


def global_state() -> dict[str, object]:
    """Return a copy of what tests share, by name."""
    return {
        "working directory": Path.cwd(),
        "environment": {name: value for name, value in os.environ.items() if name != _OF_PYTEST},
        "sys.path": tuple(sys.path),
        "attribute types": tuple(registry._IN_ORDER),
        "functions of filters": dict(functions._registered),
        "matchers": dict(MATCHERS),
        "covering indexes": dict(COVERING_INDEXES),
        "link policies": dict(POLICIES),
        "signal handlers": tuple(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)),
        "floating-point errors of NumPy": np.geterr(),
        "precision of decimals": decimal.getcontext().prec,
        "recursion limit": sys.getrecursionlimit(),
        "garbage collection": gc.isenabled(),
    }


def changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return a line for each part that differs: its name, and what it was and is, entry by entry for a dictionary."""
    lines = []
    for name, old in before.items():
        new = after[name]
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            lines.extend(f"{name}: {key!r} was {old.get(key)!r}, is {new.get(key)!r}" for key in keys)
        elif old != new:
            lines.append(f"{name}: was {old!r}, is {new!r}")
    return lines
