"""The profile of a session of several isolates: the sum of those of its captures."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from contract.faults import Fault, Reason
from control_plane import isolates
from control_plane.merge_process import LABELS, header
from control_plane.session import SessionEvent
from control_plane.store import captures, profiles, sessions
from control_plane.store.profiles import MergedProfile
from pprof.comments import truncations
from pprof.gather import Gathered

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from control_plane.blobs import Blobs
    from control_plane.store.database import Database
    from control_plane.store.profiles import StoredProfile
    from control_plane.store.sessions import Session

_ROOT = Path(__file__).resolve().parents[1]
_PROCESS = "control_plane.merge_process"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Why there is no sum; ``large``: because of a bound."""

    refused: str
    large: bool


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

        The claim that led here is kept up meanwhile; lost, the work is left to whoever has it now.
        Whoever else merges the same comes to the same bytes, and one of both is kept.

        Raises:
            Fault: store_unavailable, or internal when the process that merges died; the session is
                then merged again when its lease lapses.
        """
        gathering = asyncio.create_task(self._in_turn(session))
        renewing = asyncio.create_task(self._renew(session))
        try:
            await asyncio.wait({gathering, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not gathering.done():
                return
            await self._keep_or_fail(session, await gathering)
        finally:
            for task in (gathering, renewing):
                task.cancel()
            await asyncio.gather(gathering, renewing, return_exceptions=True)

    async def _in_turn(self, session: Session) -> tuple[list[StoredProfile], Gathered | Refused]:
        async with self._one:
            async with self._db.read() as conn:
                stored = await profiles.of_session(conn, session.account_id, session.session_id)
            own = [profile for profile in stored if not profile.late]
            return own, await self._gathered(session, own)

    async def _keep_or_fail(
        self, session: Session, found: tuple[list[StoredProfile], Gathered | Refused]
    ) -> None:
        own, gathered = found
        if isinstance(gathered, Refused):
            await self._failed(session, gathered)
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

    async def _gathered(self, session: Session, own: Sequence[StoredProfile]) -> Gathered | Refused:
        told = (f"isolates_asked={session.isolates}", f"isolates_taken={len(own)}")
        sizes = [(profile.size_bytes, _labels(profile)) for profile in own]
        async with _process() as process, aclosing(self._parts(own)) as parts:
            try:
                return await _asked(process, header(sizes, told), parts)
            except (OSError, ValueError, RuntimeError, asyncio.IncompleteReadError) as error:
                # RuntimeError: uvloop's word for a pipe whose other end is gone.
                raise Fault(Reason.INTERNAL, "the process that merges ended") from error

    async def _parts(self, own: Sequence[StoredProfile]) -> AsyncGenerator[bytes]:
        for profile in own:
            yield await self._blobs.get(profile.blob, profile.sha256)

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

    async def _failed(self, session: Session, told: Refused) -> None:
        async with self._db.begin(in_turn=session.session_id) as conn:
            now = await sessions.lock(conn, session.session_id, account_id=session.account_id)
            if now is not None and now.live:
                await sessions.move(
                    conn,
                    now,
                    SessionEvent.GAVE_UP,
                    reason=Reason.PROFILE_TOO_LARGE if told.large else Reason.PROFILE_INVALID,
                    message=f"The profiles of its captures can't be merged: {told.refused}.",
                )

    async def _renew(self, session: Session) -> None:
        """Keep the lease; return when it is lost."""
        held = True
        while held:
            await asyncio.sleep(self._lease_ms / 3000)
            with suppress(Fault):
                async with self._db.begin() as conn:
                    held = await sessions.renew(
                        conn, session, self._replica, lease_ms=self._lease_ms
                    )


def _labels(stored: StoredProfile) -> dict[str, str]:
    told = (stored.isolate_id, stored.metal_id, stored.datacenter)
    return dict(zip(LABELS, told, strict=True))


@asynccontextmanager
async def _process() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of its own for one merge; gone afterwards, whatever happened."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _PROCESS),
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # What it has to say is in its answer; this process's own stderr is for log lines.
        stderr=asyncio.subprocess.DEVNULL,
        # A Ctrl-C is for this process, which decides what is finished.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        # Not wait(): the pipes must be read to their end, or their transports outlive them.
        with suppress(OSError):
            await process.communicate()


async def _asked(
    process: asyncio.subprocess.Process, line: bytes, parts: AsyncIterator[bytes]
) -> Gathered | Refused:
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None  # noqa: S101, PT018 - asked for above
    stdin.write(line)
    async for data in parts:
        # One at a time, as it takes them: no more than one is here at once.
        stdin.write(data)
        await stdin.drain()
    stdin.close()
    answer: dict[str, Any] = json.loads(await stdout.readline())
    data = await stdout.readexactly(answer.pop("size_bytes"))
    return Refused(**answer) if "refused" in answer else Gathered(data=data, **answer)
