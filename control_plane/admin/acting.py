"""Who acts, and the transaction in which what they do and that they did it are written together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from control_plane import access
from control_plane.api import auth, edge, strict_json
from control_plane.api.edge import REQUEST_ID
from control_plane.api.parts import PARTS
from control_plane.store import audit
from control_plane.store.audit import Deed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.typedefs import Handler

    from control_plane.access import Caller
    from control_plane.store.database import Connection

BASE = "/admin/v1"
OPERATOR: web.RequestKey[Caller] = web.RequestKey("operator")
# What says nothing of anybody, for those that watch the process.
OPEN = frozenset({"/healthz", "/readyz", "/metrics"})


@web.middleware
async def operators_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let nobody but operators past, to what is there and to what is not.

    Raises:
        Fault: unauthenticated; permission_missing for an account's token.
    """
    if request.path not in OPEN:
        parts = request.app[PARTS]
        request[OPERATOR] = await access.authenticate_operator(
            parts.db, parts.token_key, auth.bearer(request)
        )
    return await handler(request)


@asynccontextmanager
async def acting(
    request: web.Request, action: str, target: str, **details: Any
) -> AsyncIterator[Connection]:
    """Run a transaction that ends with its entry in the audit log.

    Raises:
        Fault: store_unavailable; then neither is written.
    """
    async with request.app[PARTS].db.begin() as conn:
        yield conn
        await audit.record(
            conn,
            Deed(
                actor=f"operator:{request[OPERATOR].token_id}",
                address=request.remote or "",
                request_id=request[REQUEST_ID],
                action=action,
                target=target,
                details=details,
            ),
        )


async def document(request: web.Request) -> Any:
    """Read the JSON of a request; none is an empty object.

    Raises:
        Fault: request_invalid, body_too_large.
    """
    data = await edge.body(request)
    return strict_json.parse(data) if data else {}
