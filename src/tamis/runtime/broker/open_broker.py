"""A broker from its configuration: schema, core, disk, driver."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tamis.engine.merging import BackgroundMerge
from tamis.node.content import Content
from tamis.node.effects import Key, Link
from tamis.node.node import Codec, Node
from tamis.node.stream import Quota, StreamEnd
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.store import Store

__all__ = ["open_broker"]


def _open_store(directory: Path) -> tuple[Store, dict[Key, bytes]]:
    """Return a store and what it holds; one that cannot be read is closed again."""
    store = Store(directory)
    try:
        return store, store.load()
    except BaseException:
        store.close()
        raise


def open_broker(config: BrokerConfig) -> Driver:
    """Return the driver of a broker, ready to start."""
    config.check()
    store, stored = _open_store(Path(config.data))
    content = Content(config.read_schema())
    neighbours = {link.name: link.read_policy() for link in config.links}
    ends: dict[Link, StreamEnd] = {}
    edge = EdgeCore(
        BrokerCore(
            config.name,
            neighbours,
            content,
            merging=BackgroundMerge(threading.RLock()),
            patience=config.active_seconds,
        ),
        content,
        ends,
        policies={tenant.namespace: tenant.policy for tenant in config.tenants},
        max_backlog=config.max_backlog,
        max_backlog_bytes=config.max_backlog_bytes,
        borders={link.name: frozenset(link.namespaces) for link in config.links if link.namespaces},
        audited=store.audit.number,
    )
    # A life without a disk before it begins a new epoch, above that of every earlier one.
    epoch = round(time.time() * 1e6)
    quota = Quota(config.max_link_messages, config.max_link_bytes)
    codec = Codec(m.encode, m.decode)
    backlogs, read = store.messages.take_backlogs(), store.read_outbox
    node = Node(edge, list(neighbours), codec, epoch, stored, quota, ends, backlogs=backlogs, read=read)
    return Driver(node, store, min_free=config.min_free)
