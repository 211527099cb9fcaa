"""Metals and datacenters as an operator sees them, and what is being emptied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from contract.messages import CaptureKey
from control_plane.store.operator_tables import drained_datacenters
from control_plane.store.tables import metals

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from sqlalchemy.ext.asyncio import AsyncConnection

_METALS = """
    SELECT m.metal_id, m.datacenter, m.address, m.epoch, m.max_captures, m.registered_at,
           m.draining, m.drain_until, d.datacenter IS NOT NULL AS datacenter_draining,
           r.reported_at,
           (SELECT count(*) FROM captures c
            WHERE c.metal_id = m.metal_id AND c.ended_at IS NULL) AS live_captures,
           (SELECT coalesce(sum(s.isolates), 0)::bigint FROM sightings s
            WHERE s.metal_id = m.metal_id) AS isolates
    FROM metals m
    LEFT JOIN metal_reports r ON r.metal_id = m.metal_id AND r.epoch = m.epoch
    LEFT JOIN drained_datacenters d ON d.datacenter = m.datacenter
"""
_ONE = text(_METALS + "WHERE m.metal_id = :metal_id")
_PAGE = text(
    _METALS
    + """
    WHERE m.metal_id > :after AND (CAST(:datacenter AS text) IS NULL OR m.datacenter = :datacenter)
    ORDER BY m.metal_id LIMIT :limit
    """
)
_DATACENTERS = text(
    """
    SELECT m.datacenter, count(*) AS metals, count(*) FILTER (WHERE m.draining) AS draining_metals,
           bool_or(d.datacenter IS NOT NULL) AS draining, max(d.drain_until) AS drain_until,
           coalesce(sum(live.n), 0)::bigint AS live_captures
    FROM metals m
    LEFT JOIN drained_datacenters d ON d.datacenter = m.datacenter
    LEFT JOIN LATERAL (SELECT count(*) AS n FROM captures c
                       WHERE c.metal_id = m.metal_id AND c.ended_at IS NULL) live ON true
    WHERE m.datacenter > :after AND (CAST(:only AS text) IS NULL OR m.datacenter = :only)
    GROUP BY m.datacenter ORDER BY m.datacenter LIMIT :limit
    """
)
_TAKING = text(
    """
    SELECT metal_id, datacenter FROM metals
    WHERE metal_id = ANY(CAST(:metal_ids AS text[])) AND NOT draining
    ORDER BY metal_id FOR SHARE
    """
)
_DRAINED = text(
    "SELECT datacenter FROM drained_datacenters WHERE datacenter = ANY(CAST(:names AS text[]))"
)
_OVERDUE = text(
    """
    SELECT c.session_id, c.capture
    FROM captures c
    JOIN metals m ON m.metal_id = c.metal_id
    LEFT JOIN drained_datacenters d ON d.datacenter = m.datacenter
    WHERE c.state = 'sampling' AND c.stop IS NULL
      AND (m.draining AND m.drain_until <= now() OR d.drain_until <= now())
    LIMIT :limit
    """
)


@dataclass(frozen=True, kw_only=True)
class MetalState:
    """A metal.

    Args:
        drain_until: when captures that still run there are stopped; None: they may finish.
        reported_at: None when nothing was heard since the agent, or the database, restarted.
        isolates: loaded there at its last report.
    """

    metal_id: str
    datacenter: str
    address: str
    epoch: int
    max_captures: int
    registered_at: datetime
    draining: bool
    drain_until: datetime | None
    datacenter_draining: bool
    reported_at: datetime | None
    live_captures: int
    isolates: int


@dataclass(frozen=True, kw_only=True)
class DatacenterState:
    """A datacenter, as the sum of its metals."""

    datacenter: str
    metals: int
    draining_metals: int
    draining: bool
    drain_until: datetime | None
    live_captures: int


async def metal(conn: AsyncConnection, metal_id: str) -> MetalState | None:
    """Read one metal."""
    row = (await conn.execute(_ONE, {"metal_id": metal_id})).mappings().one_or_none()
    return MetalState(**row) if row is not None else None


async def page(
    conn: AsyncConnection, *, limit: int, after: str = "", datacenter: str | None = None
) -> tuple[MetalState, ...]:
    """List metals by id."""
    rows = await conn.execute(_PAGE, {"limit": limit, "after": after, "datacenter": datacenter})
    return tuple(MetalState(**row) for row in rows.mappings())


async def datacenters(
    conn: AsyncConnection, *, limit: int, after: str = ""
) -> tuple[DatacenterState, ...]:
    """List datacenters by name."""
    rows = await conn.execute(_DATACENTERS, {"limit": limit, "after": after, "only": None})
    return tuple(DatacenterState(**row) for row in rows.mappings())


async def datacenter(conn: AsyncConnection, name: str) -> DatacenterState | None:
    """Read one datacenter."""
    rows = await conn.execute(_DATACENTERS, {"limit": 1, "after": "", "only": name})
    row = rows.mappings().one_or_none()
    return DatacenterState(**row) if row is not None else None


async def drain_metal(conn: AsyncConnection, metal_id: str, within: timedelta | None) -> bool:
    """Have nothing new land on a metal; False when there is none of this name.

    Waits for whoever is about to order a capture there (``takes``).
    """
    done = await conn.execute(
        update(metals)
        .where(metals.c.metal_id == metal_id)
        .values(draining=True, drain_until=None if within is None else func.now() + within)
    )
    return done.rowcount > 0


async def undrain_metal(conn: AsyncConnection, metal_id: str) -> bool:
    """Let captures land on a metal again."""
    done = await conn.execute(
        update(metals).where(metals.c.metal_id == metal_id).values(draining=False, drain_until=None)
    )
    return done.rowcount > 0


async def drain_datacenter(
    conn: AsyncConnection, datacenter: str, within: timedelta | None
) -> bool:
    """Have nothing new land in a datacenter, on metals that come later either."""
    held = await conn.execute(
        select(metals.c.metal_id)
        .where(metals.c.datacenter == datacenter)
        .order_by(metals.c.metal_id)
        .with_for_update(key_share=True)
    )
    if not held.all():
        return False
    until = None if within is None else func.now() + within
    statement = insert(drained_datacenters).values(datacenter=datacenter, drain_until=until)
    await conn.execute(
        statement.on_conflict_do_update(
            index_elements=["datacenter"], set_={"drain_until": statement.excluded.drain_until}
        )
    )
    return True


async def undrain_datacenter(conn: AsyncConnection, datacenter: str) -> bool:
    """Let captures land in a datacenter again, but for metals drained on their own."""
    known = await conn.scalar(
        select(metals.c.metal_id).where(metals.c.datacenter == datacenter).limit(1)
    )
    await conn.execute(
        drained_datacenters.delete().where(drained_datacenters.c.datacenter == datacenter)
    )
    return known is not None


async def taking(conn: AsyncConnection, metal_ids: list[str]) -> frozenset[str]:
    """Return those metals that still take captures, and hold off their drain until the commit.

    Candidates were read before; a drain written since then must not be overtaken.
    """
    rows = await conn.execute(_TAKING, {"metal_ids": metal_ids})
    found = rows.all()
    # A statement of its own: it sees what was committed while the rows were waited for.
    drained = await conn.execute(_DRAINED, {"names": list({row.datacenter for row in found})})
    away = frozenset(drained.scalars())
    return frozenset(row.metal_id for row in found if row.datacenter not in away)


async def overdue(conn: AsyncConnection, *, limit: int) -> tuple[CaptureKey, ...]:
    """Return captures that still run where a drain's deadline has passed, untold so far."""
    rows = await conn.execute(_OVERDUE, {"limit": limit})
    return tuple(CaptureKey(session_id=row.session_id, capture=row.capture) for row in rows)
