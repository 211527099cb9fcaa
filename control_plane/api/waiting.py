"""A caller that waits for its session, and what becomes of the session when it hangs up."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault, Reason
from control_plane import admission
from control_plane.api.parts import DRAINING, HANG_UPS, PARTS

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.admission import ProfileRequest
    from control_plane.store.notices import Watch
    from control_plane.store.sessions import Session

# A notice normally comes first; this is for when none could be told.
LOOK_AGAIN_S = 2.0
# Beyond the session's own deadline: the sweep of some replica has ended it by then.
PATIENCE_S = 15.0
CANCEL_ATTEMPTS = 5
CANCEL_PAUSE_S = 1.0

log = structlog.get_logger(__name__)


async def ended(request: web.Request, account_id: str, asked: ProfileRequest) -> Session:
    """Admit a session and wait until it has ended, well or not.

    A caller that hangs up cancels this; the session is then cancelled and its capture discarded, so
    that the isolate is free at once. A replica that drains answers, and leaves the session to
    others.

    Raises:
        Fault: as ``admission.admit``; store_unavailable while draining, or when the session's
            deadline went by unseen.
    """
    session_id = str(uuid.uuid4())
    parts = request.app[PARTS]
    with parts.notices.watch(session_id) as watch:
        # A task of its own: cut in its commit, nobody could tell whether there is a session.
        admitting = asyncio.create_task(
            admission.admit(parts.db, account_id, asked, session_id, parts.settings)
        )
        try:
            session = await asyncio.shield(admitting)
            structlog.contextvars.bind_contextvars(session_id=session_id)
            return await _follow(request.app, session, watch)
        except asyncio.CancelledError:
            _clean_up(request.app, account_id, session_id, admitting)
            raise


async def _follow(app: web.Application, session: Session, watch: Watch) -> Session:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + session.remaining_ms / 1000 + PATIENCE_S
    while session.live:
        if app[DRAINING].is_set():
            raise Fault(
                Reason.STORE_UNAVAILABLE,
                f"This replica is stopping; profile session {session.session_id} goes on.",
            )
        await first(watch, app[DRAINING], LOOK_AGAIN_S)
        try:
            session = await admission.show(app[PARTS].db, session.account_id, session.session_id)
        except Fault as fault:
            # The database may be away for a moment; neither session nor caller need notice.
            if fault.reason is not Reason.STORE_UNAVAILABLE or loop.time() > until_s:
                raise
    return session


async def first(watch: Watch, event: asyncio.Event, timeout_s: float) -> None:
    """Return at a notice, at the event, or after a while."""
    waits = {
        asyncio.ensure_future(watch.wait(timeout_s)),
        asyncio.ensure_future(event.wait()),
    }
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _clean_up(
    app: web.Application, account_id: str, session_id: str, admitting: asyncio.Task[Session]
) -> None:
    # A task of its own: the request's task is being cancelled and may not await any more.
    task = asyncio.create_task(_hung_up(app, account_id, session_id, admitting))
    app[HANG_UPS].add(task)
    task.add_done_callback(app[HANG_UPS].discard)


async def _hung_up(
    app: web.Application, account_id: str, session_id: str, admitting: asyncio.Task[Session]
) -> None:
    drained = app[DRAINING].is_set()
    await asyncio.wait({admitting})
    refused = admitting.exception()
    unsure = isinstance(refused, Fault) and refused.reason is Reason.STORE_UNAVAILABLE
    # A replica that drains cuts its callers off itself, and leaves their sessions to others.
    if not drained and (refused is None or unsure):
        await _cancel(app, account_id, session_id)


async def _cancel(app: web.Application, account_id: str, session_id: str) -> None:
    for attempt in range(1, CANCEL_ATTEMPTS + 1):
        try:
            await admission.cancel(app[PARTS].db, account_id, session_id, discard=True)
        except Fault as fault:
            if fault.reason is Reason.SESSION_UNKNOWN:
                # It hung up before the row was written, and then it was not.
                return
            log.warning("hang_up_not_told", session_id=session_id, attempt=attempt)
            await asyncio.sleep(CANCEL_PAUSE_S)
        else:
            log.info("caller_hung_up", session_id=session_id)
            return
