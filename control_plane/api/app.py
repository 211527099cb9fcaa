"""The account listener: routes, and the one place where anything raised becomes an answer."""

from __future__ import annotations

import asyncio

from aiohttp import web

from control_plane.api import (
    dashboard,
    deployments,
    diffs,
    durable_objects,
    edge,
    events,
    health,
    problems,
    profiles,
    session_list,
    sessions,
    workers,
)
from control_plane.api.parts import DRAINING, HANG_UPS, PARTS, STOPPING, STREAMS, Parts
from control_plane.api.renderings import RENDERINGS, Renderings
from control_plane.api.streams import Streams

BASE = "/client/v4/accounts/{account_id}"
WORKERS = f"{BASE}/workers/workers"
SCRIPTS = f"{BASE}/workers/scripts"
NAMESPACES = f"{BASE}/workers/durable_objects/namespaces"
SESSIONS = f"{BASE}/profile-sessions"
ANSWER_S = 3.0


def make_app(parts: Parts, *, drain_s: float) -> web.Application:
    """Build the application; run it on a runner made by ``make_runner``.

    Args:
        drain_s: how long callers that wait are still waited for once the replica stops.
    """

    async def drain(app: web.Application) -> None:
        app[STOPPING].set()
        asyncio.get_running_loop().call_later(drain_s, app[DRAINING].set)

    app = web.Application(middlewares=[edge.edge], client_max_size=edge.MAX_BODY_BYTES)
    app[PARTS] = parts
    app[dashboard.DASHBOARD] = parts.settings.dashboard_dir or dashboard.BUILT
    app[STOPPING] = asyncio.Event()
    app[DRAINING] = asyncio.Event()
    app[STREAMS] = Streams(
        most=parts.settings.event_streams,
        most_per_account=parts.settings.event_streams_per_account,
    )
    app[HANG_UPS] = set()
    app[RENDERINGS] = Renderings()
    app[edge.LISTENER] = "api"
    app[edge.REFUSED] = parts.refusals.add
    app.on_response_prepare.append(edge.sign)
    app.on_shutdown.append(drain)
    app.on_cleanup.append(_finish_hang_ups)
    app.on_cleanup.append(_close_renderings)
    app.add_routes(
        [
            web.get("/healthz", health.healthz),
            web.get("/readyz", health.readyz),
            web.get("/problems/{reason}", problems.show_problem),
            web.get(WORKERS, workers.list_workers),
            web.get(f"{WORKERS}/{{worker}}", workers.show_worker),
            web.get(f"{WORKERS}/{{worker}}/versions", workers.list_versions),
            web.get(f"{WORKERS}/{{worker}}/versions/{{version}}", workers.show_version),
            web.post(f"{WORKERS}/{{worker}}/versions/{{version}}/profile", profiles.take),
            web.get(
                f"{WORKERS}/{{worker}}/versions/{{version}}/activity", deployments.show_activity
            ),
            web.get(f"{SCRIPTS}/{{worker}}/versions", workers.list_script_versions),
            web.get(f"{SCRIPTS}/{{worker}}/versions/{{version}}", workers.show_script_version),
            web.get(f"{SCRIPTS}/{{worker}}/deployments", deployments.list_deployments),
            web.post(f"{SCRIPTS}/{{worker}}/deployments", deployments.create),
            web.get(NAMESPACES, durable_objects.list_namespaces),
            web.get(f"{NAMESPACES}/{{namespace_id}}/objects", durable_objects.list_objects),
            web.post(SESSIONS, sessions.create),
            web.get(SESSIONS, session_list.list_sessions),
            web.get(f"{SESSIONS}/{{session_id}}", sessions.show),
            # A HEAD would wait for the session to end, to say nothing.
            web.get(f"{SESSIONS}/{{session_id}}/events", events.follow, allow_head=False),
            web.get(f"{SESSIONS}/{{session_id}}/profile", profiles.download),
            web.get(
                f"{SESSIONS}/{{session_id}}/captures/{{capture}}/profile",
                profiles.download_capture,
            ),
            web.get(f"{SESSIONS}/{{session_id}}/diff/{{base_id}}", diffs.compare),
            web.post(f"{SESSIONS}/{{session_id}}/stop", sessions.stop),
            web.delete(f"{SESSIONS}/{{session_id}}", sessions.discard),
            *dashboard.routes(),
        ]
    )
    return app


async def _finish_hang_ups(app: web.Application) -> None:
    if app[HANG_UPS]:
        await asyncio.gather(*app[HANG_UPS], return_exceptions=True)


async def _close_renderings(app: web.Application) -> None:
    app[RENDERINGS].close()
