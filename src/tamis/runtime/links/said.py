"""Which links a broker has: those of its configuration file, changed by what was said while it ran.

The later word counts. A record of what was said at run time keeps beside it what the file said about the link at that
moment. If the file says something else when the broker starts, it was edited since: then the file counts, and the
record goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from tamis.node import records
from tamis.node.effects import Key, Persist
from tamis.runtime.broker.config import LinkConfig

__all__ = ["Said", "SettledLinks", "settle_links"]


class Said(msgspec.Struct, frozen=True):
    """What was said about a link at run time (None: remove it), and what the configuration file said then."""

    link: LinkConfig | None
    file: LinkConfig | None

    def record(self, name: str) -> Persist:
        """Return the change that keeps it."""
        return records.SAID.put(name, value=msgspec.json.encode(self))


@dataclass
class SettledLinks:
    """The links of a broker that starts, what to persist, and what to tell the operator."""

    links: dict[str, LinkConfig]
    changes: list[Persist] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def settle_links(file: Iterable[LinkConfig], stored: Mapping[Key, bytes]) -> SettledLinks:
    """Return the links that the file and the store say together.

    >>> south = LinkConfig("south")
    >>> removed = {records.SAID.key("south"): msgspec.json.encode(Said(None, south))}
    >>> settle_links([south], removed).links, list(settle_links([LinkConfig("south", "http://s")], removed).links)
    ({}, ['south'])
    """
    configured = {link.name: link for link in file}
    settled = SettledLinks(dict(configured))
    for (name,), value in sorted(records.SAID.items(stored)):
        said = msgspec.json.decode(value, type=Said)
        if configured.get(name) != said.file:
            settled.changes.append(records.SAID.drop(name))
            settled.notes.append(f"link {name}: the configuration file was changed since and counts again")
        elif said.link is not None:
            settled.links[name] = said.link
            settled.notes.append(f"link {name}: as it was added while the broker ran")
        elif settled.links.pop(name, None) is not None:
            settled.notes.append(f"link {name}: in the configuration file, and removed while the broker ran")
    return settled
