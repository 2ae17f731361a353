"""What a broker demands of the place where it keeps its state.

All engines make the same promises. A commit is whole or not there (promise G11) and durable when it returns (G1);
what is read was written so (G14); a full disk raises `DiskFullError` and changes nothing (G15). Whatever else goes
wrong raises `StoreError`, and the process stops: what was confirmed is in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from tamis.errors import StoreError
from tamis.node.effects import Key, Link, Persist
from tamis.node.outbox import Backlog
from tamis.runtime.stores.audit_log import AuditRecord

__all__ = ["StandbyStoppedError", "Store"]


class StandbyStoppedError(StoreError):
    """A broker that waited for its store was told to stop."""


class Store(Protocol):
    """The durable state of one broker: one process at a time, one thread that commits; others may read meanwhile."""

    #: Where it is, for messages to people; it never holds a password.
    place: str
    #: Called from any thread with the error that a reader met, or that ended the store's right to write.
    on_damage: Callable[[StoreError], object]

    @property
    def audited(self) -> int:
        """The number of the last record of the audit."""
        ...

    @property
    def fence(self) -> int:
        """How often the right to write has changed hands; 0: it cannot change hands."""
        ...

    @property
    def is_cut_off(self) -> bool:
        """Whether the store has not answered for so long that another broker may have taken over."""
        ...

    def load(self) -> dict[Key, bytes]:
        """Return everything that was persisted and not removed, after checking all of it; called once, first.

        Messages stay in the store: `take_backlogs` says which wait, `read_outbox` reads them.
        """
        ...

    def take_backlogs(self) -> dict[Link, Backlog]:
        """Return what waits for each link, as `load` found it; the store forgets it."""
        ...

    def commit(self, changes: Iterable[Persist], *, now: float) -> None:
        """Make changes durable, all or none.

        `DiskFullError`: nothing was written, and the same call may succeed later. `StoreError`: stop the process.
        """
        ...

    def read_outbox(self, link: Link, after: int, limit: int = 256) -> list[tuple[int, bytes]]:
        """Return the oldest messages of a link with numbers above ``after``, acknowledged ones included.

        They have at most `tamis.runtime.stores.messages.PAGE_BYTES`; one message may have more.
        """
        ...

    def read_audit(self, before: int | None = None, limit: int = 100) -> list[AuditRecord]:
        """Return the newest records of the audit with numbers below ``before``, the newest first."""
        ...

    def trim(self, before: float, max_bytes: int | None = None) -> int:
        """Delete acknowledged messages older than a moment, and the oldest ones beyond some bytes; return how many.

        One call deletes a bounded number (`tamis.runtime.stores.retention.TRIM_ROWS`).
        """
        ...

    def trim_audit(self, *, keep: int, before: float) -> int:
        """Delete what is beyond the newest ``keep`` records of each table of the audit, or older; return how many."""
        ...

    def size(self) -> int:
        """Return the bytes that the state takes."""
        ...

    def has_room(self, min_free: int) -> bool:
        """Whether there is room for new records: more than ``min_free`` bytes, as far as the engine can tell."""
        ...

    def close(self) -> None:
        """Let go of the store; nothing is written that `commit` has not written."""
        ...
