"""The profile of a session of several isolates: the sum of those of its captures."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault, Reason
from control_plane import isolates
from control_plane.session import SessionEvent
from control_plane.store import captures, profiles, sessions
from control_plane.store.profiles import MergedProfile
from pprof import codec
from pprof.check import ProfileInvalid, ProfileTooLarge
from pprof.comments import truncations
from pprof.gather import Gathering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from control_plane.blobs import Blobs
    from control_plane.store.database import Database
    from control_plane.store.profiles import StoredProfile
    from control_plane.store.sessions import Session
    from pprof.gather import Gathered

# The finest first: a whole too large loses them in this order.
LABELS = ("isolate", "metal", "datacenter")

log = structlog.get_logger(__name__)


class Merging:
    """One replica's merging, one session at a time: it is the only step that costs CPU for long."""

    def __init__(self, db: Database, blobs: Blobs, *, replica: str, lease_ms: int) -> None:
        self._db = db
        self._blobs = blobs
        self._replica = replica
        self._lease_ms = lease_ms
        self._one = asyncio.Semaphore(1)

    async def merge(self, session: Session) -> None:
        """Merge what a session's captures brought, and make it ready; or failed, if that is no sum.

        The claim that led here is kept up meanwhile. Whoever else merges the same comes to the same
        bytes, and one of both is kept.

        Raises:
            Fault: store_unavailable; the session is then merged again when its lease lapses.
        """
        async with self._claimed(session), self._one:
            async with self._db.read() as conn:
                stored = await profiles.of_session(conn, session.account_id, session.session_id)
            own = [profile for profile in stored if not profile.late]
            try:
                gathered = await self._gathered(session, own)
            except ProfileInvalid as error:
                await self._failed(session, error)
                return
            sha256 = hashlib.sha256(gathered.data).hexdigest()
            merged = MergedProfile(
                account_id=session.account_id,
                session_id=session.session_id,
                blob=f"profiles/{session.account_id}/{session.session_id}/merged-{sha256}.pprof",
                sha256=sha256,
                size_bytes=len(gathered.data),
                samples=sum(profile.samples for profile in own),
                window_ms=round(gathered.window_ns / 1_000_000),
                truncated=truncations(gathered.truncated, *(one.truncated for one in own)),
                captures=tuple(profile.capture for profile in own),
            )
            await self._blobs.put(merged.blob, gathered.data)
            await self._keep(session, merged)

    async def _gathered(self, session: Session, own: Sequence[StoredProfile]) -> Gathered:
        gathering = Gathering(LABELS)
        for profile in own:
            data = await self._blobs.get(profile.blob, profile.sha256)
            # Off the event loop, one at a time: of a part no more is here than its turn takes.
            await asyncio.to_thread(_add, gathering, data, profile)
        told = (f"isolates_asked={session.isolates}", f"isolates_taken={len(own)}")
        return await asyncio.to_thread(gathering.finish, comments=told)

    async def _keep(self, session: Session, merged: MergedProfile) -> None:
        async with self._db.begin(in_turn=session.session_id) as conn:
            now = await sessions.lock(conn, session.session_id, account_id=session.account_id)
            tried = await captures.of_session(conn, now.account_id, now.session_id) if now else ()
            if now is None or not now.live or any(capture.live for capture in tried):
                kept = await profiles.merged_of(conn, merged.account_id, [merged.session_id])
                in_use = {one.blob for one in kept.values()}
            else:
                said = isolates.tally(now, tried, settled=True).said()
                await profiles.add_merged(conn, merged)
                await sessions.move(conn, now, SessionEvent.STORED, message=said)
                in_use = {merged.blob}
        if merged.blob not in in_use:
            # It was cancelled, or ended, while its captures were being merged.
            await self._blobs.delete(merged.blob)
            return
        log.info(
            "session_merged",
            session_id=session.session_id,
            captures=len(merged.captures),
            size_bytes=merged.size_bytes,
        )

    async def _failed(self, session: Session, error: ProfileInvalid) -> None:
        large = isinstance(error, ProfileTooLarge)
        async with self._db.begin(in_turn=session.session_id) as conn:
            now = await sessions.lock(conn, session.session_id, account_id=session.account_id)
            if now is not None and now.live:
                await sessions.move(
                    conn,
                    now,
                    SessionEvent.GAVE_UP,
                    reason=Reason.PROFILE_TOO_LARGE if large else Reason.PROFILE_INVALID,
                    message=f"The profiles of its captures can't be merged: {error}.",
                )

    @asynccontextmanager
    async def _claimed(self, session: Session) -> AsyncIterator[None]:
        renewing = asyncio.create_task(self._renew(session))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    async def _renew(self, session: Session) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            with suppress(Fault):
                async with self._db.begin() as conn:
                    await sessions.renew(conn, session, self._replica, lease_ms=self._lease_ms)


def _add(gathering: Gathering, data: bytes, stored: StoredProfile) -> None:
    told = {
        "datacenter": stored.datacenter,
        "metal": stored.metal_id,
        "isolate": stored.isolate_id,
    }
    gathering.add(codec.decode(data), told)
