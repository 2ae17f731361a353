"""A broker from its configuration: schema, core, disk, driver."""

from __future__ import annotations

import threading
import time

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
from tamis.runtime.stores.opening import open_store
from tamis.runtime.stores.protocol import Store

__all__ = ["open_broker"]


def _load(store: Store) -> tuple[Store, dict[Key, bytes]]:
    """Return a store and what it holds; one that cannot be read is closed again."""
    try:
        return store, store.load()
    except BaseException:
        store.close()
        raise


def open_broker(config: BrokerConfig, store: Store | None = None) -> Driver:
    """Return the driver of a broker, ready to start; ``store`` is one that was opened before, which it then owns."""
    config.check()
    store, stored = _load(open_store(config) if store is None else store)
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
            drops=frozenset(link.name for link in config.links if link.when_full == "drop"),
        ),
        content,
        ends,
        policies={tenant.namespace: tenant.policy for tenant in config.tenants},
        max_backlog=config.max_backlog,
        max_backlog_bytes=config.max_backlog_bytes,
        borders={link.name: frozenset(link.namespaces) for link in config.links if link.namespaces},
        audited=store.audited,
    )
    # A life without a disk before it begins a new epoch, above that of every earlier one.
    epoch = round(time.time() * 1e6)
    quota = Quota(config.max_link_messages, config.max_link_bytes)
    codec = Codec(m.encode, m.decode)
    backlogs, read = store.take_backlogs(), store.read_outbox
    node = Node(edge, list(neighbours), codec, epoch, stored, quota, ends, backlogs=backlogs, read=read)
    return Driver(node, store, min_free=config.min_free)
