"""What an account has used lately; exact while its row is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from control_plane.quota import AtMost, Spent

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

# A session that goes on is charged what it asked for; one that has ended, for how long each of its
# captures held its isolate, and no more than it asked for.
_SPENT = text(
    """
    SELECT s.created_at AS made_at, s.ended_at IS NULL AS live,
           CASE WHEN s.ended_at IS NULL THEN s.duration_ms::bigint * s.isolates
                ELSE coalesce(c.held_ms, 0) END AS charged_ms,
           least(s.deadline_at,
                 coalesce(c.ends_at, now() + s.duration_ms * interval '1 millisecond')) AS ends_at
    FROM sessions s
    LEFT JOIN LATERAL (
        SELECT max(c.ends_at) FILTER (WHERE c.ended_at IS NULL) AS ends_at,
               sum(least(s.duration_ms, extract(epoch FROM
                   coalesce(c.freed_at, c.ended_at) - c.accepted_at) * 1000))::bigint AS held_ms
        FROM captures c
        WHERE c.account_id = s.account_id AND c.session_id = s.session_id
          AND c.accepted_at IS NOT NULL
    ) c ON true
    WHERE s.account_id = :account_id
      AND (s.created_at > now() - interval '1 hour' OR s.ended_at IS NULL)
    ORDER BY s.created_at
    """
)
_AT_MOST = text(
    """
    SELECT count(*) FILTER (WHERE ended_at IS NULL) AS live, count(*) AS made,
           coalesce(sum(duration_ms::bigint * isolates), 0)::bigint AS asked_ms
    FROM sessions
    WHERE account_id = :account_id
      AND (created_at > now() - interval '1 hour' OR ended_at IS NULL)
    """
)
_NOW = text("SELECT clock_timestamp()")


async def at_most(conn: AsyncConnection, account_id: str) -> AtMost:
    """Count what an account has used, without looking at what became of each session."""
    rows = await conn.execute(_AT_MOST, {"account_id": account_id})
    return AtMost(**rows.mappings().one())


async def spent(conn: AsyncConnection, account_id: str) -> tuple[datetime, tuple[Spent, ...]]:
    """Return the database's time, and the account's sessions that count, oldest first."""
    rows = await conn.execute(_SPENT, {"account_id": account_id})
    found = tuple(Spent(**row) for row in rows.mappings())
    now: datetime = (await conn.execute(_NOW)).scalar_one()
    return now, found
