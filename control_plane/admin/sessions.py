"""Sessions across accounts, with all that happened to them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from contract import ids
from contract.faults import Fault, Reason
from control_plane import admission
from control_plane.admin import asked
from control_plane.admin.acting import acting
from control_plane.api import envelope, schema, session_list
from control_plane.api.parts import PARTS
from control_plane.api.session_view import session_view, timestamp
from control_plane.api.sessions import whole
from control_plane.store import captures, history, profiles, session_lists, sessions
from control_plane.store.session_lists import Filter

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.store.history import Entry


async def list_sessions(request: web.Request) -> web.Response:
    """Answer sessions, newest first, of one account or of all."""
    query = schema.query(asked.SessionsQuery, request.query)
    views: dict[str, dict[str, Any]] = {}
    async with request.app[PARTS].db.read() as conn:
        found = await session_lists.page_of_all(
            conn,
            query.account,
            Filter(state=query.state),
            limit=query.limit + 1,
            after=query.cursor,
        )
        shown = found[: query.limit]
        by_account = sorted(shown, key=lambda one: one.account_id)
        for account_id, own in groupby(by_account, lambda one: one.account_id):
            several = list(own)
            named = [one.session_id for one in several]
            tried = await captures.of_sessions(conn, account_id, named)
            stored = await profiles.of_sessions(conn, account_id, named)
            merged = await profiles.merged_of(conn, account_id, named)
            for one in several:
                view = session_view(
                    one,
                    tried.get(one.session_id, ()),
                    stored.get(one.session_id, ()),
                    merged.get(one.session_id),
                )
                views[one.session_id] = {"account": account_id} | view
    more = len(found) > query.limit
    return envelope.cursor(
        [views[one.session_id] for one in shown],
        after=session_list.cursor_after(shown[-1]) if more else None,
    )


async def show_session(request: web.Request) -> web.Response:
    """Answer one session with its captures and its history."""
    session_id = _session_id(request)
    async with request.app[PARTS].db.read() as conn:
        account_id = await sessions.account_of(conn, session_id)
        session = await sessions.read(conn, account_id, session_id) if account_id else None
        if session is None:
            raise _unknown()
        entries = await history.of_session(conn, session.account_id, session_id)
    view = await whole(request, session)
    told = {"account": session.account_id, "history": [_entry(one) for one in entries]}
    return envelope.ok(view | told)


async def cancel_session(request: web.Request) -> web.Response:
    """End a session and drop what it has sampled. Idempotent."""
    session_id = _session_id(request)
    async with acting(request, "sessions.cancel", session_id) as conn:
        account_id = await sessions.account_of(conn, session_id)
        if account_id is None:
            raise _unknown()
        session = await admission.end_early(
            conn, account_id, session_id, discard=True, by="an operator"
        )
    return envelope.ok({"account": session.account_id} | await whole(request, session))


def _session_id(request: web.Request) -> str:
    text = request.match_info["session_id"]
    if not ids.is_uuid(text):
        raise _unknown()
    return text


def _unknown() -> Fault:
    return Fault(Reason.SESSION_UNKNOWN, "There is no such profile session.")


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "at": timestamp(entry.at),
        "capture": entry.capture,
        "event": entry.event,
        "state_before": entry.state_before,
        "state_after": entry.state_after,
        "reason": entry.reason,
        "message": entry.message,
    }
