"""The dispatch switch, and why a version would be captured where."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from control_plane import admission, placement
from control_plane.admin import asked
from control_plane.admin.acting import acting, document
from control_plane.api import envelope, schema
from control_plane.api.parts import PARTS
from control_plane.api.session_view import timestamp
from control_plane.placement import Asked, Limits, Selection
from control_plane.store import sightings, switches
from control_plane.store.switches import Switch

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.placement import Candidate, TurnedAway
    from control_plane.store.switches import Position


async def show_switch(request: web.Request) -> web.Response:
    """Answer how the dispatch switch stands."""
    async with request.app[PARTS].db.read() as conn:
        position = await switches.read(conn, Switch.DISPATCH)
    return envelope.ok(_position(position))


async def turn_switch(request: web.Request) -> web.Response:
    """Switch profiling on or off, for all accounts and on every replica.

    Off, nothing new is admitted (503) and what waits for its first capture ends; captures that run
    go on.
    """
    body = schema.body(asked.SwitchBody, await document(request))
    async with acting(
        request, "dispatch.switch", "dispatch", turned_on=body.turned_on, reason=body.reason
    ) as conn:
        position = await switches.turn(
            conn, Switch.DISPATCH, turned_on=body.turned_on, reason=body.reason
        )
    return envelope.ok(_position(position))


async def explain(request: web.Request) -> web.Response:
    """Answer which metals could capture a version now, and why the others could not."""
    query = schema.query(asked.ExplainQuery, request.query)
    wrong = schema.worker(query.worker, "query/worker")
    wrong += schema.version(query.version, "query/version")
    if wrong:
        raise schema.invalid(wrong)
    parts = request.app[PARTS]
    async with parts.db.read() as conn:
        worker = await admission.resolve_worker(conn, query.account, query.worker)
        version = await admission.resolve_version(conn, worker, query.version)
        found = await sightings.candidates(
            conn, query.account, worker.worker_id, version.version_id
        )
        switch = await switches.read(conn, Switch.DISPATCH)
    limits = Limits(recent_ms=parts.settings.recent_ms, silent_ms=parts.settings.agent_silent_ms)
    reasons = [(one, placement.why_not(one, Asked(), limits=limits)) for one in found]
    counted = Counter(why for _, why in reasons if why is not None)
    fit = [one for one, why in reasons if why is None]
    verdict = placement.verdict(Selection(chosen=(), turned_away=dict(counted)))
    return envelope.ok(
        {
            "account": query.account,
            "worker": {"id": worker.worker_id, "name": worker.name},
            "version": version.version_id,
            "dispatch": switch.turned_on,
            "fit": len(fit),
            "turned_away": {why.value: times for why, times in sorted(counted.items())},
            "verdict": None if fit else verdict.value,
            "metals": [_candidate(one, why) for one, why in reasons],
        }
    )


def _position(position: Position) -> dict[str, Any]:
    return {
        "turned_on": position.turned_on,
        "reason": position.reason,
        "changed_at": timestamp(position.changed_at),
    }


def _candidate(candidate: Candidate, why: TurnedAway | None) -> dict[str, Any]:
    return {
        "metal": candidate.metal_id,
        "datacenter": candidate.datacenter,
        "turned_away": why.value if why is not None else None,
        "executions": candidate.executions,
        "idle_ms": candidate.idle_ms,
        "silent_ms": candidate.silent_ms,
        "draining": candidate.draining,
        "isolates": candidate.isolates,
        "free_isolates": candidate.free_isolates,
        "shared": candidate.shared,
        "live_captures_of_version": candidate.live_here,
        "live_captures": candidate.live_on_metal,
        "max_captures": candidate.max_captures,
        "ends_in_ms": candidate.ends_in_ms,
    }
