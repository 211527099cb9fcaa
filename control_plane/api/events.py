"""What happens to a session while it happens: Server-Sent Events, made from its history.

An event's id is its place in the session's history, so a reader that was cut off goes on where it
was, at any replica, and is told nothing twice. Progress has no id: it is how things stand.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web

from contract.faults import Fault, FieldError, Reason
from control_plane import admission
from control_plane.api import auth, schema
from control_plane.api.parts import PARTS, STOPPING, STREAMS
from control_plane.api.session_view import timestamp
from control_plane.api.waiting import PATIENCE_S, first
from control_plane.session import LIVE_STATES, SessionState
from control_plane.store import captures, history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from control_plane.api.parts import Parts
    from control_plane.store.history import Entry
    from control_plane.store.sessions import Session

HEADER = "Last-Event-ID"
RETRY_MS = 2_000
# A reader that takes nothing for so long is gone, or might as well be.
WRITE_S = 10.0
_ID = re.compile(r"[0-9]{1,9}")
_TERMINAL = {state.value for state in SessionState if state not in LIVE_STATES}

log = structlog.get_logger(__name__)


async def follow(request: web.Request) -> web.StreamResponse:
    """Tell a session's events as they come; the stream ends after the one that ends the session.

    A reader that has them all already is answered 204, which is what keeps browsers from asking
    again.
    """
    account_id = await auth.account(request)
    session_id = schema.session_id(request)
    parts = request.app[PARTS]
    with request.app[STREAMS].one(account_id), parts.notices.watch(session_id) as watch:
        session = await admission.show(parts.db, account_id, session_id)
        story = _Story(parts, session)
        if await story.skip(_last_seen(request)):
            return web.Response(status=204)
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                # Proxies must hand events on as they come.
                "X-Accel-Buffering": "no",
            }
        )
        await response.prepare(request)
        _notice_silence(request)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + session.remaining_ms / 1000 + PATIENCE_S
        heartbeat_s = parts.settings.events_heartbeat_ms / 1000
        stopping = request.app[STOPPING]
        sent = f"retry: {RETRY_MS}\n\n"
        sent_s = loop.time()
        try:
            while True:
                sent += await story.news()
                if not sent and loop.time() - sent_s >= heartbeat_s:
                    sent = ": still here\n\n"
                if sent:
                    async with asyncio.timeout(WRITE_S):
                        await response.write(sent.encode())
                    sent, sent_s = "", loop.time()
                if story.over or stopping.is_set() or loop.time() > until_s:
                    break
                await first(watch, stopping, parts.settings.events_poll_ms / 1000)
            await response.write_eof()
        except (TimeoutError, ConnectionError):
            log.info("event_reader_gone", session_id=session_id)
            _cut(request)
        except Exception:
            # The answer has begun: no failure can be told in it any more.
            log.exception("event_stream_failed", session_id=session_id)
            _cut(request)
        return response


class _Story:
    """A reader's place in one session's history. ``over``: the end of the session was told."""

    def __init__(self, parts: Parts, session: Session) -> None:
        self._db = parts.db
        self._session = session
        self._told = 0
        self._sampled_ms: dict[int, int] = {}
        self.over = False

    async def skip(self, told: int) -> bool:
        """Begin after the events a reader has.

        Returns:
            True when these are all there will be.

        Raises:
            Fault: request_invalid for an event that never was; store_unavailable.
        """
        for entry in await self._entries() if told else ():
            if self._told == told or self.over:
                break
            self._tell(entry)
        if self._told != told:
            message = "Must be the id of an event of this session."
            raise schema.invalid([FieldError(pointer=f"header/{HEADER}", message=message)])
        return self.over

    async def news(self) -> str:
        """Return what happened since, and how far live captures are; empty when nothing changed."""
        told = ""
        try:
            for entry in await self._entries():
                told += self._tell(entry)
                if self.over:
                    return told
            return told + await self._progress()
        except Fault as fault:
            # The database may be away for a moment; the reader is told what happened after it.
            if fault.reason is not Reason.STORE_UNAVAILABLE:
                raise
            return told

    async def _entries(self) -> Sequence[Entry]:
        async with self._db.read() as conn:
            return await history.of_session(
                conn, self._session.account_id, self._session.session_id, after=self._told
            )

    def _tell(self, entry: Entry) -> str:
        self._told += 1
        data: dict[str, Any] = {
            "session": self._session.session_id,
            "at": timestamp(entry.at),
            "event": entry.event,
            "state_before": entry.state_before,
            "state": entry.state_after,
            "reason": entry.reason,
            "message": entry.message,
        }
        if entry.capture is not None:
            return _event("capture", data | {"capture": entry.capture}, self._told)
        self.over = entry.state_after in _TERMINAL
        return _event("session", data, self._told)

    async def _progress(self) -> str:
        async with self._db.read() as conn:
            tried = await captures.of_session(
                conn, self._session.account_id, self._session.session_id
            )
        told = ""
        for one in tried:
            if one.live and one.sampled_ms > self._sampled_ms.get(one.capture, 0):
                self._sampled_ms[one.capture] = one.sampled_ms
                data = {
                    "session": self._session.session_id,
                    "capture": one.capture,
                    "sampled_ms": one.sampled_ms,
                    "duration_ms": self._session.duration_ms,
                }
                told += _event("progress", data)
        return told


def _event(name: str, data: dict[str, Any], number: int | None = None) -> str:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


def _last_seen(request: web.Request) -> int:
    text = request.headers.get(HEADER, "")
    if not text:
        return 0
    if not _ID.fullmatch(text):
        message = "Must be the id of an event of this session."
        raise schema.invalid([FieldError(pointer=f"header/{HEADER}", message=message)])
    return int(text)


def _notice_silence(request: web.Request) -> None:
    # A reader whose machine vanished closes nothing: bytes it never acknowledged give it away.
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    peer = request.transport.get_extra_info("socket") if request.transport is not None else None
    if option is not None and peer is not None and peer.family != getattr(socket, "AF_UNIX", None):
        peer.setsockopt(socket.IPPROTO_TCP, option, int(WRITE_S * 1000))


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
