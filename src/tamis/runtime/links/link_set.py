"""The links that a running broker has: listed, added, removed, and each one with an address kept connected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tamis.errors import ModelError, RefusedError
from tamis.files.fields import read_fields
from tamis.routing.core.link_gaps import AddLink, RemoveLink
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig, LinkConfig
from tamis.runtime.broker.machine import BrokerMachine
from tamis.runtime.links.changing import add_link, remove_link
from tamis.runtime.links.keeping import keep_linked
from tamis.runtime.links.overrides import FILES, LinkOverride, beside_data

if TYPE_CHECKING:
    from tamis.runtime.broker.driver import Driver

__all__ = ["LinkSet"]

#: Settings that only a configuration file may have: they name any file, or an environment variable.
_OF_FILES_ONLY = ("cells", "token_env")


class LinkSet:
    """The links of one broker by name: those of ``config``, as they were changed while the broker ran."""

    def __init__(self, config: BrokerConfig, links: Mapping[str, LinkConfig]) -> None:
        self._config = config
        self.all = dict(links)
        #: The policy of each link, as the broker began with it: files may have changed since.
        self.policies = {name: link.read_policy().name for name, link in links.items()}
        self._changed = asyncio.Event()

    def check(self, name: str, settings: Mapping[str, Any]) -> LinkConfig:
        """Return a link with these settings; raise `ModelError` or `RefusedError` (409) if it cannot be added."""
        for field in _OF_FILES_ONLY:
            if field in settings:
                raise ModelError(f"{field} is for the configuration file; here give token_file")
        for field in FILES:
            if (file := settings.get(field)) and (not isinstance(file, str) or Path(file).name != file):
                raise ModelError(f"{field}: expected the name of a file in {self._config.data}/links, not {file!r}")
        try:
            link = read_fields({**settings, "name": name}, LinkConfig)
        except ModelError as error:
            raise ModelError(f"link {name!r}: {error}") from None
        if name in self.all:
            raise RefusedError(409, f"there is a link {name!r} already; remove it first")
        resolved = beside_data(link, self._config.data)
        msgspec.structs.replace(self._config, links=(*self.all.values(), resolved)).check()
        for field in FILES:
            if getattr(link, field) and not Path(getattr(resolved, field)).is_file():
                raise ModelError(f"{field}: there is no file {getattr(link, field)!r} in {self._config.data}/links")
        return link

    async def add(self, machine: BrokerMachine, link: LinkConfig, by: Rights, resend_from: str = "") -> int:
        """Add a link; returns, once it is durable, how many events that wait for a dead link are sent over it."""
        resolved, policy = beside_data(link, self._config.data), link.read_policy()
        record = LinkOverride(link, self._in_file(link.name)).record(link.name)
        spaces = frozenset(link.namespaces) or None
        change = AddLink(link.name, policy, record, drops=link.when_full == "drop", namespaces=spaces)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        add_link(machine, change, by, done.set_result, resend_from)
        n = _count_of(await done)
        self.all[link.name], self.policies[link.name] = resolved, policy.name
        self._changed.set()
        return n

    async def remove(self, machine: BrokerMachine, name: str, by: Rights) -> int:
        """Remove a link; returns, once it is durable, how many events that waited for it were dropped."""
        change = RemoveLink(name, LinkOverride(None, self._in_file(name)).record(name))
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        remove_link(machine, change, by, done.set_result)
        self.all.pop(name, None)  # at once: the neighbour must not connect again
        self._changed.set()
        return _count_of(await done)

    async def keep_connected(self, driver: Driver) -> None:
        """Stay connected to every neighbour that has an address, for ever."""
        tasks: dict[str, tuple[LinkConfig, asyncio.Task[None]]] = {}
        try:
            while True:
                self._changed.clear()
                for name, (link, task) in list(tasks.items()):
                    if self.all.get(name) != link:
                        task.cancel()
                        del tasks[name]
                for name, link in self.all.items():
                    if link.url and name not in tasks:
                        tasks[name] = link, asyncio.create_task(keep_linked(driver, self._config, link))
                await self._changed.wait()
        finally:
            for _, task in tasks.values():
                task.cancel()

    def _in_file(self, name: str) -> LinkConfig | None:
        return next((link for link in self._config.links if link.name == name), None)


def _count_of(answer: Any) -> int:
    """Return the count in an answer of a step; raise the `RefusedError` that it may be."""
    if isinstance(answer, RefusedError):
        raise answer
    return int(answer)
