"""What agents send: sightings, how captures go, profiles. Any replica takes it, or twice."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault, Reason
from contract.messages import CaptureState, Receipt, ReportReply
from control_plane.metrics import Metrics
from control_plane.refresher import Refresher
from control_plane.session import CaptureEvent, SessionEvent, SessionState
from control_plane.store import (
    accounts,
    captures,
    history,
    metals,
    profiles,
    reports,
    sessions,
    sightings,
    workers,
)
from pprof import check, codec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from contract.messages import (
        CaptureKey,
        CaptureReport,
        NamespaceRef,
        Report,
        Sighting,
        UploadManifest,
    )
    from control_plane.blobs import Blobs
    from control_plane.settings import Settings
    from control_plane.store.captures import Capture
    from control_plane.store.database import Connection, Database
    from control_plane.store.sessions import Session

log = structlog.get_logger(__name__)

# What this replica remembers of registrations; above it, it asks the database anew.
_MAX_REMEMBERED = 200_000
_RETRY_AFTER_S = 1.0
# Captures of one message that spoke for another metal whose sessions are told.
_MOST_AUDITED = 16
# A capture that ended so brings no profile any more. One that was lost went on, and may.
_OVER = frozenset({CaptureState.REFUSED, CaptureState.FAILED, CaptureState.STOPPED})

UploadName = tuple[str, int, str]
_Registered = tuple[str, str, str, tuple["NamespaceRef", ...]]


@dataclass(eq=False, kw_only=True)
class _Kept:
    """The bytes of an unfinished upload; they outlive the stream that brought them."""

    metal_id: str
    data: bytearray = field(default_factory=bytearray)
    touched_s: float = 0.0
    # The stream that may write. A newer one for the same bytes takes over: the older is half-open.
    writer: Upload | None = None


class Intake:
    """One replica's intake. Unfinished uploads are its only state; losing them costs a resend."""

    def __init__(
        self, db: Database, blobs: Blobs, settings: Settings, metrics: Metrics | None = None
    ) -> None:
        self._db = db
        self._metrics = metrics or Metrics()
        self._blobs = blobs
        self._settings = settings
        self._kept: OrderedDict[UploadName, _Kept] = OrderedDict()
        self._accounts: set[str] = set()
        self._registered: set[_Registered] = set()
        self._refresher = Refresher(db)

    async def sightings(self, report: Report) -> ReportReply:
        """Take a metal's report in. What belongs to no account we know is left out.

        Raises:
            Fault: request_invalid for an agent that was replaced by a later start;
                store_unavailable.
        """
        metal, snapshot_wanted = report.metal, False
        forgotten = await self._refreshed(report)
        if forgotten is None:
            snapshot_wanted = await self._taken_in(report)
        elif not forgotten and not report.captures:
            return ReportReply(snapshot_wanted=False, stop=())
        async with self._db.read() as conn:
            running = await captures.heard_all(conn, metal.metal_id, report.captures)
            lost = await captures.forgotten(conn, metal.metal_id, metal.epoch)
        for key in set(lost) - set(running):
            await self._restarted(key)
        return ReportReply(
            snapshot_wanted=snapshot_wanted,
            stop=tuple(key for key in report.captures if running.get(key, True)),
        )

    async def _refreshed(self, report: Report) -> bool | None:
        """Take in a report that brings nothing new, which most do, together with others.

        Returns:
            whether its metal's agent has forgotten captures; None: the report brings something new.
        """
        if (
            report.snapshot
            or report.actors
            or not self._registered.issuperset(map(self._name, report.sightings))
        ):
            return None
        return await self._refresher.add(report)

    async def _taken_in(self, report: Report) -> bool:
        """Take in any report; whether a snapshot is wanted next."""
        metal_id = report.metal.metal_id
        async with self._db.begin() as conn:
            heard = await metals.hear(conn, report.metal, snapshot=report.snapshot)
            known = await self._known(conn, report)
            seen = [s for s in report.sightings if s.account_id in known]
            new = [s for s in seen if self._name(s) not in self._registered]
            if new:
                await workers.register(conn, new)
            await sightings.keep(conn, metal_id, seen, snapshot=report.snapshot)
            actors = [a for a in report.actors if a.account_id in known]
            await sightings.keep_actors(conn, metal_id, actors)
        self._remember(new)
        return not heard.pictured

    @staticmethod
    def _name(seen: Sighting) -> _Registered:
        return seen.account_id, seen.worker_id, seen.version_id, seen.namespaces

    async def _known(self, conn: Connection, report: Report) -> set[str]:
        named = {s.account_id for s in report.sightings} | {a.account_id for a in report.actors}
        if unsure := named - self._accounts:
            self._accounts |= await accounts.known(conn, unsure)
        if strangers := named - self._accounts:
            log.warning("accounts_unknown", metal=report.metal.metal_id, count=len(strangers))
        return named & self._accounts

    def _remember(self, registered: list[Sighting]) -> None:
        if len(self._registered) > _MAX_REMEMBERED:
            self._registered.clear()
        self._registered |= {self._name(s) for s in registered}

    async def _restarted(self, key: CaptureKey) -> None:
        async with self._db.begin() as conn:
            session, capture = await _locked(conn, key)
            await reports.end(
                conn,
                session,
                capture,
                CaptureEvent.FAILED,
                Reason.AGENT_RESTARTED,
                "The metal's agent restarted and has forgotten the capture.",
            )

    async def captured(self, report: CaptureReport) -> None:
        """Take in how a capture goes. Duplicates and late reports change nothing.

        Raises:
            Fault: capture_unknown; peer_forbidden for a capture of another metal;
                store_unavailable.
        """
        async with self._own(report.key, report.metal_id) as (conn, session, capture):
            await reports.take_in(conn, session, capture, report)

    async def kept_bytes(self, key: CaptureKey, sha256: str, *, metal_id: str | None = None) -> int:
        """Return how much of an upload is here, so that it goes on from there.

        Args:
            metal_id: who asks; None when nobody can tell.

        Raises:
            Fault: capture_unknown; peer_forbidden for a capture of another metal;
                store_unavailable.
        """
        kept = self._kept.get((key.session_id, key.capture, sha256))
        if kept is not None and metal_id in {None, kept.metal_id}:
            return len(kept.data)
        async with self._own(key, metal_id) as (conn, session, _):
            stored = await profiles.of_capture(
                conn, session.account_id, session.session_id, key.capture
            )
        return stored.size_bytes if stored is not None and stored.sha256 == sha256 else 0

    async def open_upload(self, manifest: UploadManifest) -> Upload:
        """Begin an upload, or go on with one. One that was stored before is at its end already.

        A capture given up as lost may still bring its profile: it is attached, and changes no
            state.

        Raises:
            Fault: profile_too_large; capture_unknown, also for another isolate's; peer_forbidden
                for another metal's; capture_stopped when it has another profile already or ended
                without one; session_cancelled; store_unavailable.
        """
        limit = self._settings.upload_max_bytes
        if not 0 < manifest.size_bytes <= limit:
            raise Fault(
                Reason.PROFILE_TOO_LARGE,
                f"A profile has 1 to {limit} bytes, not {manifest.size_bytes}.",
            )
        key = manifest.key
        async with self._own(key, manifest.metal_id) as (conn, session, capture):
            if capture.isolate_id not in {None, manifest.isolate_id}:
                raise _capture_unknown(key)
            stored = await profiles.of_capture(
                conn, session.account_id, session.session_id, key.capture
            )
            if stored is None:
                await _may_bring(conn, session, capture, manifest)
        if stored is not None:
            if stored.sha256 != manifest.sha256:
                raise Fault(Reason.CAPTURE_STOPPED, "The capture has another profile already.")
            kept = _Kept(metal_id=manifest.metal_id)
            return Upload(self, session.account_id, manifest, kept, stored=True)
        return self._claim(session.account_id, manifest)

    async def spoke_for_another(
        self, speaker: str, claimed: str, keys: Iterable[CaptureKey]
    ) -> None:
        """Write down that a metal's agent named another metal; the message itself is dropped.

        Args:
            speaker: the metal its certificate names.
            claimed: the metal its message names.
            keys: the captures it spoke of, which need not exist.

        Raises:
            Fault: store_unavailable.
        """
        log.warning("metal_spoke_for_another", metal=speaker, claimed=claimed)
        for key in islice(keys, _MOST_AUDITED):
            async with self._db.begin() as conn:
                with suppress(Fault):
                    await reports.disbelieve(conn, *await _locked(conn, key))

    @asynccontextmanager
    async def _own(
        self, key: CaptureKey, metal_id: str | None
    ) -> AsyncIterator[tuple[Connection, Session, Capture]]:
        """Begin, with the session of a metal's own capture locked; None: whose it is is not known.

        A metal that asks for another's is refused, and that is kept in the session's history.
        """
        async with self._db.begin(in_turn=key.session_id) as conn:
            session, capture = await _locked(conn, key)
            theirs = metal_id in {None, capture.metal_id}
            if theirs:
                yield conn, session, capture
            else:
                log.warning("metal_spoke_for_another", metal=metal_id, claimed=capture.metal_id)
                await reports.disbelieve(conn, session, capture)
        if not theirs:
            raise Fault(Reason.PEER_FORBIDDEN, f"The capture is not of {metal_id}.")

    def _claim(self, account_id: str, manifest: UploadManifest) -> Upload:
        self._drop_idle()
        name = (manifest.key.session_id, manifest.key.capture, manifest.sha256)
        kept = self._kept.setdefault(name, _Kept(metal_id=manifest.metal_id))
        upload = Upload(self, account_id, manifest, kept)
        kept.writer = upload
        self.touch(kept)
        return upload

    def touch(self, kept: _Kept) -> None:
        """Note that an unfinished upload is alive."""
        kept.touched_s = asyncio.get_running_loop().time()

    def _drop_idle(self) -> None:
        before_s = asyncio.get_running_loop().time() - self._settings.upload_idle_ms / 1000
        for name in [n for n, kept in self._kept.items() if kept.touched_s < before_s]:
            del self._kept[name]

    def make_room(self, more_bytes: int) -> None:
        """Refuse, for now, what would take all unfinished uploads together above their bound.

        Raises:
            Fault: store_unavailable.
        """
        held = sum(len(kept.data) for kept in self._kept.values())
        if held + more_bytes > self._settings.upload_memory_bytes:
            self._drop_idle()
            raise Fault(
                Reason.STORE_UNAVAILABLE,
                "Too many uploads are under way.",
                retry_after_s=_RETRY_AFTER_S,
            )

    def drop(self, manifest: UploadManifest) -> None:
        """Forget the bytes of an upload that is stored, or that was refused for good."""
        self._kept.pop((manifest.key.session_id, manifest.key.capture, manifest.sha256), None)

    async def store(self, account_id: str, manifest: UploadManifest, data: bytes) -> None:
        """Check a whole profile, keep it, and make its session ready.

        Raises:
            Fault: profile_invalid, profile_too_large; the capture has then failed;
                store_unavailable.
        """
        fault = await asyncio.to_thread(_refusal, data)
        if fault is not None:
            self._metrics.uploads.labels("refused").inc()
            async with self._db.begin() as conn:
                session, capture = await _locked(conn, manifest.key, manifest.metal_id)
                await reports.end(
                    conn, session, capture, CaptureEvent.FAILED, fault.reason, fault.message
                )
            raise fault
        blob = _blob_key(account_id, manifest)
        await self._blobs.put(blob, data)
        async with self._db.begin(in_turn=manifest.key.session_id) as conn:
            session, capture = await _locked(conn, manifest.key, manifest.metal_id)
            discarded = _is_discarded(session, capture)
            if discarded:
                await reports.end(
                    conn,
                    session,
                    capture,
                    CaptureEvent.STOPPED,
                    Reason.CAPTURE_STOPPED,
                    "discarded while its profile came",
                )
            else:
                await _store(conn, session, capture, manifest, blob)
        if discarded:
            # Discarded while it came: nothing of it is kept.
            self._metrics.uploads.labels("discarded").inc()
            await self._blobs.delete(blob)
            raise _discarded()
        self._metrics.stored(manifest.slices, size_bytes=len(data))
        log.info("profile_stored", session_id=session.session_id, size_bytes=len(data))


class Upload:
    """One upload stream. ``offset`` is where its bytes go on."""

    def __init__(
        self,
        intake: Intake,
        account_id: str,
        manifest: UploadManifest,
        kept: _Kept,
        *,
        stored: bool = False,
    ) -> None:
        self._intake = intake
        self._account_id = account_id
        self._manifest = manifest
        self._kept = kept
        self._stored = stored

    @property
    def offset(self) -> int:
        """How many bytes are here."""
        return self._manifest.size_bytes if self._stored else len(self._kept.data)

    async def write(self, offset: int, data: bytes) -> None:
        """Append; bytes that are here already are passed over.

        Raises:
            Fault: request_invalid for a gap or for more than was announced; capture_stopped when a
                newer stream has taken over; store_unavailable.
        """
        if self._stored:
            return
        self._check_writer()
        here = len(self._kept.data)
        if offset > here:
            raise Fault(Reason.REQUEST_INVALID, f"The upload goes on at {here}, not at {offset}.")
        if offset + len(data) > self._manifest.size_bytes:
            raise Fault(Reason.REQUEST_INVALID, "The upload is longer than it was announced.")
        new = data[here - offset :]
        self._intake.make_room(len(new))
        self._kept.data += new
        self._intake.touch(self._kept)

    async def finish(self) -> Receipt:
        """Store what came; answered when the profile is readable.

        Raises:
            Fault: request_invalid when bytes are missing (they may still come); profile_invalid
                when they are not those announced, or no profile; store_unavailable.
        """
        receipt = Receipt(key=self._manifest.key, size_bytes=self._manifest.size_bytes)
        if self._stored:
            return receipt
        self._check_writer()
        data = bytes(self._kept.data)
        if len(data) < self._manifest.size_bytes:
            raise Fault(
                Reason.REQUEST_INVALID,
                f"The upload ended at {len(data)} of {self._manifest.size_bytes} bytes.",
            )
        if hashlib.sha256(data).hexdigest() != self._manifest.sha256:
            self._intake.drop(self._manifest)
            raise Fault(Reason.PROFILE_INVALID, "The bytes do not have the SHA-256 announced.")
        try:
            await self._intake.store(self._account_id, self._manifest, data)
        except Fault as fault:
            if fault.reason is not Reason.STORE_UNAVAILABLE:
                self._intake.drop(self._manifest)
            raise
        self._intake.drop(self._manifest)
        return receipt

    def _check_writer(self) -> None:
        if self._kept.writer is not self:
            raise Fault(Reason.CAPTURE_STOPPED, "A newer stream goes on with this upload.")


async def _locked(
    conn: Connection, key: CaptureKey, metal_id: str | None = None
) -> tuple[Session, Capture]:
    """Lock the session of a capture and read both; a capture of another metal is not there."""
    found = await reports.lock(conn, key)
    if found is None or metal_id not in {None, found[1].metal_id}:
        raise _capture_unknown(key)
    return found


def _is_discarded(session: Session, capture: Capture) -> bool:
    return session.state is SessionState.CANCELLED or capture.stop is captures.Stop.DISCARD


def _discarded() -> Fault:
    return Fault(Reason.SESSION_CANCELLED, "The session was ended and wants no profile.")


def _capture_unknown(key: CaptureKey) -> Fault:
    return Fault(
        Reason.CAPTURE_UNKNOWN,
        f"There is no capture {key.capture} of session {key.session_id} for this metal.",
    )


async def _may_bring(
    conn: Connection, session: Session, capture: Capture, manifest: UploadManifest
) -> None:
    if _is_discarded(session, capture):
        raise _discarded()
    if capture.state in _OVER:
        raise Fault(Reason.CAPTURE_STOPPED, f"The capture is {capture.state}; its time is over.")
    if capture.state is CaptureState.ORDERED:
        # The word that it was accepted is late or lost; these bytes say it.
        await reports.accept(conn, session, capture, manifest.isolate_id)
        session = await sessions.lock(conn, session.session_id) or session
    if capture.live:
        # Agents free the isolate before they have anything to send.
        await captures.heard(conn, capture, freed=True)
        await reports.sampled(conn, session)


async def _store(
    conn: Connection, session: Session, capture: Capture, manifest: UploadManifest, blob: str
) -> None:
    await profiles.add(conn, capture, manifest, blob)
    moved = await captures.move(
        conn,
        capture,
        CaptureEvent.STORED,
        isolate_id=manifest.isolate_id,
        sampled_ms=manifest.window_ms,
    )
    if moved is not None and session.isolates == 1:
        await sessions.move(conn, session, SessionEvent.STORED)
    elif moved is not None and session.live:
        # The last one makes the session due, and dispatch has all of them merged.
        await reports.settle(conn, session, stored=True)
    elif moved is None and capture.state is not CaptureState.UPLOADED:
        await history.record(
            conn,
            session.account_id,
            session.session_id,
            capture=capture.capture,
            event="attached",
            state_before=capture.state,
            state_after=capture.state,
            message="its profile came after it was given up",
        )


def _blob_key(account_id: str, manifest: UploadManifest) -> str:
    name = f"{manifest.key.capture}-{manifest.sha256}.pprof"
    return f"profiles/{account_id}/{manifest.key.session_id}/{name}"


def _refusal(data: bytes) -> Fault | None:
    """Decode, which checks; runs off the event loop."""
    try:
        codec.decode(data)
    except check.ProfileTooLarge as error:
        return Fault(Reason.PROFILE_TOO_LARGE, str(error))
    except check.ProfileInvalid as error:
        return Fault(Reason.PROFILE_INVALID, str(error))
    return None
