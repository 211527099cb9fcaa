"""Requests that may be repeated: which session a caller's key has made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert

from control_plane.store.tables import idempotency_keys as keys

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_AT_ONCE = 1_000


@dataclass(frozen=True, kw_only=True)
class Key:
    """A caller's key for one request. ``body``: SHA-256 of what it asks for."""

    text: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a key was used for before."""

    body: bytes
    session_id: str


async def take(
    conn: AsyncConnection, account_id: str, key: Key, session_id: str, *, kept_ms: int
) -> Kept | None:
    """Take a key for a session about to be made in this transaction.

    Another caller that took it and has not committed yet is waited for, so that of two callers at
    once one makes the session and the other finds it.

    Returns:
        None when it is this session's now; otherwise what it was used for.
    """
    statement = insert(keys).values(
        account_id=account_id,
        key=key.text,
        body=key.body,
        session_id=session_id,
        expires_at=func.now() + timedelta(milliseconds=kept_ms),
    )
    new = statement.excluded
    taken = await conn.execute(
        statement.on_conflict_do_update(
            index_elements=["account_id", "key"],
            set_={
                "body": new.body,
                "session_id": new.session_id,
                "expires_at": new.expires_at,
            },
            # One that the sweep has not come to yet counts no more.
            where=keys.c.expires_at < func.now(),
        ).returning(keys.c.session_id)
    )
    if taken.one_or_none() is not None:
        return None
    rows = await conn.execute(
        select(keys.c.body, keys.c.session_id).where(
            keys.c.account_id == account_id, keys.c.key == key.text
        )
    )
    row = rows.mappings().one()
    return Kept(**row)


async def forget(conn: AsyncConnection) -> int:
    """Drop a bounded number of keys that count no more; the number dropped."""
    past = (
        select(keys.c.account_id, keys.c.key)
        .where(keys.c.expires_at < func.now())
        .order_by(keys.c.expires_at)
        .limit(_AT_ONCE)
        .with_for_update(skip_locked=True)
        .cte("past")
    )
    gone = await conn.execute(
        delete(keys).where(keys.c.account_id == past.c.account_id, keys.c.key == past.c.key)
    )
    return gone.rowcount
