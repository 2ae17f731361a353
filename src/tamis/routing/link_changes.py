"""What a broker does with messages about its links: one is added, removed, refused because of a ring, or used again.

A new neighbour is treated like any neighbour that has none of our state. Its table is assembled in slices, one per
step. The entries of a removed neighbour are withdrawn in slices, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tamis.node import records
from tamis.node.core import Dropped, LinkRoom, Word
from tamis.node.effects import Again, Effect, Key, Leave, Link, Persist
from tamis.routing import messages as m
from tamis.routing.core.link_gaps import AddLink, RemoveLink
from tamis.routing.early_entries import EarlyEntries
from tamis.routing.neighbour_checks import check_message
from tamis.routing.rings import Readmit
from tamis.routing.table_parts import Connected

if TYPE_CHECKING:
    from tamis.routing.core.broker import BrokerCore

__all__ = ["disconnect_neighbour", "link_handlers", "restore_rings", "still_leaving"]

#: The records that hold the entries and ranges of neighbours.
_OF_TABLES = (records.INTEREST.name, records.RANGES.name, records.BLOCK.name)


def link_handlers(core: BrokerCore) -> dict[type, Callable[[Any, Link, float], list[Effect]]]:
    """Return the handlers of messages about links, by message type."""
    return {
        AddLink: lambda message, sender, now: _add(core, message, now),
        RemoveLink: lambda message, sender, now: _remove(core, message),
        Readmit: lambda message, sender, now: _readmit(core, message, now),
        Word: lambda message, sender, now: _take_word(core, message, sender),
        LinkRoom: lambda message, sender, now: core.flow.use_room(sender),
        Dropped: lambda message, sender, now: core.events.drop(message, sender),
        EarlyEntries: lambda message, sender, now: _enter_early(core, message, sender),
        Connected: lambda message, sender, now: _connect(core, message, sender),
    }


def restore_rings(core: BrokerCore, stored: Mapping[Key, bytes], now: float) -> list[Effect]:
    """Restore which brokers are behind each link, and drop the links that are refused."""
    rings = core.flow.rings
    effects = rings.restore(stored, now)
    for link in rings.refused:
        effects += [*_drop(core, link), Leave(link, rings.why_refused(link))]
    effects += _refuse(core)
    refused = set(rings.refused)
    obsolete_keys = (key for key in stored if key[0] in _OF_TABLES and key[1] in refused)
    return [*effects, *(Persist(key, None) for key in obsolete_keys)]


def still_leaving(link: Link) -> str:
    """Return the error for a link that is added while the entries of its former neighbour are still withdrawn."""
    return f"the entries of the former link {link!r} are still being withdrawn; try again in a few seconds"


def _add(core: BrokerCore, message: AddLink, now: float) -> list[Effect]:
    link, flow = message.link, core.flow
    core.table.add_neighbour(link, message.policy)
    core._neighbours[link] = message.policy
    core._confirmations.add(link)
    effects: list[Effect] = [message.record, *flow.add(link, drops=message.drops)]
    effects += flow.rings.add(link, message.policy, now)
    effects += flow.rings.put_in_place(message.dead, link) if message.dead else []
    return [*effects, *(flow.send(link, resent_message) for resent_message in message.resent), Again()]


def _remove(core: BrokerCore, message: RemoveLink) -> list[Effect]:
    dropped = _drop(core, message.link) if core.is_neighbour(message.link) else []
    return [message.record, *core.flow.rings.remove(message.link), *dropped]


def _drop(core: BrokerCore, link: Link) -> list[Effect]:
    """Forget a neighbour. Its entries are withdrawn in steps, and nothing waits for its confirmations from now on."""
    del core._neighbours[link]
    core.outgoing.stop(link)
    core.outgoing.disconnect(link)
    core._confirmations.remove(link)
    effects: list[Effect] = [records.SPOKEN.drop(link), records.NUMBER.drop(link), core.received.forget(link)]
    effects += [*core.table.remove_neighbour(link), *core.flow.remove(link)]
    del core.counters[link]
    return [*effects, *core._announce(), *core._settle(), Again()]


def _take_word(core: BrokerCore, message: Word, sender: Link) -> list[Effect]:
    if not isinstance(message.message, m.Reach):
        return []
    return [*core.flow.rings.take(sender, message.message), *_refuse(core, sender)]


def _enter_early(core: BrokerCore, message: EarlyEntries, sender: Link) -> list[Effect]:
    check_message(message.message, sender, core.name)
    return [*core.received.enter_early(message.message, sender), *core._announce()]


def _connect(core: BrokerCore, message: Connected, sender: Link) -> list[Effect]:
    core.outgoing.connect(sender, message)
    return [*core.flow.rings.greet(sender), *core._announce()]


def disconnect_neighbour(core: BrokerCore, link: Link) -> list[Effect]:
    """Note that the connection to a neighbour is lost, perhaps because the neighbour refuses the link."""
    core.flow.rings.part(link)
    core.outgoing.disconnect(link)
    return _refuse(core, link)


def _refuse(core: BrokerCore, changed: Link = "") -> list[Effect]:
    """Treat links that would close a ring of brokers as removed; with ``changed`` only rings through it are checked."""
    effects: list[Effect] = []
    while (refusable := core.flow.rings.find_refusable(changed)) is not None:
        link, ring = refusable
        effects += [*core.flow.rings.refuse(link, ring), *_drop(core, link)]
        effects.append(Leave(link, core.flow.rings.why_refused(link)))
    return effects


def _readmit(core: BrokerCore, message: Readmit, now: float) -> list[Effect]:
    policy, drops = core.flow.rings.policies[message.link], message.link in core.flow.drops
    return _add(core, AddLink(message.link, policy, records.SPOKEN.drop(message.link), drops), now)
