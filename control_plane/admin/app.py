"""The operators' listener: routes, and who may use them."""

from __future__ import annotations

import asyncio

from aiohttp import web

from control_plane.admin import (
    accounts,
    audit,
    dispatching,
    fleet,
    health,
    metrics,
    sessions,
    tokens,
)
from control_plane.admin.acting import BASE, operators_only
from control_plane.api import edge
from control_plane.api import health as process
from control_plane.api.parts import DRAINING, PARTS, Parts


def make_app(parts: Parts) -> web.Application:
    """Build the application; run it on a runner made by ``api.edge.make_runner``."""

    async def drain(app: web.Application) -> None:
        app[DRAINING].set()

    app = web.Application(
        middlewares=[edge.edge, operators_only], client_max_size=edge.MAX_BODY_BYTES
    )
    app[PARTS] = parts
    app[DRAINING] = asyncio.Event()
    app[edge.LISTENER] = "admin"
    app[edge.REFUSED] = parts.refusals.add
    app.on_response_prepare.append(edge.sign)
    app.on_shutdown.append(drain)
    app.add_routes(
        [
            web.get("/healthz", process.healthz),
            web.get("/readyz", health.readyz),
            web.get("/metrics", metrics.show),
            web.get(f"{BASE}/health", health.show),
            web.get(f"{BASE}/agents", fleet.list_agents),
            web.get(f"{BASE}/agents/{{metal}}", fleet.show_agent),
            web.post(f"{BASE}/agents/{{metal}}/drain", fleet.drain_agent),
            web.post(f"{BASE}/agents/{{metal}}/undrain", fleet.undrain_agent),
            web.get(f"{BASE}/datacenters", fleet.list_datacenters),
            web.post(f"{BASE}/datacenters/{{datacenter}}/drain", fleet.drain_datacenter),
            web.post(f"{BASE}/datacenters/{{datacenter}}/undrain", fleet.undrain_datacenter),
            web.get(f"{BASE}/sessions", sessions.list_sessions),
            web.get(f"{BASE}/sessions/{{session_id}}", sessions.show_session),
            web.post(f"{BASE}/sessions/{{session_id}}/cancel", sessions.cancel_session),
            web.get(f"{BASE}/accounts", accounts.list_accounts),
            web.post(f"{BASE}/accounts", accounts.create_account),
            web.get(f"{BASE}/accounts/{{account_id}}", accounts.show_account),
            web.patch(f"{BASE}/accounts/{{account_id}}", accounts.change_account),
            web.get(f"{BASE}/accounts/{{account_id}}/tokens", tokens.list_of_account),
            web.post(f"{BASE}/accounts/{{account_id}}/tokens", tokens.create_for_account),
            web.delete(
                f"{BASE}/accounts/{{account_id}}/tokens/{{token_id}}", tokens.revoke_of_account
            ),
            web.get(f"{BASE}/operator-tokens", tokens.list_of_operators),
            web.post(f"{BASE}/operator-tokens", tokens.create_for_operator),
            web.delete(f"{BASE}/operator-tokens/{{token_id}}", tokens.revoke_of_operator),
            web.get(f"{BASE}/dispatch", dispatching.show_switch),
            web.put(f"{BASE}/dispatch", dispatching.turn_switch),
            web.get(f"{BASE}/placement/explain", dispatching.explain),
            web.get(f"{BASE}/audit", audit.list_entries),
        ]
    )
    return app
