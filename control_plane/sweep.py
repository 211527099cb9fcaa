"""What time alone decides: passed deadlines, captures unheard of, old sightings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane.session import CaptureEvent, SessionEvent
from control_plane.store import audit, captures, drains, idempotency, reports, sessions, sightings
from control_plane.store.audit import Deed
from control_plane.store.captures import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contract.messages import CaptureKey
    from control_plane.settings import Settings
    from control_plane.store.captures import Capture
    from control_plane.store.database import Connection, Database

log = structlog.get_logger(__name__)

_AT_ONCE = 100
_FORGET_EVERY = 60


class Sweep:
    """Any number of replicas may sweep; each row is taken by one. Agents are told by dispatch."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._turns = 0

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.turn()
            except Fault as fault:
                log.warning("sweep_waits", reason=fault.reason, message=fault.message)
            await asyncio.sleep(self._settings.sweep_interval_ms / 1000)

    async def turn(self) -> None:
        """Sweep once.

        Raises:
            Fault: store_unavailable.
        """
        for _ in range(_AT_ONCE):
            if not await self._expire_one():
                break
        lease_ms = self._settings.capture_lease_ms
        async with self._db.read() as conn:
            unheard = await captures.unheard(conn, lease_ms=lease_ms, limit=_AT_ONCE)
        for key in unheard:
            await self._lose(key)
        async with self._db.read() as conn:
            drained = await drains.overdue(conn, limit=_AT_ONCE)
        for key in drained:
            await self._stop_drained(key)
        if self._turns % _FORGET_EVERY == 0:
            async with self._db.begin() as conn:
                await sightings.forget(conn, kept_ms=self._settings.sightings_kept_ms)
                await idempotency.forget(conn)
                await audit.forget(conn, kept_days=self._settings.audit_kept_days)
        self._turns += 1

    async def _expire_one(self) -> bool:
        async with self._db.begin() as conn:
            grace_ms = self._settings.merge_grace_ms
            overdue = await sessions.overdue(conn, grace_ms=grace_ms, limit=1)
            for session in overdue:
                tried = await captures.of_session(conn, session.account_id, session.session_id)
                may_merge = session.isolates > 1 and session.remaining_ms > -grace_ms
                if may_merge and any(c.state is CaptureState.UPLOADED for c in tried):
                    # What it has is merged; what it has not is lost.
                    await _lose_live(conn, tried)
                    await sessions.make_due(conn, session)
                    continue
                # The captures first: who follows the session's events is told all before its end.
                await _lose_live(conn, tried)
                await sessions.move(
                    conn,
                    session,
                    SessionEvent.EXPIRED,
                    reason=Reason.DEADLINE_PASSED,
                    message=f"did not end within its deadline, {session.state} by then",
                )
                log.info("session_expired", session_id=session.session_id, state=session.state)
        return bool(overdue)

    async def _stop_drained(self, key: CaptureKey) -> None:
        """End a capture where a drain's time is up; what it sampled is kept."""
        async with self._db.begin() as conn:
            session = await sessions.lock(conn, key.session_id)
            capture = await captures.read(conn, session, key.capture) if session else None
            if capture is None or not capture.live or capture.stop is not None:
                return
            await captures.order_stop(conn, capture, Stop.KEEP)
            deed = Deed(
                actor="system:sweep",
                address="",
                request_id="",
                action="captures.stop-drained",
                target=f"{key.session_id}/{key.capture}",
                details={"metal": capture.metal_id},
            )
            await audit.record(conn, deed)
        log.info(
            "capture_drained",
            session_id=key.session_id,
            capture=key.capture,
            metal=capture.metal_id,
        )

    async def _lose(self, key: CaptureKey) -> None:
        async with self._db.begin() as conn:
            session = await sessions.lock(conn, key.session_id)
            # A report may have come between the look and the lock.
            still = await captures.unheard(
                conn, lease_ms=self._settings.capture_lease_ms, limit=1, key=key
            )
            capture = await captures.read(conn, session, key.capture) if session else None
            if session is None or capture is None or not still:
                return
            await reports.end(
                conn,
                session,
                capture,
                CaptureEvent.LOST,
                Reason.CAPTURE_LOST,
                f"nothing was heard of it for {self._settings.capture_lease_ms} ms",
            )
        log.info(
            "capture_lost",
            session_id=key.session_id,
            capture=key.capture,
            metal=capture.metal_id,
        )


async def _lose_live(conn: Connection, tried: Sequence[Capture]) -> None:
    for capture in (c for c in tried if c.live):
        await captures.move(
            conn,
            capture,
            CaptureEvent.LOST,
            reason=Reason.DEADLINE_PASSED,
            message="the session's deadline passed",
        )
        await captures.order_stop(conn, capture, Stop.DISCARD)
