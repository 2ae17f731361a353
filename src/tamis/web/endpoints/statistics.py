"""Counters of a broker: ``/metrics`` for Prometheus, ``/v1/statistics`` as JSON, and ``/healthz`` for probes."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Iterator
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import RefusedError
from tamis.index.zcurve.index import CurveSearches
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.node.effects import Link
from tamis.web.server import Server, server_of
from tamis.web.views import View
from tamis.web.work.pacing import Pace, Shares

__all__ = ["Metrics", "Overview", "demand_overview", "health", "metrics", "statistics"]

#: Clients whose backlog is shown, the longest first.
SLOWEST = 10

#: The share of one core that counting may take, and the seconds of a count that is made whenever it is asked for.
SHARE, MOST_ALWAYS = 0.02, 0.005


class Overview:
    """The counters and sizes of a broker, cached for all callers.

    Clients with a queue are counted in slices, and a new count is made only when the last one took less than
    `SHARE` of the time since: small brokers show the present, and on large ones a monitor that polls every second costs
    no more than one that polls every minute.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._turn = asyncio.Lock()
        self._next = 0.0
        #: The last count.
        self.last: dict[str, Any] = {}

    async def fresh(self) -> dict[str, Any]:
        """Return the last count, or a new one when it is time."""
        async with self._turn:
            if time.monotonic() >= self._next:
                start = time.thread_time()
                waiting = await self._waiting()
                self.last = _statistics(self._server, waiting)
                self._next = time.monotonic() + (time.thread_time() - start) / SHARE - MOST_ALWAYS / SHARE
        return self.last

    async def _waiting(self) -> dict[Link, int]:
        """Return how many messages wait for each client and neighbour that has some."""
        waiting, pace = dict[Link, int](), Pace(Shares(), self._server.broker.name)
        await pace.begin()
        for number, link in enumerate(list(self._server.broker.links)):
            if n := self._server.broker.waiting_for(link):
                waiting[link] = n
            if number % 1_000 == 0:
                await pace.breathe()
        return waiting


class Metrics(Collector):
    """Shows the broker's own counters when a monitor asks; only latencies are measured here."""

    def __init__(self, server: Server) -> None:
        self.overview = Overview(server)
        #: Everything, for admins; and everything but the names of clients.
        self.registry, self.without_names = CollectorRegistry(), CollectorRegistry()
        self.registry.register(_Slowest(self.overview))
        labels, about = ["route", "status"], "Time to answer an HTTP request"
        self.requests = Histogram("tamis_request_seconds", about, labels, registry=None)  # not the process's own
        for registry in (self.registry, self.without_names):
            registry.register(self)
            registry.register(self.requests)

    def describe(self) -> list[Metric]:
        """Return no names: without this the registry would collect before there is anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted last."""
        overview = self.overview.last
        for name, value in overview["totals"].items():
            yield CounterMetricFamily(f"tamis_{name}", name.replace("_", " "), value=value)
        for name, value in overview["now"].items():
            yield GaugeMetricFamily(f"tamis_{name}", name.replace("_", " "), value=value)
        for field in ("table_entries", "suppressed", "events", "dropped", "false_positives", "waiting"):
            family = GaugeMetricFamily(f"tamis_link_{field}", f"{field} of a link", labels=["link"])
            for link in overview["links"]:
                family.add_metric([link["link"]], link[field])
            yield family
        yield from _searches(overview["links"])


def _searches(links: list[dict[str, Any]]) -> Iterator[Metric]:
    """Yield the searches for covers of the links that search on the Z curve."""
    for field in CurveSearches._fields:
        family = GaugeMetricFamily(f"tamis_link_search_{field}", f"{field} of searches for covers", labels=["link"])
        for link in links:
            if link["searches"] is not None:
                family.add_metric([link["link"]], link["searches"][field])
        yield family


class _Slowest(Collector):
    """The clients for which most waits, by name."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what waits for each of them."""
        slow = GaugeMetricFamily("tamis_client_waiting", "messages that wait, for the slowest", labels=["client"])
        for client in self._overview.last["slowest"]:
            slow.add_metric([client["client"]], client["waiting"])
        yield slow


async def metrics(request: Request) -> Response:
    """Show the metrics in the format of Prometheus."""
    metrics, view = request.app.state.metrics, demand_overview(request)
    await metrics.overview.fresh()
    text = generate_latest(metrics.registry if view.rights.is_admin else metrics.without_names)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


async def statistics(request: Request) -> Response:
    """Show what the broker did, per link and per client."""
    view = demand_overview(request)
    overview = await request.app.state.metrics.overview.fresh()
    slowest = [
        {**client, "client": client["client"] if view.names(client["client"]) else None}
        for client in overview["slowest"]
    ]
    return JSONResponse({**overview, "slowest": slowest})


async def health(request: Request) -> Response:
    """Say whether the broker takes events now."""
    server = server_of(request)
    server.access.check_origin(request)
    disk = server.broker.disk
    status = "disk full" if disk.is_full else "cut off from its store" if disk.is_cut_off else "ok"
    answer: dict[str, Any] = {"status": status, "broker": server.config.name}
    answer["role"] = "cut off" if disk.is_cut_off else "serving"
    if disk.fence:
        answer["fence"] = disk.fence
    return JSONResponse(answer, 503 if disk.is_full or disk.is_cut_off else 200)


def demand_overview(request: Request) -> View:
    """Return what a client may see; `RefusedError` unless that is all namespaces, without a policy or as an admin."""
    view = server_of(request).view(request)
    rights = view.rights
    if rights.namespaces is not None or (rights.policy is not None and not rights.is_admin):
        raise RefusedError(
            403, "statistics cover all namespaces and events: use a token made with --admin and without --namespace"
        )
    return view


def _statistics(server: Server, waiting: dict[Link, int]) -> dict[str, Any]:
    broker = server.broker
    disk = broker.disk
    return {
        "broker": server.config.name,
        "totals": _totals(server),
        "now": {
            "subscriptions": len(broker.subscriptions),
            "connections": len(broker.connected),
            "waiting": sum(waiting.values()),
            "suspended": len(broker.suspended),
            "disk_bytes": disk.bytes,
            "disk_full": int(disk.is_full),
            "webhooks": len(server.webhooks.all),
            "webhooks_suspended": server.webhooks.n_suspended,
        },
        "links": [
            {**_link(server, name, waiting.get(name, 0)), "policy": server.links.policies[name]}
            for name in server.links.all
        ],
        "slowest": _slowest(waiting, list(server.links.all)),
        "schema": {name: kind.name for name, kind in broker.schema_of(DEFAULT_NAMESPACE).items()},
    }


def _totals(server: Server) -> dict[str, float]:
    """Return what was counted since the broker was started."""
    traffic, disk, traces = server.broker.traffic, server.broker.disk, server.driver.traces
    return {
        "events": traffic.events,
        "deliveries": traffic.deliveries,
        "missed": traffic.missed,
        "commits": disk.commits,
        "commit_changes": disk.changes,
        "commit_seconds": disk.seconds,
        **{f"webhook_{name}": server.webhooks.counts[name] for name in ("requests", "failures", "deliveries")},
        **({} if traces is None else traces.counts),
    }


def _slowest(waiting: dict[Link, int], links: list[str]) -> list[dict[str, Any]]:
    clients = ((-n, link) for link, n in waiting.items() if link not in links)
    return [{"client": link, "waiting": -n} for n, link in heapq.nsmallest(SLOWEST, clients)]


def _link(server: Server, name: str, waiting: int) -> dict[str, Any]:
    link = server.broker.link(name)
    counts = link.counters
    hidden = server.broker.n_suppressed(name)
    return {
        "link": name,
        "connected": link.is_connected,
        "skipped": link.is_skipped,
        "announced": counts.announced,
        "retracted": counts.retracted,
        "suppressed": hidden,
        "table_entries": link.n_entries,
        "events": counts.events,
        "dropped": counts.dropped,
        "false_positives": counts.false_positives,
        "waiting": waiting,
        "searches": None if link.searches is None else link.searches._asdict(),
    }
