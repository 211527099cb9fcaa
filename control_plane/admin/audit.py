"""The audit log: who did what, when, from where; newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from control_plane.admin import asked
from control_plane.api import envelope, schema
from control_plane.api.parts import PARTS
from control_plane.api.session_view import timestamp
from control_plane.store import audit
from control_plane.store.audit import Filter

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.store.audit import Entry


async def list_entries(request: web.Request) -> web.Response:
    """Answer entries, newest first. Refusals appear within seconds, like ones as one."""
    query = schema.query(asked.AuditQuery, request.query)
    only = Filter(
        actor=query.actor, action=query.action, target=query.target, outcome=query.outcome
    )
    async with request.app[PARTS].db.read() as conn:
        found = await audit.page(conn, only, limit=query.limit + 1, before=query.cursor)
    shown = found[: query.limit]
    more = len(found) > query.limit
    return envelope.cursor(
        [_entry(one) for one in shown], after=str(shown[-1].entry) if more else None
    )


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "entry": entry.entry,
        "at": timestamp(entry.at),
        "actor": entry.actor,
        "address": entry.address,
        "request_id": entry.request_id,
        "action": entry.action,
        "target": entry.target,
        "outcome": entry.outcome.value,
        "times": entry.times,
        "details": entry.details,
    }
