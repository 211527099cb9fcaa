"""Profiles as bytes: taken while the caller waits, or fetched from a session that is ready."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, assert_never

from aiohttp import web

from contract.faults import Fault, FieldError, Reason
from control_plane import admission
from control_plane.admission import ProfileRequest
from control_plane.api import auth, encoding, schema, strict_json, waiting
from control_plane.api.parts import PARTS
from control_plane.session import SessionState
from control_plane.store import profiles
from pprof import codec
from pprof.top import top

if TYPE_CHECKING:
    from control_plane.api.parts import Parts
    from control_plane.store.profiles import StoredProfile
    from control_plane.store.sessions import Session

PPROF_TYPE = "application/vnd.google.protobuf"


async def take(request: web.Request) -> web.Response:
    """Take a profile while the caller waits, and answer its bytes."""
    account_id = await auth.account(request)
    asked = _asked(request, await request.read())
    session = await waiting.ended(request, account_id, asked)
    if session.state is not SessionState.READY:
        raise ending(session)
    stored, data = await _read(request.app[PARTS], session)
    return await _pprof(request, data, _told(session, stored))


async def download(request: web.Request) -> web.Response:
    """Answer a ready session's profile in the format asked for."""
    account_id = await auth.account(request)
    wanted = schema.query(schema.FormatQuery, request.query).format
    parts = request.app[PARTS]
    session = await admission.show(parts.db, account_id, schema.session_id(request))
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
    stored, data = await _read(parts, session)
    headers = _told(session, stored) | {
        "ETag": f'"{stored.sha256}"',
        "Content-Disposition": f'attachment; filename="{_file_name(session, wanted)}"',
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    if _has_it(request, stored.sha256):
        return web.Response(status=304, headers=headers)
    match wanted:
        case "pprof":
            return await _pprof(request, data, headers)
        case "pprof.gz":
            packed = await encoding.gzipped(data)
            return web.Response(body=packed, content_type="application/gzip", headers=headers)
        case "top":
            table = await asyncio.to_thread(_top, data)
            return web.Response(body=table, content_type="application/json", headers=headers)
        case _:
            assert_never(wanted)


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


async def _read(parts: Parts, session: Session) -> tuple[StoredProfile, bytes]:
    async with parts.db.read() as conn:
        stored = await profiles.of_session(conn, session.account_id, session.session_id)
    if not stored:
        raise Fault(Reason.INTERNAL, f"session {session.session_id} is ready without a profile")
    return stored[0], await parts.blobs.get(stored[0].blob, stored[0].sha256)


def _told(session: Session, stored: StoredProfile) -> dict[str, str]:
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


def _has_it(request: web.Request, sha256: str) -> bool:
    return any(tag.value in {sha256, "*"} for tag in request.if_none_match or ())


def _file_name(session: Session, wanted: str) -> str:
    # Worker names are restricted to characters that are safe here; the rest is ours.
    stem = f"{session.worker_name}-{session.version_id[:8]}-{session.profile_type.value}"
    taken = session.created_at.strftime("%Y%m%dT%H%M%SZ")
    ending_ = "top.json" if wanted == "top" else wanted
    return f"{stem}-{taken}.{ending_}"


def _top(data: bytes) -> bytes:
    table = top(codec.decode(data))
    body = {"success": True, "errors": [], "messages": [], "result": asdict(table)}
    return json.dumps(body).encode()
