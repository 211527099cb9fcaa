"""Numbers for Prometheus: what this replica did, and what the database holds at this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client.exposition import generate_latest

from contract.faults import Fault
from control_plane.api.parts import PARTS
from control_plane.store import counts

if TYPE_CHECKING:
    from control_plane.api.parts import Parts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def show(request: web.Request) -> web.Response:
    """Answer all metrics; those of the database are missing while it is away."""
    parts = request.app[PARTS]
    await _look(parts)
    return web.Response(
        body=generate_latest(parts.metrics.registry), headers={"Content-Type": CONTENT_TYPE}
    )


async def _look(parts: Parts) -> None:
    metrics = parts.metrics
    pool = parts.db.pool_state()
    metrics.pool_size.set(pool["size"])
    metrics.pool_in_use.set(pool["in_use"])
    # What is no longer there must not be told for ever.
    metrics.live_sessions.clear()
    metrics.ended_sessions.clear()
    try:
        async with parts.db.read() as conn:
            live = await counts.live_sessions(conn)
            ended = await counts.ended_sessions(conn)
            due = await counts.due(conn)
            agents = await counts.agents(conn, silent_ms=parts.settings.agent_silent_ms)
    except Fault:
        metrics.database_up.set(0)
        return
    metrics.database_up.set(1)
    for state, number in live.items():
        metrics.live_sessions.labels(state).set(number)
    for (state, reason), number in ended.items():
        metrics.ended_sessions.labels(state, reason).set(number)
    metrics.due_sessions.set(due.waiting)
    metrics.agents.labels("known").set(agents.known)
    metrics.agents.labels("silent").set(agents.silent)
