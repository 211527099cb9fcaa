"""A session as its owner reads it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from control_plane import isolates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from control_plane.store.captures import Capture
    from control_plane.store.profiles import MergedProfile, StoredProfile
    from control_plane.store.sessions import Session


def session_view(
    session: Session,
    tried: Sequence[Capture],
    stored: Sequence[StoredProfile],
    merged: MergedProfile | None = None,
) -> dict[str, Any]:
    """Build the JSON of a session.

    Args:
        tried: its captures in order, failed ones included.
        stored: profiles that came, the session's own first.
        merged: what they came to, of a session of several isolates.
    """
    by_capture = {profile.capture: profile for profile in stored}
    counted = isolates.tally(session, tried)
    ready = session.state.value == "ready" and bool(stored)
    place = f"/client/v4/accounts/{session.account_id}/profile-sessions/{session.session_id}"
    links = {"self": place, "events": f"{place}/events", "stop": f"{place}/stop"}
    if ready:
        links["profile"] = f"{place}/profile"
        links["top"] = f"{place}/profile?format=top"
    return {
        "id": session.session_id,
        "state": session.state.value,
        "reason": session.reason.value if session.reason is not None else None,
        "message": session.message,
        "origin": session.origin,
        "worker": {"id": session.worker_id, "name": session.worker_name},
        "version": session.version_id,
        "profile_type": session.profile_type.value,
        "duration_ms": session.duration_ms,
        "sampling_interval_us": session.sampling_interval_us,
        "namespace_id": session.actor.namespace_id if session.actor is not None else None,
        "actor_id": session.actor.actor_id if session.actor is not None else None,
        "actor_name": session.actor_name,
        "labels": session.labels,
        "datacenters": list(session.datacenters),
        "isolates": {
            "asked": counted.asked,
            "taken": counted.taken,
            "live": counted.live,
            "waiting": counted.waiting,
            "lost": counted.lost,
            "reasons": {reason.value: n for reason, n in counted.reasons.items()},
            "fewer": session.fewer_message,
        },
        "created_at": timestamp(session.created_at),
        "deadline_at": timestamp(session.deadline_at),
        "ended_at": timestamp(session.ended_at),
        "retry_at": timestamp(_retry_at(session)),
        "captures": [
            _capture(capture, by_capture.get(capture.capture), place) for capture in tried
        ],
        "profile": _profile(merged or stored[0]) if ready else None,
        "links": links,
    }


def _retry_at(session: Session) -> datetime | None:
    """When asking again can help, as far as was known at the end."""
    if session.ended_at is None or session.retry_after_s is None:
        return None
    return session.ended_at + timedelta(seconds=session.retry_after_s)


def timestamp(at: datetime | None) -> str | None:
    """Return UTC with microseconds, as published clients parse it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if at is not None else None


def _capture(capture: Capture, profile: StoredProfile | None, place: str) -> dict[str, Any]:
    view: dict[str, Any] = {
        "n": capture.capture,
        "part": capture.part,
        "metal": capture.metal_id,
        "datacenter": capture.datacenter,
        "isolate": capture.isolate_id,
        "state": capture.state.value,
        "reason": capture.reason.value if capture.reason is not None else None,
        "message": capture.message,
        "sampled_ms": capture.sampled_ms,
        "ordered_at": timestamp(capture.ordered_at),
        "accepted_at": timestamp(capture.accepted_at),
        "ended_at": timestamp(capture.ended_at),
        "samples": None,
        "lock_held_us": None,
        "holds": [],
        "truncated": "",
        "late": False,
        "links": {},
    }
    if profile is not None:
        view |= {
            "samples": profile.samples,
            "lock_held_us": profile.lock_held_us,
            "holds": [asdict(one) for one in profile.slices],
            "truncated": profile.truncated,
            "late": profile.late,
            "links": {"profile": f"{place}/captures/{capture.capture}/profile"},
        }
    return view


def _profile(stored: StoredProfile | MergedProfile) -> dict[str, Any]:
    return {
        "size": stored.size_bytes,
        "sha256": stored.sha256,
        "samples": stored.samples,
        "window_ms": stored.window_ms,
        "truncated": stored.truncated,
    }
