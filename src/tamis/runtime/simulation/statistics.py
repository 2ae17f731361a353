"""What a run of a network cost, and whether it did its duty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["LinkStatistics", "NetworkStatistics"]


@dataclass(frozen=True)
class LinkStatistics:
    """One direction of one link.

    ``suppressed`` maps what ``source`` did not announce to the announced entries that cover it; ``refused`` are
    events of its clients that it did not accept because too much waits for the link, or for one behind it;
    ``false_positives`` are events that ``target`` got over this link and had no use for. ``updates`` and ``bytes`` are
    the messages about subscriptions. Of ``screened`` events that a table in two stages was asked about, cells
    ``rejected`` some; of its filters ``filters_asked`` were asked exactly and ``filters_spared`` need not be.
    """

    source: str
    target: str
    policy: str
    announced: int
    retracted: int
    suppressed: Mapping[str, tuple[str, ...]]
    table_entries: int
    events: int
    refused: int
    false_positives: int
    updates: int
    bytes: int
    screened: int = 0
    rejected: int = 0
    filters_asked: int = 0
    filters_spared: int = 0

    def as_row(self) -> dict[str, Any]:
        """Return the fields by name, in order."""
        return asdict(self)


@dataclass(frozen=True)
class NetworkStatistics:
    """A whole network.

    ``delivered`` counts copies of events handed to clients, ``lost`` those that an active subscription should have got
    and did not, ``duplicates`` those that a client got twice, ``refused`` the events that brokers refused, with an
    answer to the publisher. The rest is the cost: updates of routing tables and their bytes, events sent from broker
    to broker, those of them the receiver had no use for, the entries that all routing tables hold, and how often a
    subscription was not announced because others cover it; the last four count what tables in two stages did
    (`LinkStatistics`).
    """

    policy: str
    delivered: int
    lost: int
    duplicates: int
    refused: int
    subscription_messages: int
    subscription_bytes: int
    event_messages: int
    false_positives: int
    table_entries: int
    suppressed: int = 0
    screened: int = 0
    rejected: int = 0
    filters_asked: int = 0
    filters_spared: int = 0

    def as_row(self) -> dict[str, str | int]:
        """Return the fields by name, in order."""
        return asdict(self)
