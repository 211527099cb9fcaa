"""Counts over everything, for operators and for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_AGENTS = text(
    """
    SELECT count(*) AS known, count(*) FILTER (WHERE m.draining) AS draining,
           count(*) FILTER (WHERE r.reported_at IS NULL
               OR r.reported_at < now() - :silent_ms * interval '1 millisecond') AS silent
    FROM metals m LEFT JOIN metal_reports r ON r.metal_id = m.metal_id AND r.epoch = m.epoch
    """
)
_DUE = text(
    """
    SELECT count(*) AS waiting,
           coalesce((extract(epoch FROM now() - min(order_due_at)) * 1000)::bigint, 0) AS oldest_ms
    FROM sessions WHERE order_due_at <= now()
    """
)
_LIVE = text("SELECT state, count(*) AS n FROM sessions WHERE ended_at IS NULL GROUP BY state")
_ENDED = text(
    """
    SELECT state, coalesce(reason, '') AS reason, count(*) AS n FROM sessions
    WHERE created_at > now() - interval '1 hour' AND ended_at IS NOT NULL GROUP BY 1, 2
    """
)


@dataclass(frozen=True, kw_only=True)
class AgentCounts:
    """Agents ever heard of; of those, silent ones and ones on draining metals."""

    known: int
    silent: int
    draining: int


@dataclass(frozen=True, kw_only=True)
class DueCounts:
    """Sessions dispatch has to look at, and how long the oldest has waited."""

    waiting: int
    oldest_ms: int


async def agents(conn: AsyncConnection, *, silent_ms: int) -> AgentCounts:
    """Count agents."""
    rows = await conn.execute(_AGENTS, {"silent_ms": silent_ms})
    return AgentCounts(**rows.mappings().one())


async def due(conn: AsyncConnection) -> DueCounts:
    """Count what is due."""
    return DueCounts(**(await conn.execute(_DUE)).mappings().one())


async def live_sessions(conn: AsyncConnection) -> dict[str, int]:
    """Count live sessions by state; states without any are left out."""
    return {row.state: row.n for row in await conn.execute(_LIVE)}


async def ended_sessions(conn: AsyncConnection) -> dict[tuple[str, str], int]:
    """Count sessions made in the last hour that have ended, by state and reason ('' for none)."""
    return {(row.state, row.reason): row.n for row in await conn.execute(_ENDED)}
