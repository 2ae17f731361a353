"""Cursors: positions in a stream as text that clients keep, such as ``1794798248682262-17``."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.errors import ModelError

__all__ = ["Cursor"]


@dataclass(frozen=True)
class Cursor:
    """The life of the broker, and the number of the last message that was read.

    >>> Cursor.parse("17-4"), str(Cursor(17, 4))
    (Cursor(epoch=17, number=4), '17-4')
    """

    epoch: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"

    @classmethod
    def parse(cls, text: str, name: str = "cursor") -> Cursor:
        """Read what ``str`` wrote; the `ModelError` for other text names the field or file."""
        epoch, _, number = text.partition("-")
        if not (text.isascii() and epoch.isdecimal() and number.isdecimal() and len(epoch) < 20 and len(number) < 19):
            example = "the cursor of a message, such as 1794798248682262-17"
            raise ModelError(f"{name}: expected {example}, got {text[:60]!r}")
        return cls(int(epoch), int(number))
