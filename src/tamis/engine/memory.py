"""Returns memory to the system that loading many subscriptions has used and freed."""

from __future__ import annotations

import ctypes

__all__ = ["MANY_ROWS", "give_back_memory"]

#: Rows from which on a load is followed by `give_back_memory`, which takes about as long as loading a thousand.
MANY_ROWS = 20_000


def give_back_memory() -> None:
    """Let the C library return freed memory to the system, if it can (glibc); its allocator would keep most of it.

    What is freed lies between what stays, so that only few pages would be returned by themselves.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
