"""The account listener: routes, and the one place where anything raised becomes an answer."""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from contract.faults import Fault, Reason
from control_plane.api import (
    dashboard,
    diffs,
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

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

BASE = "/client/v4/accounts/{account_id}"
WORKERS = f"{BASE}/workers/workers"
SESSIONS = f"{BASE}/profile-sessions"
MAX_BODY_BYTES = 64 * 1024
ANSWER_S = 3.0

_REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

log = structlog.get_logger(__name__)


def make_app(parts: Parts, *, drain_s: float) -> web.Application:
    """Build the application; run it on a runner made by ``make_runner``.

    Args:
        drain_s: how long callers that wait are still waited for once the replica stops.
    """

    async def drain(app: web.Application) -> None:
        app[STOPPING].set()
        asyncio.get_running_loop().call_later(drain_s, app[DRAINING].set)

    app = web.Application(middlewares=[edge], client_max_size=MAX_BODY_BYTES)
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
    app.on_response_prepare.append(_sign)
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


def make_runner(app: web.Application, *, drain_s: float) -> web.AppRunner:
    """Wrap the application: a caller that hangs up cancels its handler, which cleans up."""
    return web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=drain_s)


@web.middleware
async def edge(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler raises into the failure envelope, and log one line per request."""
    inbound = request.headers.get("X-Request-Id", "")
    request_id = inbound if _SANE_REQUEST_ID.fullmatch(inbound) else uuid.uuid4().hex
    request[_REQUEST_ID] = request_id
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=request_id)
    loop = asyncio.get_running_loop()
    started = loop.time()
    status, reason = 0, ""
    try:
        response = await handler(request)
        status = response.status
    except asyncio.CancelledError:
        reason = "hung_up"
        raise
    except Exception as error:  # noqa: BLE001 - the edge: nothing may pass it untold
        fault = _fault(error, request)
        reason = fault.reason.value
        response = problems.answer(fault)
        if isinstance(error, web.HTTPMethodNotAllowed):
            response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        status = response.status
    finally:
        log.info(
            "request",
            method=request.method,
            route=_route(request),
            status=status,
            reason=reason,
            taken_ms=round((loop.time() - started) * 1000, 1),
        )
    return response


def _fault(error: Exception, request: web.Request) -> Fault:
    if isinstance(error, Fault):
        if error.reason is Reason.INTERNAL:
            log.error("internal_fault", detail=error.message, exc_info=error)
        return error
    if isinstance(error, web.HTTPNotFound):
        return Fault(Reason.ROUTE_UNKNOWN, "No route of the API has this path.")
    if isinstance(error, web.HTTPMethodNotAllowed):
        return Fault(Reason.METHOD_NOT_ALLOWED, f"This path does not take {request.method}.")
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return Fault(
            Reason.BODY_TOO_LARGE, f"The request body exceeds the limit of {MAX_BODY_BYTES} bytes."
        )
    if isinstance(error, web.HTTPException):
        return Fault(Reason.REQUEST_INVALID, f"The request is not valid HTTP: {error.reason}.")
    if isinstance(error, ConnectionResetError | web.RequestPayloadError):
        return Fault(Reason.REQUEST_INVALID, "The request body was cut short or badly encoded.")
    log.error("request_failed", exc_info=error)
    return Fault(Reason.INTERNAL, "unexpected")


def _route(request: web.Request) -> str:
    # The pattern, not the path: paths hold names, and names make log series without end.
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else ""


async def _sign(request: web.Request, response: web.StreamResponse) -> None:
    request_id = request.get(_REQUEST_ID)
    if request_id is not None:
        response.headers["X-Request-Id"] = request_id
    response.headers["X-Content-Type-Options"] = "nosniff"
    # Otherwise the framework names itself and its version.
    response.headers["Server"] = "isoprof"


async def _finish_hang_ups(app: web.Application) -> None:
    if app[HANG_UPS]:
        await asyncio.gather(*app[HANG_UPS], return_exceptions=True)


async def _close_renderings(app: web.Application) -> None:
    app[RENDERINGS].close()
