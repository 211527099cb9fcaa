"""Profile sessions asked for by id: create, show, list, stop, discard."""

from __future__ import annotations

import base64
import binascii
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

from contract import ids
from contract.faults import Fault, FieldError, Reason
from control_plane import admission
from control_plane.admission import ProfileRequest
from control_plane.api import auth, envelope, schema, strict_json
from control_plane.api.parts import PARTS
from control_plane.api.session_view import session_view
from control_plane.store import captures, profiles, sessions
from control_plane.store.sessions import Filter

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.store.sessions import Session


async def create(request: web.Request) -> web.Response:
    """Admit a session and answer at once."""
    account_id = await auth.account(request)
    asked = _asked(await request.read())
    parts = request.app[PARTS]
    session = await admission.admit(parts.db, account_id, asked, str(uuid.uuid4()), parts.settings)
    view = session_view(session, (), ())
    return envelope.ok(view, status=202, headers={"Location": view["links"]["self"]})


async def show(request: web.Request) -> web.Response:
    """Answer how a session stands."""
    account_id = await auth.account(request)
    session = await admission.show(request.app[PARTS].db, account_id, schema.session_id(request))
    return envelope.ok(await _whole(request, session))


async def list_sessions(request: web.Request) -> web.Response:
    """Answer an account's sessions, newest first."""
    account_id = await auth.account(request)
    asked = schema.query(schema.SessionsQuery, dict(request.query))
    after = _place(asked.cursor) if asked.cursor is not None else None
    async with request.app[PARTS].db.read() as conn:
        worker_id = None
        if asked.worker is not None:
            worker_id = (await admission.resolve_worker(conn, account_id, asked.worker)).worker_id
        only = Filter(worker_id=worker_id, state=asked.state)
        found = await sessions.page(conn, account_id, only, limit=asked.limit + 1, after=after)
        shown = found[: asked.limit]
        views = [
            session_view(
                session,
                await captures.of_session(conn, account_id, session.session_id),
                await profiles.of_session(conn, account_id, session.session_id),
            )
            for session in shown
        ]
    more = len(found) > asked.limit
    return envelope.cursor(views, after=_cursor(shown[-1]) if more else None)


async def stop(request: web.Request) -> web.Response:
    """End sampling early and keep what there is."""
    return await _end(request, discard=False)


async def discard(request: web.Request) -> web.Response:
    """Cancel a session and drop what there is."""
    return await _end(request, discard=True)


async def _end(request: web.Request, *, discard: bool) -> web.Response:
    account_id = await auth.account(request)
    session = await admission.cancel(
        request.app[PARTS].db, account_id, schema.session_id(request), discard=discard
    )
    return envelope.ok(await _whole(request, session))


async def _whole(request: web.Request, session: Session) -> dict[str, Any]:
    async with request.app[PARTS].db.read() as conn:
        tried = await captures.of_session(conn, session.account_id, session.session_id)
        stored = await profiles.of_session(conn, session.account_id, session.session_id)
    return session_view(session, tried, stored)


def _asked(raw: bytes) -> ProfileRequest:
    document = strict_json.parse(raw)
    body = schema.session_body(document)
    return ProfileRequest(
        worker=body.worker,
        version=body.version,
        profile_type=body.kind,
        duration_ms=body.duration_ms,
        sampling_interval_us=body.sampling_interval_us,
        actor=body.actor,
        labels=body.labels,
        origin="api",
    )


def _cursor(session: Session) -> str:
    text = f"{session.created_at.isoformat()}|{session.session_id}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _place(cursor: str) -> tuple[datetime, str]:
    try:
        text = base64.urlsafe_b64decode(cursor.encode()).decode()
        created, _, session_id = text.partition("|")
        place = datetime.fromisoformat(created), session_id
    except (binascii.Error, ValueError):
        raise _bad_cursor() from None
    if place[0].tzinfo is None or not ids.is_uuid(session_id):
        raise _bad_cursor()
    return place


def _bad_cursor() -> Fault:
    message = "Must be a cursor of an earlier answer."
    return Fault(
        Reason.REQUEST_INVALID,
        message,
        fields=(FieldError(pointer="query/cursor", message=message),),
    )
