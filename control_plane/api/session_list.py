"""The list of an account's sessions: filters, each checked by name, and a cursor."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from contract import ids
from contract.faults import FieldError
from contract.messages import ProfileType
from control_plane import admission
from control_plane.api import auth, envelope, schema
from control_plane.api.parts import PARTS
from control_plane.api.session_view import session_view
from control_plane.session import SessionState
from control_plane.store import captures, profiles, session_lists
from control_plane.store.session_lists import Filter

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.store.database import Connection
    from control_plane.store.sessions import Session

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What the database and every client can say.
_END = datetime(9999, 1, 1, tzinfo=UTC)

Place = tuple[datetime, str]


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("told", "{message}", {"message": message})


def _at(text: object) -> datetime:
    told = _wrong("Must be a time as in RFC 3339, such as 2026-12-01T08:30:00Z.")
    if not isinstance(text, str) or not _RFC3339.fullmatch(text):
        raise told
    try:
        at = datetime.fromisoformat(text.upper().replace(" ", "T")).astimezone(UTC)
    except (ValueError, OverflowError):
        raise told from None
    if not _EPOCH <= at < _END:
        raise told
    return at


def _worker(text: str) -> str:
    for wrong in schema.worker(text):
        raise _wrong(wrong.message)
    return text


def _version(text: str) -> str:
    for wrong in schema.version(text):
        raise _wrong(wrong.message)
    return text.lower()


def _place(text: object) -> Place:
    told = _wrong("Must be a cursor of an earlier answer.")
    try:
        plain = base64.urlsafe_b64decode(str(text).encode()).decode()
        since_us, _, session_id = plain.partition(".")
        if not re.fullmatch(r"\d{1,18}", since_us, re.ASCII):
            raise told
        at = _EPOCH + timedelta(microseconds=int(since_us))
    except (binascii.Error, ValueError, OverflowError):
        raise told from None
    if at >= _END or not ids.is_uuid(session_id):
        raise told
    return at, session_id


def cursor_after(session: Session) -> str:
    """Return where the page after this session begins."""
    since_us = (session.created_at - _EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(f"{since_us}.{session.session_id}".encode()).decode()


Cursor = Annotated[Place, BeforeValidator(_place)]
At = Annotated[datetime, BeforeValidator(_at)]


class SessionsQuery(BaseModel):
    """Filters and cursor of the session list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    worker: Annotated[str, AfterValidator(_worker)] | None = None
    version: Annotated[str, AfterValidator(_version)] | None = None
    profile_type: ProfileType | None = None
    state: SessionState | None = None
    origin: Literal["sync", "api"] | None = None
    since: At | None = None
    until: At | None = None
    limit: Annotated[int, Field(ge=1, le=schema.MAX_LIST)] = 20
    cursor: Cursor | None = None


def read(raw: Any) -> SessionsQuery:
    """Check the filters, those that belong together too.

    Raises:
        Fault: request_invalid, naming each that is wrong.
    """
    asked = schema.query(SessionsQuery, raw)
    wrong: list[FieldError] = []
    if asked.version == ids.LATEST and asked.worker is None:
        wrong.append(FieldError(pointer="query/version", message="'latest' needs a worker."))
    if asked.since is not None and asked.until is not None and asked.since >= asked.until:
        wrong.append(FieldError(pointer="query/until", message="Must be after since."))
    if wrong:
        raise schema.invalid(wrong)
    return asked


async def list_sessions(request: web.Request) -> web.Response:
    """Answer an account's sessions, newest first.

    ``since`` is the first moment a session may have been made, ``until`` the first it may not.
    """
    account_id = await auth.account(request)
    asked = read(request.query)
    async with request.app[PARTS].db.read() as conn:
        only = await _filter(conn, account_id, asked)
        found = await session_lists.page(
            conn, account_id, only, limit=asked.limit + 1, after=asked.cursor
        )
        shown = found[: asked.limit]
        named = [session.session_id for session in shown]
        tried = await captures.of_sessions(conn, account_id, named)
        stored = await profiles.of_sessions(conn, account_id, named)
        several = [session.session_id for session in shown if session.isolates > 1]
        merged = await profiles.merged_of(conn, account_id, several)
    views = [
        session_view(
            one,
            tried.get(one.session_id, ()),
            stored.get(one.session_id, ()),
            merged.get(one.session_id),
        )
        for one in shown
    ]
    more = len(found) > asked.limit
    return envelope.cursor(views, after=cursor_after(shown[-1]) if more else None)


async def _filter(conn: Connection, account_id: str, asked: SessionsQuery) -> Filter:
    worker_id, version = None, asked.version
    if asked.worker is not None:
        worker = await admission.resolve_worker(conn, account_id, asked.worker)
        worker_id = worker.worker_id
        if version == ids.LATEST:
            version = (await admission.resolve_version(conn, worker, version)).version_id
    return Filter(
        worker_id=worker_id,
        version_prefix=version,
        profile_type=asked.profile_type,
        state=asked.state,
        origin=asked.origin,
        since=asked.since,
        until=asked.until,
    )
