"""Which links a broker has: those of its configuration file, with the changes that were made while it ran.

The later change counts. The record of a change at run time also holds the link as it was in the file at that time. If
the file differs from that when the broker starts, it was edited since: then the file counts, and the record is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tamis.errors import ModelError
from tamis.node import records
from tamis.node.effects import Key, Persist
from tamis.runtime.broker.config import LinkConfig

__all__ = ["FILES", "LinkOverride", "SettledLinks", "beside_data", "settle_links"]

#: The settings of a link that name files. For links that are added at run time, the files are in the folder ``links``
#: of the data directory, so that an admin cannot have the broker read, and send away, any other file.
FILES = ("token_file", "ca_file")


class LinkOverride(msgspec.Struct, frozen=True):
    """A link as it was changed at run time (None: removed), and the link in the configuration file at that time."""

    link: LinkConfig | None
    file: LinkConfig | None

    def record(self, name: str) -> Persist:
        """Return the change that persists this override of the link ``name``."""
        return records.LINK_OVERRIDE.put(name, value=msgspec.json.encode(self))


@dataclass
class SettledLinks:
    """The links of a broker that starts, what to persist, and notes for the operator's log."""

    links: dict[str, LinkConfig]
    changes: list[Persist] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def beside_data(link: LinkConfig, data: str) -> LinkConfig:
    """Return a link that was added at run time, with the paths of its files in the data directory."""
    paths = {name: str(Path(data) / "links" / getattr(link, name)) for name in FILES if getattr(link, name)}
    return msgspec.structs.replace(link, **paths)


def settle_links(file: Iterable[LinkConfig], stored: Mapping[Key, bytes], data: str = "") -> SettledLinks:
    """Return the links of the file with the overrides in the store; ``data`` is the data directory.

    >>> south = LinkConfig("south")
    >>> removed = {records.LINK_OVERRIDE.key("south"): msgspec.json.encode(LinkOverride(None, south))}
    >>> settle_links([south], removed).links, list(settle_links([LinkConfig("south", "http://s")], removed).links)
    ({}, ['south'])
    """
    configured = {link.name: link for link in file}
    settled = SettledLinks(dict(configured))
    for (name,), value in sorted(records.LINK_OVERRIDE.items(stored)):
        override = msgspec.json.decode(value, type=LinkOverride)
        if configured.get(name) != override.file:
            settled.changes.append(records.LINK_OVERRIDE.drop(name))
            settled.notes.append(f"link {name}: the configuration file was changed since and counts again")
        elif override.link is not None:
            settled.links[name], problem = _usable(beside_data(override.link, data))
            settled.notes.append(f"link {name}: as it was added while the broker ran{problem}")
        elif settled.links.pop(name, None) is not None:
            settled.notes.append(f"link {name}: in the configuration file, and removed while the broker ran")
    return settled


def _usable(link: LinkConfig) -> tuple[LinkConfig, str]:
    """Return a stored link and "", or one that is not dialled, and why: addresses were not always checked."""
    try:
        link.check_addresses()
    except ModelError as error:
        bare = msgspec.structs.replace(link, url="", standbys=(), token_file="", ca_file="")
        return bare, f", but it is not dialled: {error}. Remove it and add it again"
    return link, ""
