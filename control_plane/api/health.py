"""Whether the process lives, and whether it can serve. No account, no token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from control_plane.api.envelope import ok
from control_plane.api.parts import DRAINING, PARTS

if TYPE_CHECKING:
    from aiohttp import web

READY_WITHIN_S = 2.0


async def healthz(_request: web.Request) -> web.Response:
    """Answer as long as the event loop turns."""
    return ok({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """Answer 200 only when the database answers and this replica is not draining."""
    if request.app[DRAINING].is_set():
        raise Fault(Reason.STORE_UNAVAILABLE, "This replica is draining.")
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            await request.app[PARTS].db.ping()
    except TimeoutError:
        raise Fault(Reason.STORE_UNAVAILABLE, "The database does not answer.") from None
    return ok({"status": "ok", "database": "ok"})
