"""``GET /v1/audit``: who did what, for admins."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tamis.errors import RefusedError
from tamis.routing.edge.rights import Rights
from tamis.runtime.stores.audit_log import AuditRecord
from tamis.web.bodies import MAX_PAGE, whole_number
from tamis.web.server import server_of
from tamis.web.work.rows import JsonRows

__all__ = ["read_audit"]


async def read_audit(request: Request) -> Response:
    """Show the newest records below ``before``, the newest first; ``next`` is the ``before`` of the next page."""
    server = server_of(request)
    rights, query = server.view(request).rights, request.query_params
    if not rights.is_admin:
        raise RefusedError(403, "only admins may read the audit: tamis serve token add NAME --admin")
    limit = whole_number(query.get("limit", "100"), "limit", MAX_PAGE)
    before = whole_number(query["before"], "before", 2**53) if "before" in query else None
    page = server.broker.read_audit(before, limit)
    rows, last, is_cut = JsonRows(server.pace(rights.principal)), None, len(page) == limit
    for record in page:
        if _may_see(rights, record) and not await rows.add(_shown(record)):
            is_cut = True
            break
        last = record.number
    return rows.response("deeds", {"next": last if is_cut else None})


def _may_see(rights: Rights, record: AuditRecord) -> bool:
    """Whether an admin may see a record: one of some namespaces sees theirs, and nothing of the whole broker."""
    return rights.namespaces is None or record.deed.namespace in rights.namespaces


def _shown(record: AuditRecord) -> dict[str, Any]:
    names = record.deed.__struct_fields__
    return {"number": record.number} | dict(zip(names, msgspec.structs.astuple(record.deed), strict=True))
