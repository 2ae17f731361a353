"""Which links a broker has: those of its configuration file, changed by what was said while it ran.

The later word counts. A record of what was said at run time keeps beside it what the file said about the link at that
moment. If the file says something else when the broker starts, it was edited since: then the file counts, and the
record goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tamis.node import records
from tamis.node.effects import Key, Persist
from tamis.runtime.broker.config import LinkConfig

__all__ = ["FILES", "Said", "SettledLinks", "beside_data", "settle_links"]

#: The settings of a link that name files. Those that are said at run time are in the folder ``links`` of the data
#: directory, so that an admin cannot have the broker read, and send away, any other file.
FILES = ("token_file", "ca_file")


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


def beside_data(link: LinkConfig, data: str) -> LinkConfig:
    """Return a link that was said at run time with the places of its files."""
    places = {name: str(Path(data) / "links" / getattr(link, name)) for name in FILES if getattr(link, name)}
    return msgspec.structs.replace(link, **places)


def settle_links(file: Iterable[LinkConfig], stored: Mapping[Key, bytes], data: str = "") -> SettledLinks:
    """Return the links that the file and the store say together; ``data`` is the data directory.

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
            settled.links[name] = beside_data(said.link, data)
            settled.notes.append(f"link {name}: as it was added while the broker ran")
        elif settled.links.pop(name, None) is not None:
            settled.notes.append(f"link {name}: in the configuration file, and removed while the broker ran")
    return settled
