"""What a session that is due comes to next: captures to be ordered, a merge, or its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane import destination, isolates
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
    if not claimed.dispatch_on:
        if isolates.goes_on(tried):
            return await _without_another(conn, session, tried)
        await _end(conn, session, Fault(Reason.DISPATCH_OFF, "Profiling was switched off."))
        return NOTHING
    try:
        found = await destination.find(conn, session, tried, len(parts), settings, rng)
    except Fault as fault:
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
