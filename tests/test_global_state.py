"""A test that leaves behind what the next one can see fails, and is told what it left."""

from __future__ import annotations

import decimal
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.index.registry import COVERING_INDEXES, MATCHERS
from tamis.model.types import registry
from tamis.routing.policies import POLICIES
from tests.conftest import watch
from tests.global_state import changes, global_state


class Colour(tamis.String):
    """A type of a user."""

    name = "colour"


def forget_colour() -> None:
    del registry._TYPES["colour"]
    registry._IN_ORDER.remove(Colour)


#: What a test may leave behind, and how it is undone.
LEFT: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "working directory": (lambda: os.chdir("/"), lambda: os.chdir(HERE)),
    "environment": (lambda: os.environ.update(TAMIS_LEFT="x"), lambda: os.environ.pop("TAMIS_LEFT")),
    "sys.path": (lambda: sys.path.append("/nowhere"), lambda: sys.path.remove("/nowhere")),
    "attribute types": (lambda: tamis.register_type(Colour), forget_colour),
    "functions of filters": (
        lambda: tamis.register_function("left", abs, returns=tamis.Number()),
        lambda: tamis.unregister_function("left"),
    ),
    "matchers": (lambda: MATCHERS.update(left=MATCHERS["linear"]), lambda: MATCHERS.pop("left")),
    "covering indexes": (
        lambda: COVERING_INDEXES.update(left=COVERING_INDEXES["linear"]),
        lambda: COVERING_INDEXES.pop("left"),
    ),
    "link policies": (lambda: POLICIES.update(left=POLICIES["flood"]), lambda: POLICIES.pop("left")),
    "signal handlers": (
        lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
        lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    ),
    "floating-point errors of NumPy": (lambda: np.seterr(all="ignore"), lambda: np.seterr(**ERRORS)),
    "precision of decimals": (
        lambda: setattr(decimal.getcontext(), "prec", 5),
        lambda: setattr(decimal.getcontext(), "prec", 28),
    ),
    "recursion limit": (
        lambda: sys.setrecursionlimit(LIMIT + 1),
        lambda: sys.setrecursionlimit(LIMIT),
    ),
    "garbage collection": (gc.disable, gc.enable),
}
HERE = Path.cwd()
ERRORS = np.geterr()
LIMIT = sys.getrecursionlimit()


@pytest.mark.parametrize("part", global_state())
def test_every_part_is_watched(part: str) -> None:
    leave, undo = LEFT[part]
    watching = watch()
    next(watching)
    leave()
    try:
        with pytest.raises(pytest.fail.Exception, match=f"left behind by this test.*{part}"):
            next(watching)
    finally:
        undo()


def test_every_test_is_watched(request: pytest.FixtureRequest) -> None:
    assert "unchanged_global_state" in request.fixturenames


def test_a_change_is_told_entry_by_entry() -> None:
    before = {"environment": {"A": "1", "B": "2"}, "recursion limit": 1_000}
    after = {"environment": {"B": "3", "C": "4"}, "recursion limit": 1_000}
    assert changes(before, after) == [
        "environment: 'A' was '1', is None",
        "environment: 'B' was '2', is '3'",
        "environment: 'C' was None, is '4'",
    ]
