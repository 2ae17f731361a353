"""A file layer that can lose power: it knows what was flushed, and what was only written.

Every write, truncation and flush is a *point*. At a chosen point the power goes: the call raises, and no later one does
anything. What is then on the disk is what was flushed, and of the writes since then any part: some whole, some torn at
the end of a sector, some not at all.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512

_names = itertools.count()


class PowerCutError(Exception):
    """The power is gone."""


class FaultyDisk(apsw.VFS):
    """A disk that loses power at point ``cut`` (None: never)."""

    def __init__(self, cut: int | None = None, *, lies: bool = False) -> None:
        self.name = f"faulty{next(_names)}"
        super().__init__(self.name, "")
        self.cut = cut
        self.points = 0
        self.is_full = False
        #: Whether it says that it has flushed, and has not.
        self.lies = lies
        self.fails_to_flush = False
        #: What is surely on the disk, by path.
        self.flushed: dict[str, bytearray] = {}
        #: (path, offset, bytes) since the last flush of that path; offset None is a truncation to that number of bytes.
        self.written: list[tuple[str, int | None, bytes | int]] = []

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:
        return FaultyFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if not self.has_power():
            return
        super().xDelete(filename, syncdir)
        self.flushed.pop(filename, None)
        self.written = [write for write in self.written if write[0] != filename]

    def has_power(self) -> bool:
        self.points += 1
        if self.points == self.cut:
            raise PowerCutError
        return self.cut is None or self.points < self.cut

    def after_the_cut(self, rng: random.Random) -> dict[str, bytes]:
        """Return what the files may hold when the power is back."""
        files = {path: bytearray(data) for path, data in self.flushed.items()}
        for path, offset, what in self.written:
            data = files.setdefault(path, bytearray())
            fate = rng.random()
            if fate < 0.4:
                continue
            if offset is None:
                assert isinstance(what, int)
                del data[what:]
            else:
                assert isinstance(what, bytes)
                kept = what if fate > 0.7 else what[: SECTOR * rng.randrange(len(what) // SECTOR + 1)]
                _write(data, offset, kept)
        return {path: bytes(data) for path, data in files.items()}


class FaultyFile(apsw.VFSFile):
    """A file on such a disk."""

    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self.disk = disk
        self.path = name if isinstance(name, str) else name.filename()
        disk.flushed.setdefault(self.path, bytearray(Path(self.path).read_bytes()))

    def xWrite(self, data: bytes, offset: int) -> None:
        if not self.disk.has_power():
            return
        if self.disk.is_full:
            raise apsw.FullError
        self.disk.written.append((self.path, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        if not self.disk.has_power():
            return
        self.disk.written.append((self.path, None, size))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        if not self.disk.has_power():
            return
        if self.disk.fails_to_flush:
            raise apsw.IOError("the disk does not answer")
        if self.disk.lies:  # the real disk need not flush: its power does not go
            return
        self.disk.flushed[self.path] = bytearray(Path(self.path).read_bytes())
        self.disk.written = [write for write in self.disk.written if write[0] != self.path]


def _write(data: bytearray, offset: int, new: bytes) -> None:
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(new)] = new
