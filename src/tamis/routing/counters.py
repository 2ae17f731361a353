"""What crossed a link: plain counts, kept by the broker that sends (events: received, for false positives)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Counters"]


@dataclass
class Counters:
    """The counts of one link at one broker."""

    #: Updates that said something; entries announced and keys retracted in them.
    updates: int = 0
    announced: int = 0
    retracted: int = 0
    #: Events sent over the link.
    events: int = 0
    #: Events that came over the link and were neither delivered nor passed on here.
    false_positives: int = 0

    def count_update(self, announced: int, retracted: int) -> None:
        """Count one update; an empty table says nothing and is not counted."""
        if announced or retracted:
            self.updates += 1
            self.announced += announced
            self.retracted += retracted
