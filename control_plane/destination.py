"""Where a session's next captures go, by what the store knows; or why nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from control_plane import isolates, placement
from control_plane.placement import Asked, Limits
from control_plane.store import metals, sightings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from contract.messages import Actor
    from control_plane.placement import Candidate, Selection
    from control_plane.settings import Settings
    from control_plane.store.captures import Capture
    from control_plane.store.database import Connection
    from control_plane.store.sessions import Session
    from control_plane.store.sightings import ActorSeen

# Why a capture of an actor came to nothing where the actor may turn up on another metal, or again.
_MISSED = frozenset(
    {
        Reason.ACTOR_INACTIVE,
        Reason.NOT_LOADED,
        Reason.NO_RECENT_EXECUTION,
        Reason.TARGET_EXITED,
        Reason.AGENT_RESTARTED,
        Reason.AGENT_UNREACHABLE,
        Reason.CAPTURE_LOST,
    }
)
# Of these, the ones that mean to its caller: it is not active.
_INACTIVE = frozenset({Reason.ACTOR_INACTIVE, Reason.NOT_LOADED, Reason.NO_RECENT_EXECUTION})


@dataclass(frozen=True, kw_only=True)
class Found:
    """Metals for a session's next captures, one each.

    Args:
        why_fewer: what the caller is told of those that were asked for and not found.
    """

    chosen: tuple[Candidate, ...]
    why_fewer: Fault | None = None


async def find(
    conn: Connection,
    session: Session,
    tried: Sequence[Capture],
    count: int,
    settings: Settings,
    rng: Random,
) -> Found | None:
    """Choose up to ``count`` metals that have not failed this session yet.

    Returns:
        None: not yet. An actor was missed where it was seen last; where it went is told shortly.

    Raises:
        Fault: what the caller is told when there is none and nothing of the session goes on; after
            a try, why that one failed.
    """
    failed_on = isolates.failed_on(session, tried)
    only_metal = None
    if session.actor is not None:
        seen = await sightings.actor(conn, session.account_id, session.actor)
        if tried and not _is_news(seen, tried):
            _wait_for_news(session, tried, settings)
            return None
        only_metal = _metal_of(seen, session, settings)
        failed_on.discard(only_metal)
    candidates = await sightings.candidates(
        conn,
        session.account_id,
        session.worker_id,
        session.version_id,
        only_metal=only_metal,
    )
    placed = placement.select(
        candidates,
        Asked(
            count=count,
            failed_on=failed_on,
            standing=isolates.standing(session, tried),
            datacenters=session.datacenters,
        ),
        limits=Limits(recent_ms=settings.recent_ms, silent_ms=settings.agent_silent_ms),
        rng=rng,
    )
    if len(placed.chosen) == count:
        return Found(chosen=placed.chosen)
    if not placed.chosen and not isolates.goes_on(tried):
        raise await _nowhere(conn, session, tried, placed, settings)
    found = len(placed.chosen) + len(isolates.parts_tried(tried))
    return Found(
        chosen=placed.chosen,
        why_fewer=Fault(
            placement.verdict(placed),
            f"{min(found, session.isolates)} of {session.isolates} isolates could be asked "
            f"({placed.explained()}).",
            retry_after_s=placed.retry_after_s,
        ),
    )


def last_word(session: Session, tried: Sequence[Capture]) -> Fault:
    """Return why the last capture ended, as it is told to who asked for the session."""
    last = tried[-1]
    reason = last.reason or Reason.INTERNAL
    if session.actor is not None and reason in _INACTIVE:
        told = f"The Durable Object is not active where it ran last. {last.message}"
        return Fault(Reason.ACTOR_INACTIVE, told.strip())
    if reason is Reason.ISOLATES_BUSY:
        return Fault(reason, last.message, retry_after_s=_free_in_s(session, tried))
    return Fault(reason, last.message, retry_after_s=last.retry_after_s)


def _is_news(seen: ActorSeen | None, tried: Sequence[Capture]) -> bool:
    """Whether an actor ran somewhere since it was missed there, or where it was not tried."""
    if seen is None:
        return False
    there = [c.ended_at for c in tried if c.metal_id == seen.metal_id and c.ended_at is not None]
    return not there or seen.ran_at > max(there)


def _wait_for_news(session: Session, tried: Sequence[Capture], settings: Settings) -> None:
    """Return while word of an actor that moved may still come; bounded.

    Raises:
        Fault: why the last capture ended, once that was too long ago or says nothing of a move.
    """
    last = tried[-1]
    patience = timedelta(milliseconds=settings.actor_follow_ms)
    moved = last.reason in _MISSED and last.ended_at is not None
    if not moved or session.read_at - (last.ended_at or session.read_at) > patience:
        raise last_word(session, tried)


def _metal_of(seen: ActorSeen | None, session: Session, settings: Settings) -> str:
    if seen is None or seen.idle_ms > settings.recent_ms:
        raise Fault(Reason.ACTOR_INACTIVE, f"{_named(session.actor)} is not active.")
    if seen.worker_id != session.worker_id:
        raise Fault(Reason.ACTOR_INACTIVE, f"{_named(session.actor)} does not run this Worker.")
    if seen.version_id != session.version_id:
        raise Fault(
            Reason.ACTOR_INACTIVE,
            f"{_named(session.actor)} runs version {seen.version_id}, not {session.version_id}.",
        )
    return seen.metal_id


def _named(actor: Actor | None) -> str:
    return f"The Durable Object {actor.actor_id}" if actor is not None else "The Durable Object"


async def _nowhere(
    conn: Connection,
    session: Session,
    tried: Sequence[Capture],
    placed: Selection,
    settings: Settings,
) -> Fault:
    reason = placement.verdict(placed)
    if tried and reason is not Reason.ISOLATES_BUSY:
        return last_word(session, tried)
    if reason is not Reason.NO_RECENT_EXECUTION:
        return Fault(
            reason,
            f"Version {session.version_id} cannot be captured now ({placed.explained()}).",
            retry_after_s=_free_in_s(session, tried, placed.retry_after_s),
        )
    if not await metals.any_registered(conn):
        return Fault(Reason.DISPATCH_OFF, "No metal has reported yet.")
    running = await sightings.running_versions(
        conn, session.account_id, session.worker_id, recent_ms=settings.recent_ms
    )
    said = f"Version {session.version_id} has not run lately"
    if session.datacenters:
        said += f" in {', '.join(session.datacenters)}"
    others = ", ".join(v for v in running if v != session.version_id)
    return Fault(reason, f"{said}; what runs is {others}." if others else f"{said}.")


def _free_in_s(
    session: Session, tried: Sequence[Capture], placed_s: float | None = None
) -> float | None:
    """Until the first hold ends, of those the store knows and those agents refused with."""
    told = [] if placed_s is None else [placed_s]
    for capture in tried:
        if capture.reason is Reason.ISOLATES_BUSY and capture.retry_after_s is not None:
            since = session.read_at - (capture.ended_at or session.read_at)
            left_s = capture.retry_after_s - since.total_seconds()
            told.append(max(left_s, placement.WINDING_UP_MS / 1000))
    return min(told, default=None)
