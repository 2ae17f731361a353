"""What a broker did: ``/metrics`` for Prometheus, ``/v1/statistics`` for people, ``/healthz`` for watchers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import RefusedError
from tamis.web.server import Server, server_of
from tamis.web.views import View

__all__ = ["Metrics", "demand_overview", "health", "metrics", "statistics"]

#: Clients whose backlog is shown, the longest first.
SLOWEST = 10


class Metrics(Collector):
    """Reads the broker's own counters when somebody asks; only latencies are measured here."""

    def __init__(self, server: Server) -> None:
        self._server = server
        #: Everything, for admins; and everything but the names of clients.
        self.registry, self.without_names = CollectorRegistry(), CollectorRegistry()
        self.registry.register(_Slowest(server))
        # Not in the registry of the process: several brokers may run in one.
        self.requests = Histogram(
            "tamis_request_seconds", "Time to answer an HTTP request", ["route", "status"], registry=None
        )
        for registry in (self.registry, self.without_names):
            registry.register(self)
            registry.register(self.requests)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield what there is to know."""
        found = _statistics(self._server)
        for name, value in found["totals"].items():
            yield CounterMetricFamily(f"tamis_{name}", name.replace("_", " "), value=value)
        for name, value in found["now"].items():
            yield GaugeMetricFamily(f"tamis_{name}", name.replace("_", " "), value=value)
        for field in ("table_entries", "suppressed", "events", "false_positives", "waiting"):
            family = GaugeMetricFamily(f"tamis_link_{field}", f"{field} of a link", labels=["link"])
            for link in found["links"]:
                family.add_metric([link["link"]], link[field])
            yield family


class _Slowest(Collector):
    """The clients for which most waits, by name."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what waits for each of them."""
        slow = GaugeMetricFamily("tamis_client_waiting", "messages that wait, for the slowest", labels=["client"])
        for client in _slowest(self._server):
            slow.add_metric([client["client"]], client["waiting"])
        yield slow


async def metrics(request: Request) -> Response:
    """Show the metrics in the format of Prometheus."""
    metrics, view = request.app.state.metrics, demand_overview(request)
    text = generate_latest(metrics.registry if view.rights.is_admin else metrics.without_names)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


async def statistics(request: Request) -> Response:
    """Show what the broker did, per link and per client."""
    view, found = demand_overview(request), _statistics(server_of(request))
    for one in found["slowest"]:
        one["client"] = one["client"] if view.names(one["client"]) else None
    return JSONResponse(found)


async def health(request: Request) -> Response:
    """Say whether the broker takes events now."""
    server = server_of(request)
    server.access.check_origin(request)
    full = server.broker.disk.is_full
    return JSONResponse({"status": "disk full" if full else "ok", "broker": server.config.name}, 503 if full else 200)


def demand_overview(request: Request) -> View:
    """Return what a client may see; `RefusedError` unless that is every event of all namespaces, or it is an admin."""
    view = server_of(request).view(request)
    rights = view.rights
    if not rights.is_admin and (rights.namespaces is not None or rights.policy is not None):
        raise RefusedError(403, "this shows all namespaces and events; this token is for some: --admin may see it")
    return view


def _statistics(server: Server) -> dict[str, Any]:
    broker = server.broker
    waiting, traffic, disk = broker.waiting, broker.traffic, broker.disk
    names = [link.name for link in server.config.links]
    return {
        "broker": server.config.name,
        "totals": {
            "events": traffic.events,
            "deliveries": traffic.deliveries,
            "missed": traffic.missed,
            "commits": disk.commits,
            "commit_changes": disk.changes,
            "commit_seconds": disk.seconds,
        },
        "now": {
            "subscriptions": len(broker.asked),
            "connections": len(broker.connected),
            "waiting": sum(waiting.values()),
            "suspended": len(broker.suspended),
            "disk_bytes": disk.bytes,
            "disk_full": int(disk.is_full),
        },
        "links": [_link(server, name, waiting.get(name, 0)) for name in names],
        "slowest": _slowest(server),
        "schema": {name: kind.name for name, kind in broker.schema.items()},
    }


def _slowest(server: Server) -> list[dict[str, Any]]:
    names = {link.name for link in server.config.links}
    waiting = ((n, link) for link, n in server.broker.waiting.items() if link not in names)
    slowest = sorted((-n, link) for n, link in waiting if n)[:SLOWEST]
    return [{"client": link, "waiting": -n} for n, link in slowest]


def _link(server: Server, name: str, waiting: int) -> dict[str, Any]:
    counts, entries = server.broker.counters(name)
    hidden = sum(1 for _ in server.broker.stand_ins(name))
    return {
        "link": name,
        "connected": name in server.broker.connected,
        "announced": counts.announced,
        "retracted": counts.retracted,
        "suppressed": hidden,
        "table_entries": entries,
        "events": counts.events,
        "false_positives": counts.false_positives,
        "waiting": waiting,
    }
