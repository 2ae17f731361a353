"""Records about former neighbours: brokers whose link was removed, or is no longer in the configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tamis.node import records
from tamis.node.effects import Key, Link, Persist
from tamis.node.overflow import link_of, overflow_of

__all__ = ["forget_neighbours"]

#: Records about a neighbour, under its name.
_OF_NEIGHBOURS = (
    records.INTEREST,
    records.RANGES,
    records.BLOCK,
    records.SPOKEN,
    records.TABLE,
    records.NUMBER,
    records.PAUSED,
    records.PAUSING,
    records.SKIPPED,
    records.LINK_GAP,
    records.REACH,
)

#: Records that clients never have: a name with one of them is the name of a broker.
_ONLY_OF_NEIGHBOURS = (records.SPOKEN.name, records.NUMBER.name, records.LINK_OVERRIDE.name, records.REACH.name)


def forget_neighbours(stored: Mapping[Key, bytes], neighbours: Collection[Link], epoch: int) -> list[Persist]:
    """Return the changes that delete the records of former neighbours, except for the ends of their streams.

    ``epoch`` is the number of this broker's life.
    """
    brokers = {key[1] for key in stored if key[0] in _ONLY_OF_NEIGHBOURS}
    brokers |= {link_of(name) for (name,), _ in records.OVERFLOW_END.items(stored)}
    former_neighbours = brokers.difference(neighbours)
    changes: list[Persist] = []
    for (link,), cursor in records.LINK.items(stored):
        if link not in former_neighbours:
            continue
        former = records.FORMER.find(stored, link)
        life = (records.LIFE.find(stored, link) or epoch) if former is None else former.epoch
        changes.append(records.LINK.drop(link))
        changes += [records.FORMER.drop(link)] if former is not None else []
        if cursor.peer_epoch and records.REMOVED.key(link) not in stored:
            removed = records.Removed(life, cursor.peer_epoch, cursor.received)
            changes.append(records.REMOVED.put(link, value=removed))
    names = {kind.name for kind in _OF_NEIGHBOURS}
    keys = [key for key in stored if key[0] in names and key[1] in former_neighbours]
    keys += [key for key in map(_overflow_key, former_neighbours) if key in stored]
    return [*changes, *(Persist(key, None) for key in keys)]


def _overflow_key(link: Link) -> Key:
    return records.OVERFLOW_END.key(overflow_of(link))
