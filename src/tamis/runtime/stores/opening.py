"""The store that a configuration names: a data directory, or a PostgreSQL database."""

from __future__ import annotations

import threading
from pathlib import Path

from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.stores.protocol import Store
from tamis.runtime.stores.sqlite_store import SqliteStore

__all__ = ["open_store", "open_to_restore"]


def open_store(config: BrokerConfig, stopped: threading.Event | None = None) -> Store:
    """Open the store of a broker; `StoreError` when another process has it.

    With ``stopped`` it waits until no other process has it; `StandbyStoppedError` when the event is set before that.
    """
    if not config.store:
        return SqliteStore(config.data)
    from tamis.runtime.stores.postgres_store import PostgresStore

    return PostgresStore(config.store, config.name, Path(config.data), stopped=stopped)


def open_to_restore(config: BrokerConfig) -> Store:
    """Open a store in PostgreSQL that an older copy was put into; `StoreError` when it has nothing of the broker."""
    from tamis.runtime.stores.postgres_store import PostgresStore

    return PostgresStore(config.store, config.name, Path(config.data), is_older_copy=True)
