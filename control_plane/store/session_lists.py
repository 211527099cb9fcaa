"""Lists of sessions: newest first, filtered, page after page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import literal, select, true, tuple_

from control_plane.store import sessions
from control_plane.store.tables import sessions as table

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from contract.messages import ProfileType
    from control_plane.session import SessionState
    from control_plane.store.sessions import Session


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which sessions a list shows; None does not restrict. All but ``version_prefix`` are exact."""

    worker_id: str | None = None
    version_prefix: str | None = None
    profile_type: ProfileType | None = None
    state: SessionState | None = None
    origin: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def page(
    conn: AsyncConnection,
    account_id: str,
    only: Filter,
    *,
    limit: int,
    after: tuple[datetime, str] | None = None,
) -> tuple[Session, ...]:
    """Return an account's sessions, newest first.

    Args:
        after: ``(created_at, session_id)`` of the last one of the page before.
    """
    return await _page(conn, table.c.account_id == account_id, only, limit, after)


async def page_of_all(
    conn: AsyncConnection,
    account_id: str | None,
    only: Filter,
    *,
    limit: int,
    after: tuple[datetime, str] | None = None,
) -> tuple[Session, ...]:
    """Return sessions across accounts, newest first. For operators alone.

    Args:
        account_id: only this account's; None: everybody's.
    """
    whose = true() if account_id is None else table.c.account_id == account_id
    return await _page(conn, whose, only, limit, after)


async def _page(
    conn: AsyncConnection,
    whose: ColumnElement[bool],
    only: Filter,
    limit: int,
    after: tuple[datetime, str] | None,
) -> tuple[Session, ...]:
    exact = {
        table.c.worker_id: only.worker_id,
        table.c.profile_type: only.profile_type,
        table.c.state: only.state,
        table.c.origin: only.origin,
    }
    query = select(*sessions.COLUMNS).where(whose)
    query = query.where(*(column == value for column, value in exact.items() if value is not None))
    if only.version_prefix is not None:
        query = query.where(table.c.version_id.startswith(only.version_prefix, autoescape=True))
    if only.since is not None:
        query = query.where(table.c.created_at >= only.since)
    if only.until is not None:
        query = query.where(table.c.created_at < only.until)
    if after is not None:
        place = tuple_(literal(after[0]), literal(after[1]))
        query = query.where(tuple_(table.c.created_at, table.c.session_id) < place)
    rows = await conn.execute(
        query.order_by(table.c.created_at.desc(), table.c.session_id.desc()).limit(limit)
    )
    return tuple(sessions.from_row(row) for row in rows.mappings())
