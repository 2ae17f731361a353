"""The story of a node: the last messages it handled, for error reports."""

from __future__ import annotations

from collections import deque

__all__ = ["Story"]


class Story:
    """Keeps the last ``length`` steps; they are formatted only when the story is read.

    >>> story = Story(2)
    >>> for step in ("a", "b", "c"):
    ...     story.note(1.5, "alice", step)
    >>> story.lines()
    ["at 1.500 from alice: 'b'", "at 1.500 from alice: 'c'"]
    """

    def __init__(self, length: int = 50) -> None:
        self._steps: deque[tuple[float, str, object]] = deque(maxlen=length)

    def note(self, now: float, sender: str, message: object) -> None:
        """Record a message."""
        self._steps.append((now, sender, message))

    def lines(self) -> list[str]:
        """Return the steps as text, the oldest first."""
        return [f"at {now:.3f} from {sender}: {message!r}" for now, sender, message in self._steps]
