"""Garbage collection is paused while millions of objects are made that stay."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["paused_collection"]


@contextlib.contextmanager
def paused_collection() -> Iterator[None]:
    """Disable garbage collection while many subscriptions are added or compared: it would scan all of them repeatedly.

    They have no reference cycles, so reference counting frees them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
