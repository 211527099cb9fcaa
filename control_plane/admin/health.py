"""How every part is, for operators; readiness and metrics, for those that watch the process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from contract.faults import Fault, Reason
from control_plane.api import envelope
from control_plane.api.parts import DRAINING, PARTS
from control_plane.store import counts, switches
from control_plane.store.switches import Switch

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from aiohttp import web

WITHIN_S = 2.0


async def readyz(request: web.Request) -> web.Response:
    """Answer 200 only when the database and the profile store answer and nothing drains."""
    parts = request.app[PARTS]
    if request.app[DRAINING].is_set():
        raise Fault(Reason.STORE_UNAVAILABLE, "This replica is draining.")
    found = {
        "database": await _state(parts.db.ping()),
        "blobs": await _state(parts.blobs.probe()),
    }
    away = [name for name, state in found.items() if state["state"] != "ok"]
    if away:
        raise Fault(Reason.STORE_UNAVAILABLE, f"Not ready: {', '.join(away)} does not answer.")
    return envelope.ok({"status": "ok"} | dict.fromkeys(found, "ok"))


async def show(request: web.Request) -> web.Response:
    """Answer how every part is; 200 even when some are not well, so that all is told."""
    parts = request.app[PARTS]
    database, blobs = await asyncio.gather(_state(parts.db.ping()), _state(parts.blobs.probe()))
    told: dict[str, Any] = {
        "roles": sorted(parts.settings.roles),
        "database": database | parts.db.pool_state(),
        "blobs": blobs,
    }
    if database["state"] == "ok":
        async with parts.db.read() as conn:
            agents = await counts.agents(conn, silent_ms=parts.settings.agent_silent_ms)
            due = await counts.due(conn)
            live = await counts.live_sessions(conn)
            switch = await switches.read(conn, Switch.DISPATCH)
        told |= {
            "agents": {
                "state": "ok" if agents.silent == 0 else "some_silent",
                "known": agents.known,
                "silent": agents.silent,
                "draining": agents.draining,
            },
            "dispatch": {
                "state": "ok" if switch.turned_on else "off",
                "due": due.waiting,
                "oldest_due_ms": due.oldest_ms,
            },
            "sessions": live,
        }
    return envelope.ok(told)


async def _state(asking: Awaitable[None]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    try:
        async with asyncio.timeout(WITHIN_S):
            await asking
    except (Fault, TimeoutError):
        return {"state": "unavailable"}
    return {"state": "ok", "taken_ms": round((loop.time() - began_s) * 1000, 1)}
