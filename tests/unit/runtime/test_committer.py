"""Group commit: confirmations follow what is durable, in order, and a full disk delays both."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from tamis.errors import DiskFullError, StoreError
from tamis.node.effects import Persist
from tamis.runtime.broker import committer as module
from tamis.runtime.broker.committer import Committer


class Disk:
    """A store that notes each transaction; it waits for ``gate``, and can be full or broken."""

    def __init__(self) -> None:
        self.commits: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.full_for = 0
        #: Records for which there is no room.
        self.too_large: set[str] = set()
        self.is_broken = False

    def commit(self, changes: list[Persist], *, now: float) -> None:
        assert self.gate.wait(30)
        if self.is_broken:
            raise StoreError("disk", "broken")
        if self.full_for:
            self.full_for -= 1
            raise DiskFullError("disk")
        if self.too_large & {change.key[0] for change in changes}:
            raise DiskFullError("disk")
        self.commits.append([change.key[0] for change in changes])

    @property
    def keys(self) -> list[str]:
        return [key for group in self.commits for key in group]


def change(name: str) -> list[Persist]:
    return [Persist((name,), b"1")]


async def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


def run(scenario: Callable[[Committer, Disk, list[Any]], Any]) -> Disk:
    """Run a scenario with a committer; the list gets what fails."""

    async def main() -> Disk:
        disk, failures = Disk(), []
        committer = Committer(disk, asyncio.get_running_loop(), failures.append)  # type: ignore[arg-type]
        committer.start()
        await scenario(committer, disk, failures)
        disk.gate.set()
        await asyncio.to_thread(committer.stop)
        return disk

    return asyncio.run(main())


def test_nothing_is_confirmed_before_it_is_durable() -> None:
    async def scenario(committer: Committer, disk: Disk, _: list[Any]) -> None:
        seen: list[list[str]] = []
        for name in "abc":
            committer.put(change(name), lambda: seen.append(disk.keys))
        await until(lambda: len(seen) == 3)
        assert all(name in keys for name, keys in zip("abc", seen, strict=True))

    run(scenario)


def test_no_confirmation_comes_while_the_disk_is_busy() -> None:
    async def scenario(committer: Committer, disk: Disk, _: list[Any]) -> None:
        confirmed: list[str] = []
        disk.gate.clear()
        committer.put(change("a"), lambda: confirmed.append("a"))
        await asyncio.sleep(0.05)
        assert not confirmed
        disk.gate.set()
        await until(lambda: confirmed)

    run(scenario)


def test_what_gathers_during_a_commit_shares_the_next_one_in_order() -> None:
    async def scenario(committer: Committer, disk: Disk, _: list[Any]) -> None:
        confirmed: list[str] = []
        disk.gate.clear()
        for name in "abcdef":
            committer.put(change(name), lambda name=name: confirmed.append(name))
            await asyncio.sleep(0.02 if name == "a" else 0)
        disk.gate.set()
        await until(lambda: len(confirmed) == 6)
        assert confirmed == disk.keys == list("abcdef")
        assert disk.commits == [["a"], list("bcdef")]

    run(scenario)


def test_a_full_disk_is_tried_again_and_nothing_is_confirmed_meanwhile(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)

    async def scenario(committer: Committer, disk: Disk, failures: list[Any]) -> None:
        confirmed: list[list[str]] = []
        disk.full_for = 3
        committer.put(change("a"), lambda: confirmed.append(disk.keys))
        await until(lambda: confirmed)
        assert confirmed == [["a"]]
        assert not failures
        assert not committer.is_full

    assert run(scenario).commits == [["a"]]


def test_what_needs_no_room_does_not_wait_behind_what_does(monkeypatch: Any) -> None:
    """A group that the disk has no room for is committed one by one, in order."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)

    async def scenario(committer: Committer, disk: Disk, _: list[Any]) -> None:
        confirmed: list[str] = []
        disk.gate.clear()
        for name in ("first", "acknowledgement", "large", "last"):
            committer.put(change(name), lambda name=name: confirmed.append(name))
            await asyncio.sleep(0.02 if name == "first" else 0)
        disk.too_large.add("large")
        disk.gate.set()
        await until(lambda: len(confirmed) == 2)
        await asyncio.sleep(0.05)
        assert (confirmed, committer.is_full) == (["first", "acknowledgement"], True)
        disk.too_large.clear()
        await until(lambda: len(confirmed) == 4)

    assert run(scenario).commits == [["first"], ["acknowledgement"], ["large"], ["last"]]


def test_is_full_as_long_as_the_disk_is(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)

    async def scenario(committer: Committer, disk: Disk, _: list[Any]) -> None:
        disk.full_for = 1_000_000
        committer.put(change("a"), lambda: None)
        await until(lambda: committer.is_full)
        disk.full_for = 0
        await until(lambda: not committer.is_full)

    run(scenario)


def test_what_cannot_be_written_is_reported_and_never_confirmed() -> None:
    async def scenario(committer: Committer, disk: Disk, failures: list[Any]) -> None:
        confirmed: list[str] = []
        disk.is_broken = True
        committer.put(change("a"), lambda: confirmed.append("a"))
        await until(lambda: failures)
        assert isinstance(failures[0], StoreError)
        await asyncio.sleep(0.02)
        assert not confirmed

    run(scenario)


def test_stopping_commits_what_was_put() -> None:
    async def scenario(committer: Committer, disk: Disk, _: list[Any]) -> None:
        disk.gate.clear()
        for name in "abc":
            committer.put(change(name), lambda: None)
            await asyncio.sleep(0.02)  # the first one is being written
        stopping = asyncio.create_task(asyncio.to_thread(committer.stop))
        await until(committer._stopped.is_set)
        disk.gate.set()
        await stopping

    assert run(scenario).keys == list("abc")


def test_an_action_runs_after_what_was_put_before_it() -> None:
    async def scenario(committer: Committer, disk: Disk, _: list[Any]) -> None:
        seen: list[list[str]] = []
        disk.gate.clear()
        committer.put(change("a"), lambda: None)
        committer.put(change("b"), lambda: None)
        committer.run_between(lambda: seen.append(disk.keys))
        committer.put(change("c"), lambda: None)
        disk.gate.set()
        await until(lambda: len(disk.keys) == 3)
        assert seen == [["a", "b"]]

    run(scenario)
