"""The new life of a broker whose disk was restored from a backup (promise G20).

The disk is behind what clients and neighbours have received since. Continuing the former life would lose events without
a trace: numbers would be used twice, and neighbours would send what comes after messages that this disk never had. So a
restored disk begins a new life, and keeps of the former one what is still true:

* subscriptions of clients, learned types, producers and the audit;
* what waits for clients, and behind it a `Gap`: what came after the backup may be missing;
* what waits for neighbours. Each other end says first what it has of that (`tamis.node.node`), so that nothing is lost
  and nothing is sent twice.

What neighbours asked for is forgotten: it may have changed since, and a neighbour that has not spoken gets everything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tamis.node import records
from tamis.node.effects import Key, Link, Persist
from tamis.node.stream import CLIENT_EPOCH
from tamis.routing import messages as m
from tamis.routing.edge.link_names import client_of, is_http_link

__all__ = ["begin_new_life"]

#: Records about a neighbour, under its name.
_OF_NEIGHBOURS = (
    records.INTEREST,
    records.RANGES,
    records.BLOCK,
    records.SPOKEN,
    records.PAUSED,
    records.PAUSING,
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
    lives = {link: one for (link,), one in records.LIFE.items(stored)}
    changes = [records.EPOCH.put(value=max(epoch, life + 1, *(one + 1 for one in lives.values())))]
    changes += [records.LIFE.drop(link) for link in lives]
    for link, cursor in _cursors(stored).items():
        is_new = records.FORMER.find(stored, link) is None  # restored once more: the other end knows the life before
        if is_new and (link in neighbours or client_of(link) is not None):
            changes.append(records.FORMER.put(link, value=records.Former(lives.get(link, life), cursor.sent)))
        if link not in neighbours:
            changes += _tell_of_gap(link, cursor, since)
    about_neighbours = {kind.name for kind in _OF_NEIGHBOURS}
    changes += [Persist(key, None) for key in stored if key[0] in about_neighbours and key[1] in neighbours]
    return changes


def _cursors(stored: Mapping[Key, bytes]) -> dict[Link, records.Cursor]:
    """Return where each stream stands; that of a subscription that was sent nothing yet has no record."""
    at_rest = records.Cursor(CLIENT_EPOCH, 0, 0)
    cursors = {key[1]: at_rest for key in stored if key[0] == records.INTEREST.name and is_http_link(key[1])}
    return cursors | {link: cursor for (link,), cursor in records.LINK.items(stored)}


def _tell_of_gap(link: Link, cursor: records.Cursor, since: int) -> list[Persist]:
    number = cursor.sent + 1
    gap = m.Gap(m.EventId("", since, 0), 0)
    return [
        records.OUT.put(link, str(number), value=m.encode(gap)),
        records.LINK.put(link, value=records.Cursor(cursor.peer_epoch, cursor.received, number)),
    ]
