"""The MICS matcher: keys on a Hilbert curve give candidates, raw values decide.

A few axes are indexed, the most selective ones; each subscription is its ranges of keys on the curve through them
(`space`), kept with its owner (`subscription_index`). An event has a key, which finds candidates; the exact predicate
confirms them. With several groups of axes a candidate must be one in every group.

Without a space the matcher learns one from its subscriptions, and again whenever there are sixteen times as many as
the last time.

Implements: [mics] section 5, Content matching in Subscription Indexing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tamis.algebra.evaluate import matches_subscription
from tamis.index.mics.groups import MAX_RANGES, RangeGroups
from tamis.index.mics.projection import DEFAULT_AXES, group_axes
from tamis.index.mics.space import ContentSpace
from tamis.index.protocols import NO_ROWS, Guarantee, IndexStatistics, MatchRows, Rows
from tamis.model.schema import Event
from tamis.model.subscription import Subscription
from tamis.model.tables import EventTable

__all__ = ["MAX_RANGES", "MicsMatcher"]

#: A space is learned again when the number of subscriptions has grown by this factor.
_GROWTH = 16

IntArray = npt.NDArray[np.int64]


class MicsMatcher:
    """Finds matches by Hilbert keys, confirmed on raw values.

    Guarantee: EXACT; the candidates before the second phase are COMPLETE only (`SubscriptionIndex.guarantee`).
    Cost: a look-up in a tree of all ranges, and some microseconds of Python for each candidate. It is for the lab and
    beside link tables of the same spaces. When not to use it: when subscriptions leave the indexed attributes open,
    for such a subscription has very many ranges; the packed matcher is for millions.

    Parameters
    ----------
    spaces
        One content space, or one per attribute group; None: learned from the subscriptions.
    n_axes, n_groups
        How many axes a learned space has, and how many spaces are learned.
    """

    guarantee = Guarantee.EXACT

    def __init__(
        self, spaces: Sequence[ContentSpace] | None = None, *, n_axes: int = DEFAULT_AXES, n_groups: int = 1
    ) -> None:
        self._learns = spaces is None
        self._n_axes, self._n_groups = n_axes, n_groups
        self._groups = RangeGroups([ContentSpace([])] if spaces is None else tuple(spaces))
        #: How many subscriptions there must be before spaces are learned again.
        self._learn_at = 1
        self._subscriptions: dict[int, Subscription] = {}
        self._n_candidates = self._n_events = 0

    def __len__(self) -> int:
        return len(self._subscriptions)

    @property
    def spaces(self) -> tuple[ContentSpace, ...]:
        """The content spaces in use."""
        return tuple(self._groups.spaces)

    def add(self, row: int, subscription: Subscription) -> None:
        """Add a subscription under a row above all rows added before."""
        if row in self._subscriptions:
            raise KeyError(f"row {row} is taken")
        self._subscriptions[row] = subscription
        try:
            if self._learns and len(self._subscriptions) >= self._learn_at:
                self._learn()
            else:
                self._groups.add(row, subscription)
        except BaseException:
            del self._subscriptions[row]
            raise

    def remove(self, row: int) -> None:
        """Remove a row; raise `KeyError` if it is absent."""
        del self._subscriptions[row]
        self._groups.remove(row)

    def candidates(self, event: Event) -> IntArray:
        """Return the rows that may match an event, ascending: the first phase alone, COMPLETE and not SOUND."""
        return self._groups.candidates(event)

    def candidates_of_table(self, events: EventTable) -> list[IntArray]:
        """Return the rows that may match each event of a table, as `candidates` does."""
        return self._groups.candidates_of_table(events)

    def match(self, event: Event) -> Rows:
        """Return the rows that match a canonical event, ascending."""
        return self._confirmed(event, self._groups.candidates(event))

    def match_table(self, events: EventTable) -> MatchRows:
        """Return the rows that match each event of a table, ascending; a bad row matches nothing."""
        bad = events.bad
        proposed = self._groups.candidates_of_table(events)
        return MatchRows.joined(
            [
                self._confirmed(events.event(i), rows) if rows.size and i not in bad else NO_ROWS
                for i, rows in enumerate(proposed)
            ]
        )

    def statistics(self) -> IndexStatistics:
        """Return the contents, and the average number of candidates per event."""
        groups = self._groups
        details: Mapping[str, int | float | str] = {
            "axes": ", ".join(
                f"{axis.attribute} ({axis.part.value})" for space in groups.spaces for axis, _ in space.axes
            ),
            "groups": len(groups.spaces),
            "ranges": sum(map(len, groups.indexes)),
            "candidates_per_event": self._n_candidates / max(self._n_events, 1),
        }
        return IndexStatistics("mics", len(self), details)

    def _learn(self) -> None:
        """Choose spaces by the current subscriptions, and index them again; readers continue with the old spaces."""
        held = dict(self._subscriptions)
        groups = RangeGroups(group_axes(list(held.values()), self._n_groups, self._n_axes))
        for row, subscription in held.items():
            groups.add(row, subscription)
        self._groups = groups
        self._learn_at = _GROWTH * len(held)

    def _confirmed(self, event: Event, candidates: IntArray) -> Rows:
        self._n_events += 1
        self._n_candidates += len(candidates)
        stored = ((row, self._subscriptions.get(row)) for row in candidates.tolist())
        matched = [
            row
            for row, subscription in stored
            if subscription is not None and matches_subscription(event, subscription)
        ]
        return np.array(matched, dtype=np.int32)
