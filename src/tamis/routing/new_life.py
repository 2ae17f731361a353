"""The new life of a broker whose disk was restored from a backup (promise G20).

A restored disk is older than what clients and neighbours have received. Continuing the former life would lose events
silently: numbers would be used twice, and neighbours would go on after messages that this disk never had. So a restored
disk begins a new life, and keeps those parts of the former one that are still true:

* subscriptions of clients, learned types, producers and the audit;
* messages that wait for clients, followed by a `Gap`: messages after the backup may be missing;
* messages that wait for neighbours. Each neighbour first reports which of them it has (`tamis.node.node`), so that
  nothing is lost and nothing is sent twice.

The entries of neighbours are forgotten: they may have changed since. A neighbour that has not sent its table is
forwarded everything. Links that were replaced by others stay replaced: they would close rings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tamis.node import records
from tamis.node.effects import Key, Link, Persist
from tamis.node.stream import CLIENT_EPOCH
from tamis.routing import messages as m
from tamis.routing.edge.link_names import client_of, is_http_link
from tamis.routing.rings import replaced_links

__all__ = ["begin_new_life"]

#: Records about a neighbour, under its name.
_OF_NEIGHBOURS = (
    records.INTEREST,
    records.RANGES,
    records.BLOCK,
    records.SPOKEN,
    records.TABLE,
    records.PAUSED,
    records.PAUSING,
    records.REACH,
)


def begin_new_life(
    stored: Mapping[Key, bytes], neighbours: Collection[Link], *, epoch: int, since: int
) -> list[Persist]:
    """Return the changes that begin a new life on a restored disk.

    ``epoch`` is the number of that life; ``since`` is the moment of the backup in microseconds UTC.
    """
    life = records.EPOCH.find(stored)
    if life is None:  # nothing ever ran on this disk
        return []
    lives = {link: number for (link,), number in records.LIFE.items(stored)}
    changes = [records.EPOCH.put(value=max(epoch, life + 1, *(number + 1 for number in lives.values())))]
    changes += [records.LIFE.drop(link) for link in lives]
    for link, cursor in _cursors(stored).items():
        is_new = records.FORMER.find(stored, link) is None  # restored again: the other end still knows the earlier life
        if is_new and (link in neighbours or client_of(link) is not None):
            changes.append(records.FORMER.put(link, value=records.Former(lives.get(link, life), cursor.sent)))
        if link not in neighbours:
            changes += _append_gap(link, cursor, since)
    about_neighbours = {kind.name for kind in _OF_NEIGHBOURS}
    obsolete_keys = {key for key in stored if key[0] in about_neighbours and key[1] in neighbours}
    obsolete_keys -= {records.REACH.key(link) for link in replaced_links(stored)}
    return [*changes, *(Persist(key, None) for key in sorted(obsolete_keys))]


def _cursors(stored: Mapping[Key, bytes]) -> dict[Link, records.LinkPosition]:
    """Return the position of each stream; a subscription that was sent nothing yet has no record of its own."""
    at_rest = records.LinkPosition(CLIENT_EPOCH, 0, 0)
    cursors = {key[1]: at_rest for key in stored if key[0] == records.INTEREST.name and is_http_link(key[1])}
    return cursors | {link: cursor for (link,), cursor in records.LINK.items(stored)}


def _append_gap(link: Link, cursor: records.LinkPosition, since: int) -> list[Persist]:
    """Return the changes that append a `Gap` of unknown size to what waits for a client."""
    number = cursor.sent + 1
    gap = m.Gap(m.EventId("", since, 0), 0)
    return [
        records.OUT.put(link, str(number), value=m.encode(gap)),
        records.LINK.put(link, value=records.LinkPosition(cursor.peer_epoch, cursor.received, number)),
    ]
