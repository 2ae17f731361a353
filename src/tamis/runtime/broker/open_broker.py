"""A broker from its configuration: schema, core, disk, driver."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from tamis.engine.merging import BackgroundMerge
from tamis.node import records
from tamis.node.content import Content
from tamis.node.node import Codec, Node
from tamis.node.stream import Ends, Quota
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.routing.former_neighbours import forget_neighbours
from tamis.runtime.broker.config import BrokerConfig, LinkConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.links.link_set import LinkSet
from tamis.runtime.links.overrides import settle_links
from tamis.runtime.stores.opening import open_store
from tamis.runtime.stores.protocol import Store
from tamis.runtime.traces.broker_traces import BrokerTraces
from tamis.runtime.traces.opening import open_traces

__all__ = ["open_broker"]

_log = logging.getLogger("tamis")


def _load(store: Store) -> tuple[Store, records.Stored]:
    """Return a store and what it holds; one that cannot be read is closed again."""
    try:
        return store, records.Stored(store.load())
    except BaseException:
        store.close()
        raise


def open_broker(config: BrokerConfig, store: Store | None = None) -> Driver:
    """Return the driver of a broker, ready to start; ``store`` is one that was opened before, which it then owns."""
    config.check()
    traces = open_traces(config)
    store, stored = _load(open_store(config) if store is None else store)
    links = _settle_links(config, store, stored)
    content = Content(config.read_schema())
    ends = Ends()
    edge = _edge_type(traces)(
        _make_core(config, links, content),
        content,
        ends,
        policies={tenant.namespace: tenant.policy for tenant in config.tenants},
        max_backlog=config.max_backlog,
        max_backlog_bytes=config.max_backlog_bytes,
        borders={name: frozenset(link.namespaces) for name, link in links.items() if link.namespaces},
        audited=store.audited,
    )
    # A life without a disk before it begins a new epoch, above that of every earlier one.
    epoch = round(time.time() * 1e6)
    quota = Quota(config.max_link_messages, config.max_link_bytes)
    codec = Codec(m.encode, m.decode)
    backlogs, read = store.take_backlogs(), store.read_outbox
    heads = (records.LINK, records.OVERFLOW_END)
    backlogs = {link: backlog for link, backlog in backlogs.items() if any(head.key(link) in stored for head in heads)}
    node = Node(edge, list(links), codec, epoch, stored, quota, ends, backlogs=backlogs, read=read)
    return Driver(node, store, LinkSet(config, links), min_free=config.min_free, traces=traces)


def _make_core(config: BrokerConfig, links: Mapping[str, LinkConfig], content: Content) -> BrokerCore:
    return BrokerCore(
        config.name,
        {name: link.read_policy() for name, link in links.items()},
        content,
        merging=BackgroundMerge(threading.RLock()),
        patience=config.active_seconds,
        drops=frozenset(name for name, link in links.items() if link.when_full == "drop"),
    )


def _edge_type(traces: BrokerTraces | None) -> Callable[..., EdgeCore]:
    """Return what makes the core of a broker: one that shows its steps where these are traced."""
    if traces is None:
        return EdgeCore
    from tamis.runtime.traces.traced_edge import TracedEdge

    return partial(TracedEdge, traces)


def _settle_links(config: BrokerConfig, store: Store, stored: records.Stored) -> dict[str, LinkConfig]:
    """Return the links of a broker that starts; what the store has of former neighbours goes."""
    settled = settle_links(config.links, stored, config.data)
    for note in settled.notes:
        _log.warning("%s", note)
    msgspec.structs.replace(config, links=tuple(settled.links.values())).check()
    changes = [*settled.changes, *forget_neighbours(stored, settled.links, records.EPOCH.find(stored) or 0)]
    if changes:
        store.commit(changes, now=time.time())
        stored.apply(changes)
    return settled.links
