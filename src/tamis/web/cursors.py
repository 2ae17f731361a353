"""Cursors as clients send them: the life of the broker and the number of a message, ``1794798248682262-17``."""

from __future__ import annotations

from tamis.errors import ModelError

__all__ = ["read_cursor"]


def read_cursor(name: str, text: str) -> tuple[int, int]:
    """Return the life and the number in a cursor; `ModelError` names the field that holds something else.

    >>> read_cursor("after", "1794798248682262-17")
    (1794798248682262, 17)
    """
    epoch, _, number = text.partition("-")
    if not (text.isascii() and epoch.isdecimal() and number.isdecimal() and len(epoch) < 20 and len(number) < 19):
        raise ModelError(f"{name}: expected the cursor of a message, such as 1794798248682262-17, got {text[:60]!r}")
    return int(epoch), int(number)
