"""The HTTP application of a broker: its routes and middleware."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.tokens import Tokens
from tamis.web.access import Access
from tamis.web.addresses import SlashesInNames
from tamis.web.endpoints import (
    audit,
    comparison,
    delivery_log,
    events,
    explanations,
    links,
    schema,
    statistics,
    streams,
    subscriptions,
    trial,
    websocket,
)
from tamis.web.endpoints.groups import consumers, dead_letters, webhooks
from tamis.web.endpoints.pages import page_routes
from tamis.web.failures import HANDLERS, OneLength, SecurityHeaders
from tamis.web.openapi import document
from tamis.web.server import Server

__all__ = ["make_app"]

Endpoint = Callable[[Request], Awaitable[Response]]


ENDPOINTS: tuple[tuple[str, str, Endpoint], ...] = (
    ("POST", "/v1/events", events.publish),
    ("GET", "/v1/events", events.recent_events),
    ("GET", "/v1/producers/{id}", events.show_producer),
    ("GET", "/v1/deliveries", events.recent_deliveries),
    ("POST", "/v1/subscriptions", subscriptions.create),
    ("GET", "/v1/subscriptions", subscriptions.listing),
    ("GET", "/v1/subscriptions/{id}", subscriptions.show),
    ("PUT", "/v1/subscriptions/{id}", subscriptions.change),
    ("DELETE", "/v1/subscriptions/{id}", subscriptions.delete),
    ("GET", "/v1/subscriptions/{id}/events", streams.stream),
    ("GET", "/v1/subscriptions/{id}/log", delivery_log.read_log),
    ("POST", "/v1/subscriptions/{id}/acknowledge", delivery_log.acknowledge),
    ("POST", "/v1/subscriptions/{id}/take", consumers.take),
    ("POST", "/v1/subscriptions/{id}/settle", consumers.settle),
    ("GET", "/v1/subscriptions/{id}/dead", dead_letters.listing),
    ("POST", "/v1/subscriptions/{id}/dead/replay", dead_letters.replay),
    ("POST", "/v1/subscriptions/{id}/dead/drop", dead_letters.drop),
    ("PUT", "/v1/subscriptions/{id}/webhook", webhooks.put),
    ("GET", "/v1/subscriptions/{id}/webhook", webhooks.show),
    ("DELETE", "/v1/subscriptions/{id}/webhook", webhooks.delete),
    ("POST", "/v1/subscriptions/{id}/webhook/rotate", webhooks.rotate),
    ("POST", "/v1/subscriptions/{id}/webhook/suspend", webhooks.suspend),
    ("POST", "/v1/subscriptions/{id}/webhook/resume", webhooks.resume),
    ("GET", "/v1/webhooks", webhooks.listing),
    ("POST", "/v1/explain", explanations.explain_event),
    ("POST", "/v1/trial", trial.trial),
    ("POST", "/v1/matches", trial.matching),
    ("POST", "/v1/comparison", comparison.compare),
    ("GET", "/v1/schema", schema.show_types),
    ("DELETE", "/v1/schema", schema.forget_types),
    ("GET", "/v1/statistics", statistics.statistics),
    ("GET", "/v1/audit", audit.read_audit),
    ("GET", "/v1/links", links.listing),
    ("PUT", "/v1/links/{name}", links.add),
    ("DELETE", "/v1/links/{name}", links.remove),
    ("POST", "/v1/links/{name}/skip", links.skip),
    ("POST", "/v1/links/{name}/resume", links.resume),
    ("GET", "/healthz", statistics.health),
    ("GET", "/metrics", statistics.metrics),
)


#: Paths that also answer HEAD, for monitors.
WATCHED = frozenset({"/healthz", "/metrics"})


def make_app(config: BrokerConfig, driver: Driver, tokens: Tokens) -> Starlette:
    """Return the application of one broker, whose driver was started."""
    server = Server(config, driver, Access(config, tokens, driver.links.all))
    routes: list[BaseRoute] = list(map(_route, dict.fromkeys(path for _, path, _ in ENDPOINTS)))
    routes.append(Route("/openapi.json", _openapi, methods=["GET"]))
    routes.append(WebSocketRoute("/v1/connect", websocket.connect))
    routes.extend(page_routes())
    around = [Middleware(SecurityHeaders), Middleware(OneLength), Middleware(SlashesInNames)]
    app = Starlette(routes=routes, exception_handlers=HANDLERS, middleware=around)
    app.state.server = server
    app.state.metrics = statistics.Metrics(server)
    return app


def _route(path: str) -> Route:
    """Return the route of all endpoints with one path, without HEAD except for monitors."""
    endpoints = {method: endpoint for method, pattern, endpoint in ENDPOINTS if pattern == path}

    async def chosen(request: Request) -> Response:
        return await endpoints[request.method](request)

    route = Route(path, _measured(path, chosen), methods=list(endpoints))
    if path not in WATCHED:
        route.methods = set(endpoints)  # Starlette adds HEAD to GET
    return route


def _measured(path: str, endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that counts its answers and how long they took."""

    async def measured(request: Request) -> Response:
        start, status = time.perf_counter(), "error"
        try:
            response = await endpoint(request)
            status = str(response.status_code)
            return response
        finally:
            request.app.state.server.intake.release(request)
            request.app.state.metrics.requests.labels(path, status).observe(time.perf_counter() - start)

    return measured


async def _openapi(request: Request) -> Response:
    return JSONResponse(document())
