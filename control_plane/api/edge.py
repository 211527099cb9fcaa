"""What every request of either listener passes: limits, its id, its log line, its failure told."""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import TYPE_CHECKING, Protocol

import structlog
from aiohttp import web

from contract.faults import Fault, Kind, Reason
from control_plane.api import problems
from control_plane.api.parts import PARTS

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

MAX_BODY_BYTES = 64 * 1024
MAX_LINE_BYTES = 8 * 1024
MAX_HEADER_BYTES = 8 * 1024
KEEPALIVE_S = 75.0
LINGERING_S = 5.0
BODY_S = 10.0


class Refusing(Protocol):
    """Told of every request that was turned away for who sent it."""

    def __call__(self, *, actor: str, address: str, request_id: str, action: str, why: str) -> None:
        """Count it."""
        ...


# Which listener it is, for the metrics.
LISTENER: web.AppKey[str] = web.AppKey("listener", str)
REFUSED: web.AppKey[Refusing] = web.AppKey("refused")
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_REFUSALS = frozenset({Kind.UNAUTHENTICATED, Kind.FORBIDDEN})

log = structlog.get_logger(__name__)


def make_runner(app: web.Application, *, drain_s: float) -> web.AppRunner:
    """Wrap the application: a caller that hangs up cancels its handler, which cleans up."""
    return web.AppRunner(
        app,
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=drain_s,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        keepalive_timeout=KEEPALIVE_S,
        lingering_time=LINGERING_S,
    )


async def body(request: web.Request) -> bytes:
    """Read the whole body of a request.

    Raises:
        Fault: request_invalid, for one that takes longer than ``BODY_S`` to come.
        HTTPRequestEntityTooLarge: above ``MAX_BODY_BYTES``.
    """
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except TimeoutError:
        raise Fault(
            Reason.REQUEST_INVALID, f"The request body did not come within {BODY_S:g} s."
        ) from None


@web.middleware
async def edge(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler raises into the failure envelope, and log one line per request."""
    inbound = request.headers.get("X-Request-Id", "")
    request_id = inbound if _SANE_REQUEST_ID.fullmatch(inbound) else uuid.uuid4().hex
    request[REQUEST_ID] = request_id
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
        if fault.kind in _REFUSALS:
            _note(request, fault)
        response = problems.answer(fault)
        if isinstance(error, web.HTTPMethodNotAllowed):
            response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        status = response.status
    finally:
        if PARTS in request.app:
            request.app[PARTS].metrics.requests.labels(
                request.app[LISTENER], request.method, route(request), str(status)
            ).observe(loop.time() - started)
        log.info(
            "request",
            method=request.method,
            route=route(request),
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


def route(request: web.Request) -> str:
    """Name the route a request matched; empty when it matched none."""
    # The pattern, not the path: paths hold names, and names make log series without end.
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else ""


async def sign(request: web.Request, response: web.StreamResponse) -> None:
    """Put on every answer what every answer carries."""
    request_id = request.get(REQUEST_ID)
    if request_id is not None:
        response.headers["X-Request-Id"] = request_id
    response.headers["X-Content-Type-Options"] = "nosniff"
    # Otherwise the framework names itself and its version.
    response.headers["Server"] = "isoprof"


def _note(request: web.Request, fault: Fault) -> None:
    request.app[REFUSED](
        actor=getattr(fault, "actor", "unknown"),
        address=request.remote or "",
        request_id=request[REQUEST_ID],
        action=f"{request.method} {route(request)}",
        why=fault.reason.value,
    )
