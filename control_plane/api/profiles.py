"""Profiles: taken while the caller waits, or fetched from a session that is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from contract.faults import Fault, FieldError, Reason
from control_plane import admission
from control_plane.admission import ProfileRequest
from control_plane.api import auth, edge, encoding, renderings, schema, strict_json, waiting
from control_plane.api.parts import PARTS
from control_plane.session import SessionState
from control_plane.store import captures, profiles
from control_plane.store.profiles import MergedProfile, StoredProfile
from pprof import codec, formats
from pprof.check import ProfileInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from control_plane.api.parts import Parts
    from control_plane.store.sessions import Session

Kept = StoredProfile | MergedProfile

PPROF_TYPE = "application/vnd.google.protobuf"


async def take(request: web.Request) -> web.Response:
    """Take a profile while the caller waits, and answer its bytes."""
    account_id = await auth.account(request)
    asked = _asked(request, await edge.body(request))
    session = await waiting.ended(request, account_id, asked)
    if session.state is not SessionState.READY:
        raise ending(session)
    stored, data = await _read(request.app[PARTS], session)
    return await _pprof(request, data, _told(session, stored))


async def download(request: web.Request) -> web.Response:
    """Answer a ready session's profile in the format asked for."""
    account_id = await auth.account(request)
    asked = schema.profile_query(request)
    session = await ready(request, account_id, schema.session_id(request))
    stored = await whole(request.app[PARTS], session)
    return await _answer(request, session, stored, asked)


async def download_capture(request: web.Request) -> web.Response:
    """Answer one isolate's profile, also while others of its session are still captured."""
    account_id = await auth.account(request)
    asked = schema.profile_query(request)
    parts = request.app[PARTS]
    number = schema.capture(request)
    session = await admission.show(parts.db, account_id, schema.session_id(request))
    return await _answer(request, session, await _of_capture(parts, session, number), asked)


async def _answer(
    request: web.Request, session: Session, stored: Kept, asked: schema.ProfileQuery
) -> web.Response:
    if asked.format in formats.FORMATS:
        return await _rendered(request, session, stored, asked)
    name = file_name(session, stored, asked.format)
    headers = _told(session, stored) | {
        "ETag": f'"{stored.sha256}"',
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    if renderings.has_it(request, stored.sha256):
        return web.Response(status=304, headers=headers)
    data = await bytes_of(request.app[PARTS], stored)
    if asked.format == "pprof":
        return await _pprof(request, data, headers)
    packed = await encoding.gzipped(data)
    return web.Response(body=packed, content_type="application/gzip", headers=headers)


async def ready(request: web.Request, account_id: str, session_id: str) -> Session:
    """Read a session that has a profile.

    Raises:
        Fault: session_unknown; session_not_ready while it is at work; capture_unknown when it ended
            without a profile.
    """
    session = await admission.show(request.app[PARTS].db, account_id, session_id)
    if session.live:
        raise Fault(
            Reason.SESSION_NOT_READY,
            f"The session is {session.state.value}; it has no profile yet.",
        )
    if session.state is not SessionState.READY:
        raise Fault(
            Reason.CAPTURE_UNKNOWN,
            f"The session has no profile: it is {session.state.value}. {session.message}".strip(),
        )
    return session


async def _rendered(
    request: web.Request, session: Session, stored: Kept, asked: schema.ProfileQuery
) -> web.Response:
    form = formats.FORMATS[asked.format]
    tag = f"{stored.sha256}-{asked.format}-{form.version}-{asked.sample_type}-{asked.max_nodes}"
    options = formats.Options(
        sample_type=asked.sample_type, max_nodes=asked.max_nodes, title=title(session)
    )
    headers = _told(session, stored) | derived(tag, file_name(session, stored, form.ending))
    if renderings.has_it(request, tag):
        return web.Response(status=304, headers=headers)

    async def make() -> Callable[[], bytes]:
        data = await bytes_of(request.app[PARTS], stored)
        return lambda: formats.render(codec.decode(data), asked.format, options)

    try:
        data = await request.app[renderings.RENDERINGS].made(tag, make)
    except ProfileInvalid as error:
        # Stored profiles are valid: what is not is what was asked of this one.
        pointer = "query/sample_type" if asked.sample_type else "query/format"
        raise schema.invalid([FieldError(pointer=pointer, message=f"{error}.")]) from None
    return await renderings.answer(request, data, form.content_type, headers)


def derived(tag: str, name: str) -> dict[str, str]:
    """Headers of what was made of a profile."""
    return {
        "ETag": f'"{tag}"',
        "Content-Disposition": f'inline; filename="{name}"',
        # Not for ever: a later version of this program may tell the same profile better.
        "Cache-Control": "private, no-cache",
    }


def ending(session: Session) -> Fault:
    """Tell how a session ended that did not end well."""
    return Fault(
        session.reason or Reason.INTERNAL,
        session.message,
        retry_after_s=session.retry_after_s,
    )


def _asked(request: web.Request, raw: bytes) -> ProfileRequest:
    worker, version = request.match_info["worker"], request.match_info["version"]
    wrong: list[FieldError] = schema.worker(worker) + schema.version(version)
    body: schema.ProfileBody | None = None
    try:
        body = schema.body(schema.ProfileBody, strict_json.parse(raw))
    except Fault as fault:
        wrong.extend(fault.fields)
    if body is None or wrong:
        raise schema.invalid(wrong)
    return ProfileRequest(
        worker=worker,
        version=version,
        profile_type=body.kind,
        duration_ms=body.duration_ms,
        actor=body.actor,
        origin="sync",
    )


async def _read(parts: Parts, session: Session) -> tuple[Kept, bytes]:
    stored = await whole(parts, session)
    return stored, await bytes_of(parts, stored)


async def whole(parts: Parts, session: Session) -> Kept:
    """Read what is known of a ready session's own profile: the merged one of several isolates."""
    async with parts.db.read() as conn:
        if session.isolates > 1:
            merged = await profiles.merged_of(conn, session.account_id, (session.session_id,))
            if merged:
                return merged[session.session_id]
        stored = await profiles.of_session(conn, session.account_id, session.session_id)
    if not stored:
        raise Fault(Reason.INTERNAL, f"session {session.session_id} is ready without a profile")
    return stored[0]


async def _of_capture(parts: Parts, session: Session, number: int) -> StoredProfile:
    """Read what is known of one capture's profile.

    Raises:
        Fault: capture_unknown for a capture that never was or ended without one, and for all of a
            discarded session; session_not_ready while it may still come.
    """
    named = session.account_id, session.session_id
    async with parts.db.read() as conn:
        stored = await profiles.of_capture(conn, *named, number)
        capture = await captures.read(conn, session, number)
    if session.state is SessionState.CANCELLED:
        raise Fault(Reason.CAPTURE_UNKNOWN, "The session was cancelled and keeps no profile.")
    if stored is not None:
        return stored
    if capture is None:
        raise Fault(Reason.CAPTURE_UNKNOWN, "The session has no such capture.")
    if capture.live:
        raise Fault(
            Reason.SESSION_NOT_READY,
            f"Capture {number} is {capture.state.value}; it has no profile yet.",
        )
    raise Fault(
        Reason.CAPTURE_UNKNOWN,
        f"Capture {number} has no profile: it was {capture.state.value}. {capture.message}".strip(),
    )


async def bytes_of(parts: Parts, stored: Kept) -> bytes:
    """Read a stored profile's bytes, as its agent, or the merge, packed them."""
    return await parts.blobs.get(stored.blob, stored.sha256)


def _told(session: Session, stored: Kept) -> dict[str, str]:
    if isinstance(stored, MergedProfile):
        return {
            "X-Isoprof-Session": session.session_id,
            "X-Isoprof-Version": session.version_id,
            "X-Isoprof-Samples": str(stored.samples),
            "X-Isoprof-Isolates": f"{len(stored.captures)}/{session.isolates}",
        }
    return {
        "X-Isoprof-Session": session.session_id,
        "X-Isoprof-Datacenter": stored.datacenter,
        "X-Isoprof-Metal": stored.metal_id,
        "X-Isoprof-Version": stored.version_id,
        "X-Isoprof-Samples": str(stored.samples),
        "X-Isoprof-Lock-Held-Us": str(stored.lock_held_us),
    }


async def _pprof(request: web.Request, data: bytes, headers: dict[str, str]) -> web.Response:
    headers = headers | {"Vary": "Accept-Encoding"}
    if encoding.is_gzip(data):
        if encoding.accepts_gzip(request.headers.get("Accept-Encoding", "")):
            headers["Content-Encoding"] = "gzip"
        else:
            data = await encoding.gunzipped(data)
    return web.Response(body=data, content_type=PPROF_TYPE, headers=headers)


def title(session: Session) -> str:
    """What a session's profile is of."""
    taken = session.created_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{session.worker_name} {session.version_id[:8]} {session.profile_type.value}, {taken}"


def file_name(session: Session, stored: Kept, form: str) -> str:
    """Name a file of a session's profile after what was profiled, and when."""
    # Worker names are restricted to characters that are safe here; the rest is ours.
    stem = f"{session.worker_name}-{session.version_id[:8]}-{session.profile_type.value}"
    taken = session.created_at.strftime("%Y%m%dT%H%M%SZ")
    several = session.isolates > 1
    part = f"-{stored.capture}" if several and isinstance(stored, StoredProfile) else ""
    return f"{stem}-{taken}{part}.{form}"
