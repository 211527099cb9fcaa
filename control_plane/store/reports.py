"""How an agent's word about a capture changes it and its session; the session's row is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from sqlalchemy import bindparam, select

from contract.faults import Reason
from contract.messages import CaptureReport, CaptureState
from control_plane.session import CaptureEvent, SessionEvent
from control_plane.store import captures, history, sessions, tables
from control_plane.store.captures import Capture, Stop

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from contract.messages import CaptureKey
    from control_plane.store.sessions import Session

_IMPOSTOR = "impostor"
# Both rows locked, so that both are read as they are once the lock is had.
_PAIR = (
    select(
        *(column.label(f"s_{column.name}") for column in sessions.COLUMNS),
        *(column.label(f"c_{column.name}") for column in captures.COLUMNS),
    )
    .select_from(
        tables.sessions.join(
            tables.captures,
            (tables.captures.c.account_id == tables.sessions.c.account_id)
            & (tables.captures.c.session_id == tables.sessions.c.session_id),
        )
    )
    .where(
        tables.sessions.c.session_id == bindparam("of_session"),
        tables.captures.c.capture == bindparam("of_capture"),
    )
    .with_for_update(of=(tables.sessions, tables.captures))
)


async def lock(conn: AsyncConnection, key: CaptureKey) -> tuple[Session, Capture] | None:
    """Lock a capture's session, and read both as they are now; None when there is none.

    For agents' words alone: they know no account.
    """
    rows = await conn.execute(_PAIR, {"of_session": key.session_id, "of_capture": key.capture})
    row = rows.mappings().one_or_none()
    if row is None:
        return None
    return sessions.from_row(row, "s_"), captures.from_row(row, "c_")


async def accept(
    conn: AsyncConnection, session: Session, capture: Capture, isolate_id: str
) -> None:
    """Take in that the agent holds an isolate for the capture.

    An agent that gave the isolate to this capture no longer samples another one in it, whatever is
    written here. A session that ended meanwhile has its capture stopped.
    """
    await captures.free_for(conn, capture, isolate_id)
    await captures.move(
        conn,
        capture,
        CaptureEvent.ACCEPTED,
        isolate_id=isolate_id,
        window_ms=session.duration_ms,
    )
    if session.live:
        session = await sessions.move(conn, session, SessionEvent.ACCEPTED) or session
        await settle(conn, session)


async def settle(
    conn: AsyncConnection, session: Session, *, ended: bool = False, stored: bool = False
) -> None:
    """Decide, after a capture of several changed, whether dispatch has to look at the session.

    While an order is out, whoever sent it keeps the lease, and it stays due. After that it is due
    when a capture came to nothing, for another may follow; or when none is left, to be ended.

    Args:
        ended: the capture came to nothing.
        stored: it came to a profile.
    """
    if session.isolates == 1:
        if ended:
            await sessions.make_due(conn, session)
        return
    now = await captures.progress(conn, session)
    if now.ordered or (stored and now.live):
        return
    if ended or now.failed_parts or not now.live:
        await sessions.make_due(conn, session)
    else:
        await sessions.rest(conn, session)


async def sampled(conn: AsyncConnection, session: Session) -> None:
    """Take in that a capture is past its sampling; with several, only their end says it for all."""
    if session.isolates == 1:
        await sessions.move(conn, session, SessionEvent.SAMPLED)


async def end(
    conn: AsyncConnection,
    session: Session,
    capture: Capture,
    event: CaptureEvent,
    reason: Reason,
    message: str,
    *,
    retry_after_s: float | None = None,
    sampled_ms: int | None = None,
) -> bool:
    """End a capture without a profile; dispatch then decides whether another follows.

    Returns:
        False for a duplicate, or when the capture had ended before.
    """
    moved = await captures.move(
        conn,
        capture,
        event,
        reason=reason,
        message=message,
        retry_after_s=retry_after_s,
        sampled_ms=sampled_ms,
    )
    if moved is not None and session.live:
        await settle(conn, session, ended=True)
    return moved is not None


async def disbelieve(conn: AsyncConnection, session: Session, capture: Capture) -> None:
    """Keep, once per capture, that another metal spoke for it and was refused."""
    names = session.account_id, session.session_id, capture.capture
    if not await history.tells(conn, *names, event=_IMPOSTOR):
        await history.record(
            conn,
            session.account_id,
            session.session_id,
            capture=capture.capture,
            event=_IMPOSTOR,
            state_before=capture.state,
            state_after=capture.state,
            reason=Reason.PEER_FORBIDDEN,
            message="another metal's agent spoke for it and was refused",
        )


async def take_in(
    conn: AsyncConnection, session: Session, capture: Capture, report: CaptureReport
) -> None:
    """Apply a report; duplicates and late ones change nothing."""
    match report.state:
        case CaptureState.UPLOADED:
            # The profile itself says so, when it is stored.
            await captures.heard(conn, capture, sampled_ms=report.sampled_ms)
        case CaptureState.ORDERED | CaptureState.SAMPLING:
            # Either way the agent holds an isolate for it.
            await _goes_on(conn, session, capture, report)
        case CaptureState.STOPPED:
            if capture.live and capture.stop is Stop.KEEP and report.sampled_ms > 0:
                # What was sampled so far is on its way.
                await captures.heard(conn, capture, sampled_ms=report.sampled_ms, freed=True)
                await sampled(conn, session)
            else:
                await _ended(conn, session, capture, report, CaptureEvent.STOPPED)
        case CaptureState.REFUSED if capture.state is CaptureState.ORDERED:
            await _ended(conn, session, capture, report, CaptureEvent.REFUSED)
        case CaptureState.REFUSED | CaptureState.FAILED:
            await _ended(conn, session, capture, report, CaptureEvent.FAILED)
        case CaptureState.LOST:
            await _ended(conn, session, capture, report, CaptureEvent.LOST)
        case _:
            assert_never(report.state)


async def _goes_on(
    conn: AsyncConnection, session: Session, capture: Capture, report: CaptureReport
) -> None:
    if capture.state is CaptureState.ORDERED:
        await accept(conn, session, capture, report.isolate_id)
    elif capture.live and report.sampled_ms >= session.duration_ms:
        await sampled(conn, session)
    await captures.heard(conn, capture, sampled_ms=report.sampled_ms, freed=report.freed)


async def _ended(
    conn: AsyncConnection,
    session: Session,
    capture: Capture,
    report: CaptureReport,
    event: CaptureEvent,
) -> None:
    fallback = Reason.CAPTURE_STOPPED if event is CaptureEvent.STOPPED else Reason.INTERNAL
    await end(
        conn,
        session,
        capture,
        event,
        report.reason or fallback,
        report.message,
        sampled_ms=report.sampled_ms,
    )
