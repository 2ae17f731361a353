"""``/v1/schema``: the types of attributes in a namespace, and how an admin has learned ones forgotten."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tamis.errors import RefusedError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.routing.edge.admission import check_namespace
from tamis.routing.edge.requests import ForgetTypes, Rejection
from tamis.web.server import server_of

__all__ = ["forget_types", "show_types"]


async def show_types(request: Request) -> Response:
    """Show the types of a namespace, and whether they were learned."""
    server = server_of(request)
    rights, namespace = server.view(request).rights, _namespace(request)
    rights.demand("subscribe", namespace)
    types = {name: kind.name for name, kind in server.broker.schema_of(namespace).items()}
    return JSONResponse({"namespace": namespace, "learned": server.broker.learns, "attributes": types})


async def forget_types(request: Request) -> Response:
    """Forget the learned types of a namespace, except those that its subscriptions depend on."""
    server = server_of(request)
    rights, namespace = server.view(request).rights, _namespace(request)
    if not rights.is_admin or not rights.sees(namespace):
        raise RefusedError(403, "only admins may reset types: tamis serve token add NAME --admin")
    if not server.broker.learns:
        raise RefusedError(409, "the types of this broker are configured (schema in broker.toml), not learned")
    forgotten = await server.driver.ask(ForgetTypes(namespace, rights))
    if isinstance(forgotten, Rejection):
        raise forgotten.error
    return JSONResponse({"namespace": namespace, "forgotten": forgotten})


def _namespace(request: Request) -> str:
    return check_namespace(request.query_params.get("namespace", DEFAULT_NAMESPACE))
