"""A simulated disk: what a broker committed, and the messages that it retains after they were acknowledged."""

from __future__ import annotations

from collections.abc import Iterable

from tamis.node import records
from tamis.node.effects import Key, Link, Persist
from tamis.node.outbox import Backlog

__all__ = ["SimulatedDisk"]

#: The kinds of records that are messages of streams, and those that head the streams.
_MESSAGES = (records.OUT.name, records.OVERFLOW.name)
_HEADS = (records.LINK.name, records.OVERFLOW_END.name)


class SimulatedDisk:
    """The same promises as `tamis.runtime.stores.protocol.Store`: all changes of a commit or none, and replays."""

    def __init__(self) -> None:
        self.state: dict[Key, bytes] = {}
        #: ``{link: {number: message}}``: every message of a stream, acknowledged ones included.
        self._streams: dict[Link, dict[int, bytes]] = {}
        #: Records of the audit and of activity, by number.
        self.audit: dict[int, bytes] = {}

    def commit(self, changes: Iterable[Persist]) -> None:
        """Make changes durable."""
        for change in changes:
            kind = change.key[0]
            if kind in _MESSAGES and change.value is not None:
                self._append(change.key[1], int(change.key[2]), change.value)
            elif kind == records.OVERFLOW.name:
                self._streams[change.key[1]].pop(int(change.key[2]))
            elif kind in _HEADS and change.value is None:
                self._streams.pop(change.key[1], None)
            elif kind in ("audit", "activity") and change.value is not None:
                self.audit[int(change.key[1])] = change.value
                continue
            if change.value is None:
                self.state.pop(change.key, None)
            else:
                self.state[change.key] = change.value

    def copy(self) -> SimulatedDisk:
        """Return a backup."""
        backup = SimulatedDisk()
        backup.state, backup.audit = dict(self.state), dict(self.audit)
        backup._streams = {link: dict(stream) for link, stream in self._streams.items()}
        return backup

    def load(self) -> dict[Key, bytes]:
        """Return everything but messages."""
        return {key: value for key, value in self.state.items() if key[0] not in _MESSAGES}

    def backlogs(self) -> dict[Link, Backlog]:
        """Return what waits for links."""
        backlogs: dict[Link, Backlog] = {}
        keys = (key for key in self.state if key[0] in _MESSAGES)
        for link, number, size in sorted((key[1], int(key[2]), len(self.state[key])) for key in keys):
            backlogs.setdefault(link, Backlog(number - 1)).sizes.append(size)
        return backlogs

    def read_outbox(self, link: Link, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return the oldest messages of a link with numbers above ``after``, acknowledged ones included."""
        stream = self._streams.get(link, {})
        return [(number, body) for number, body in stream.items() if number > after][:limit]

    def _append(self, link: Link, number: int, body: bytes) -> None:
        stream = self._streams.setdefault(link, {})
        if number in stream:  # the stream began again
            stream.clear()
        stream[number] = body
