"""What a session that is due comes to next: captures to be ordered, a merge, or its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane import breaker, destination, isolates
from control_plane.placement import WINDING_UP_MS
from control_plane.session import SessionEvent
from control_plane.store import captures, drains, sessions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from control_plane.settings import Settings
    from control_plane.store.captures import Capture
    from control_plane.store.database import Connection
    from control_plane.store.sessions import Claimed, Session

# Agents tell what ran within seconds.
_LOOK_AGAIN_MS = 500
# A hold that is being wound up is waited for, though not for long: whoever comes right after a
# caller who hung up is not turned away.
_MOMENT_MS = 100
_MOMENTS = timedelta(seconds=3)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """A capture whose order is to be sent; ``resumed``: another replica may have sent it."""

    session: Session
    capture: Capture
    address: str
    resumed: bool


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is to be done once the transaction is committed.

    Args:
        orders: to be sent side by side.
        merge: a session whose captures have all ended, some of them well.
    """

    orders: tuple[Ordered, ...] = ()
    merge: Session | None = None


NOTHING = Step()


async def next_step(conn: Connection, claimed: Claimed, settings: Settings, rng: Random) -> Step:
    """Write what follows for a claimed session: all its next captures, or none, or its end."""
    session = claimed.session
    tried = (
        await captures.of_session(conn, session.account_id, session.session_id)
        if session.captures
        else ()
    )
    waiting = [c for c in tried if c.state is CaptureState.ORDERED or (c.live and _alone(session))]
    if waiting:
        addresses = await captures.current_addresses(conn, waiting)
        return Step(
            orders=tuple(
                Ordered(session=session, capture=c, address=addresses[c.capture], resumed=True)
                for c in waiting
            )
        )
    parts = isolates.wanted(session, tried, settings)
    if not parts:
        return await _without_another(conn, session, tried)
    refused = await _refused(conn, claimed, tried, settings)
    if refused is not None:
        return refused
    try:
        found = await destination.find(conn, session, tried, len(parts), settings, rng)
    except Fault as fault:
        if _free_in_a_moment(session, fault):
            await sessions.look_again(conn, session, in_ms=_MOMENT_MS)
        else:
            await _end(conn, session, isolates.last_word(session, tried, fault))
        return NOTHING
    if found is None:
        await sessions.look_again(conn, session, in_ms=_LOOK_AGAIN_MS)
        return NOTHING
    # Parts that were tried before go first: of one that was not, the reason must be kept.
    before = isolates.parts_tried(tried)
    parts = sorted(parts, key=lambda part: (part not in before, part))
    fewer = found.why_fewer
    if fewer is not None and parts[-1] not in before:
        session = await sessions.fewer(conn, session, fewer.reason, fewer.message)
    if not found.chosen:
        return await _without_another(conn, session, tried)
    places = {one.metal_id for one in found.chosen}
    if await drains.taking(conn, sorted(places)) != places:
        # Drained since the candidates were read.
        await sessions.look_again(conn, session, in_ms=0)
        return NOTHING
    added = await captures.add(conn, session, dict(zip(parts, found.chosen, strict=False)))
    session = replace(session, captures=session.captures + len(added))
    return Step(
        orders=tuple(
            Ordered(session=session, capture=capture, address=capture.address, resumed=False)
            for capture in added
        )
    )


async def _refused(
    conn: Connection, claimed: Claimed, tried: Sequence[Capture], settings: Settings
) -> Step | None:
    """Write what follows where no order may go out now; None where it may."""
    if not claimed.dispatch_on:
        fault, waits = Fault(Reason.DISPATCH_OFF, "Profiling was switched off."), False
    else:
        suspended = await _suspended(conn, claimed, settings)
        if suspended is None:
            return None
        # Of a session that was tried, why its own captures failed is the better word.
        fault, waits = suspended, bool(tried)
    if waits or isolates.goes_on(tried):
        return await _without_another(conn, claimed.session, tried)
    await _end(conn, claimed.session, fault)
    return NOTHING


async def _suspended(conn: Connection, claimed: Claimed, settings: Settings) -> Fault | None:
    """Return why the version is left alone for now, when it is."""
    if claimed.failed_lately < settings.breaker_failures:
        return None
    session = claimed.session
    latest = await captures.latest(
        conn, session.account_id, session.version_id, within_ms=settings.breaker_window_ms
    )
    limits = breaker.Limits(
        failures=settings.breaker_failures, pause_s=settings.breaker_pause_ms / 1000
    )
    left_s = breaker.left_alone_s(latest, limits)
    if left_s is None:
        return None
    log.warning("version_suspended", version=session.version_id, failed=latest.failed)
    return Fault(
        Reason.VERSION_SUSPENDED,
        f"{latest.failed} of the last {latest.ended} captures of version {session.version_id} "
        f"failed ({latest.reason}); it is not captured for now.",
        retry_after_s=left_s,
    )


def _free_in_a_moment(session: Session, fault: Fault) -> bool:
    """Whether every hold in the session's way ends so soon that it is waited for."""
    soon_s = WINDING_UP_MS / 1000
    return (
        fault.reason is Reason.ISOLATES_BUSY
        and fault.retry_after_s is not None
        and fault.retry_after_s <= soon_s
        and session.read_at - session.created_at < _MOMENTS
    )


def _alone(session: Session) -> bool:
    return session.isolates == 1


async def _without_another(conn: Connection, session: Session, tried: Sequence[Capture]) -> Step:
    """Nothing more is ordered: wait for what is live, merge what there is, or end."""
    if any(capture.live for capture in tried):
        await sessions.rest(conn, session)
        return NOTHING
    if isolates.goes_on(tried):
        merging = await sessions.move(conn, session, SessionEvent.SAMPLED)
        return Step(merge=merging or session)
    if not tried:
        said = Fault(Reason.CAPTURE_STOPPED, "stopped before anything was sampled")
    else:
        said = destination.last_word(session, tried)
    await _end(conn, session, isolates.last_word(session, tried, said))
    return NOTHING


async def _end(conn: Connection, session: Session, fault: Fault) -> None:
    log.info("session_failed", session_id=session.session_id, reason=fault.reason)
    # Stopped by its owner before there was anything to keep.
    stopped = fault.reason is Reason.CAPTURE_STOPPED
    await sessions.move(
        conn,
        session,
        SessionEvent.CANCELLED if stopped else SessionEvent.GAVE_UP,
        reason=Reason.SESSION_CANCELLED if stopped else fault.reason,
        message=fault.message,
        retry_after_s=fault.retry_after_s,
    )
