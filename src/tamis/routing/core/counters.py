"""Statistics of a broker's links: plain counts, on which nothing depends."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.routing.messages import TablePart, Update, encode

__all__ = ["Counters"]


@dataclass
class Counters:
    """The counts of one link, from the view of the broker at one end."""

    #: Non-empty updates sent, their bytes, the entries announced and the keys retracted in them.
    updates: int = 0
    bytes: int = 0
    announced: int = 0
    retracted: int = 0
    #: Events for the link: sent, or waiting for it, or dropped while they waited.
    events: int = 0
    #: Events of clients that were refused because they would have gone over the link while it was full.
    refused: int = 0
    #: Events that were dropped because the link was full or skipped.
    dropped: int = 0
    #: Events that came over the link and were neither delivered nor forwarded.
    false_positives: int = 0
    #: Events that were matched in a two-stage table for the link, and those that its cells rejected.
    screened: int = 0
    rejected: int = 0
    #: Filters that such a table tested exactly, and those that its cells ruled out.
    filters_asked: int = 0
    filters_spared: int = 0

    def count_stages(self, *, held: int, proposed: int, tested: int) -> None:
        """Count an event: of ``held`` filters in a two-stage table, cells ``proposed`` some; ``tested`` were run."""
        self.screened += 1
        self.rejected += not proposed
        self.filters_asked += tested
        self.filters_spared += held - proposed

    def count_update(self, update: Update | TablePart) -> None:
        """Count one update or part of a table, unless it is empty."""
        if update.announce or update.retract or update.ranges:
            self.updates += 1
            self.bytes += len(encode(update))
            self.announced += len(update.announce)
            self.retracted += len(update.retract)
