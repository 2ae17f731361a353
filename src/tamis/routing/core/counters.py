"""What crossed the links of a broker: plain counts, that observe and decide nothing."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.routing.messages import Update, encode

__all__ = ["Counters"]


@dataclass
class Counters:
    """The counts of one link, as the broker at one of its ends sees them."""

    #: Updates sent that said something, their bytes, the entries announced and the keys retracted in them.
    updates: int = 0
    bytes: int = 0
    announced: int = 0
    retracted: int = 0
    #: Events sent over the link.
    events: int = 0
    #: Events of clients that were refused because they would have gone over the link and it takes no more.
    refused: int = 0
    #: Events that were counted instead of sent, because the link was full.
    dropped: int = 0
    #: Events that came over the link and were neither delivered nor passed on here.
    false_positives: int = 0
    #: Events that a table in two stages was asked about for the link, and those that its cells rejected.
    screened: int = 0
    rejected: int = 0
    #: Filters that such a table asked exactly, and those that its cells saved it from asking.
    filters_asked: int = 0
    filters_spared: int = 0

    def count_stages(self, *, held: int, proposed: int, asked: int) -> None:
        """Count one event at a table in two stages: of ``held`` filters cells left some, of which some were asked."""
        self.screened += 1
        self.rejected += not proposed
        self.filters_asked += asked
        self.filters_spared += held - proposed

    def count_update(self, update: Update) -> None:
        """Count one update; an empty table says nothing and is not counted."""
        if update.announce or update.retract or update.ranges:
            self.updates += 1
            self.bytes += len(encode(update))
            self.announced += len(update.announce)
            self.retracted += len(update.retract)
