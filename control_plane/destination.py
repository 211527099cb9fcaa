"""Where a session's next capture goes, by what the store knows; or why nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from control_plane import placement
from control_plane.placement import Limits
from control_plane.store import metals, sightings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from control_plane.placement import Candidate, Placement
    from control_plane.settings import Settings
    from control_plane.store.captures import Capture
    from control_plane.store.database import Connection
    from control_plane.store.sessions import Session


async def find(
    conn: Connection,
    session: Session,
    tried: Sequence[Capture],
    settings: Settings,
    rng: Random,
) -> Candidate:
    """Choose a metal that has not failed this session yet.

    Raises:
        Fault: what the caller is told when there is none; after a try, why that one failed.
    """
    only_metal = await _metal_of_actor(conn, session, settings)
    candidates = await sightings.candidates(
        conn,
        session.account_id,
        session.worker_id,
        session.version_id,
        only_metal=only_metal,
    )
    placed = placement.choose(
        candidates,
        failed_on={c.metal_id for c in tried},
        limits=Limits(recent_ms=settings.recent_ms, silent_ms=settings.agent_silent_ms),
        rng=rng,
    )
    if placed.chosen is None:
        raise await _nowhere(conn, session, tried, placed, settings)
    return placed.chosen


def last_word(capture: Capture) -> Fault:
    """Return why a capture ended, as it is told to who asked for it."""
    return Fault(
        capture.reason or Reason.INTERNAL, capture.message, retry_after_s=capture.retry_after_s
    )


async def _metal_of_actor(conn: Connection, session: Session, settings: Settings) -> str | None:
    if session.actor is None:
        return None
    seen = await sightings.actor(conn, session.account_id, session.actor)
    if seen is None or seen.idle_ms > settings.recent_ms:
        raise Fault(Reason.ACTOR_INACTIVE, "The Durable Object is not active.")
    if seen.worker_id != session.worker_id:
        raise Fault(Reason.ACTOR_INACTIVE, "The Durable Object does not run this Worker.")
    if seen.version_id != session.version_id:
        raise Fault(
            Reason.ACTOR_INACTIVE,
            f"The Durable Object runs version {seen.version_id}, not {session.version_id}.",
        )
    return seen.metal_id


async def _nowhere(
    conn: Connection,
    session: Session,
    tried: Sequence[Capture],
    placed: Placement,
    settings: Settings,
) -> Fault:
    reason = placement.verdict(placed)
    if tried and reason is not Reason.ISOLATES_BUSY:
        return last_word(tried[-1])
    if reason is not Reason.NO_RECENT_EXECUTION:
        return Fault(
            reason,
            f"Version {session.version_id} cannot be captured now ({placed.explained()}).",
            retry_after_s=placed.retry_after_s,
        )
    if not await metals.any_registered(conn):
        return Fault(Reason.DISPATCH_OFF, "No metal has reported yet.")
    running = await sightings.running_versions(
        conn, session.account_id, session.worker_id, recent_ms=settings.recent_ms
    )
    said = f"Version {session.version_id} has not run lately"
    others = ", ".join(v for v in running if v != session.version_id)
    return Fault(reason, f"{said}; what runs is {others}." if others else f"{said}.")
