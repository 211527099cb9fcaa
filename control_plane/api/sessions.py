"""Profile sessions asked for by id: create, show, stop, discard."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from control_plane import admission
from control_plane.admission import NamedActor, ProfileRequest
from control_plane.api import auth, edge, envelope, idempotency, schema, strict_json
from control_plane.api.parts import PARTS
from control_plane.api.session_view import session_view
from control_plane.store import captures, profiles

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.store.sessions import Session


async def create(request: web.Request) -> web.Response:
    """Admit a session and answer at once; again under the same key, answer how it stands."""
    account_id = await auth.account(request)
    document = strict_json.parse(await edge.body(request))
    key = idempotency.key(request, document)
    asked = _asked(document)
    parts = request.app[PARTS]
    session_id = str(uuid.uuid4())
    session = await admission.admit(
        parts.db, account_id, asked, session_id, parts.settings, key=key
    )
    view = await whole(request, session)
    headers = {"Location": view["links"]["self"]}
    if session.session_id != session_id:
        headers[idempotency.REPLAYED] = "true"
    return envelope.ok(view, status=202, headers=headers)


async def show(request: web.Request) -> web.Response:
    """Answer how a session stands."""
    account_id = await auth.account(request)
    session = await admission.show(request.app[PARTS].db, account_id, schema.session_id(request))
    return envelope.ok(await whole(request, session))


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
    return envelope.ok(await whole(request, session))


async def whole(request: web.Request, session: Session) -> dict[str, Any]:
    """Read what belongs to a session and build its JSON."""
    if not session.captures:
        return session_view(session, (), (), None)
    async with request.app[PARTS].db.read() as conn:
        tried = await captures.of_session(conn, session.account_id, session.session_id)
        stored = await profiles.of_session(conn, session.account_id, session.session_id)
        several = (session.session_id,) if session.isolates > 1 else ()
        merged = await profiles.merged_of(conn, session.account_id, several)
    return session_view(session, tried, stored, merged.get(session.session_id))


def _asked(document: Any) -> ProfileRequest:
    body = schema.session_body(document)
    named = None
    if body.namespace_id is not None and body.actor_name is not None:
        named = NamedActor(namespace_id=body.namespace_id, name=body.actor_name)
    return ProfileRequest(
        worker=body.worker,
        version=body.version,
        profile_type=body.kind,
        duration_ms=body.duration_ms,
        sampling_interval_us=body.sampling_interval_us,
        actor=named or body.actor,
        labels=body.labels,
        isolates=body.isolates,
        datacenters=tuple(dict.fromkeys(body.datacenters or ())),
        origin="api",
    )
