"""Metals: where orders reach their agents, and when those were last heard of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, exists, func, or_, select
from sqlalchemy.dialects.postgresql import insert

from contract.faults import Fault, Reason
from control_plane.store.tables import metal_reports, metals

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.ext.asyncio import AsyncConnection

    from contract.messages import Metal


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What the store knew of a reporting metal.

    Args:
        pictured: a whole picture of this epoch came in before and is still there.
    """

    pictured: bool


async def hear(conn: AsyncConnection, metal: Metal, *, snapshot: bool) -> Heard:
    """Take a report's header in. Writes to the logged table only when something changed.

    Raises:
        Fault: request_invalid, for an agent older than the one heard last.
    """
    statement = insert(metals).values(
        metal_id=metal.metal_id,
        datacenter=metal.datacenter,
        address=metal.address,
        epoch=metal.epoch,
        max_captures=metal.max_captures,
    )
    new = statement.excluded
    await conn.execute(
        statement.on_conflict_do_update(
            index_elements=["metal_id"],
            set_={
                "datacenter": new.datacenter,
                "address": new.address,
                "epoch": new.epoch,
                "max_captures": new.max_captures,
            },
            where=(metals.c.epoch <= new.epoch)
            & or_(
                metals.c.datacenter != new.datacenter,
                metals.c.address != new.address,
                metals.c.epoch != new.epoch,
                metals.c.max_captures != new.max_captures,
            ),
        )
    )
    known = await conn.execute(
        select(metals.c.epoch, metal_reports.c.epoch.label("pictured"))
        .select_from(metals.outerjoin(metal_reports, metals.c.metal_id == metal_reports.c.metal_id))
        .where(metals.c.metal_id == metal.metal_id)
    )
    row = known.one()
    if row.epoch > metal.epoch:
        raise Fault(
            Reason.REQUEST_INVALID,
            f"A later start of the agent on {metal.metal_id} has reported already.",
        )
    pictured = row.pictured == metal.epoch
    if snapshot or pictured:
        await _heard_now(conn, metal)
    elif row.pictured is not None:
        # The picture is an earlier start's: not heard, until the whole one comes.
        await conn.execute(delete(metal_reports).where(metal_reports.c.metal_id == metal.metal_id))
    return Heard(pictured=snapshot or pictured)


async def _heard_now(conn: AsyncConnection, metal: Metal) -> None:
    statement = insert(metal_reports).values(
        metal_id=metal.metal_id, epoch=metal.epoch, reported_at=func.now()
    )
    await conn.execute(
        statement.on_conflict_do_update(
            index_elements=["metal_id"],
            set_={
                "epoch": statement.excluded.epoch,
                "reported_at": statement.excluded.reported_at,
            },
        )
    )


async def address(conn: AsyncConnection, metal_id: str) -> str | None:
    """Return where the metal's agent is reached now."""
    return await conn.scalar(select(metals.c.address).where(metals.c.metal_id == metal_id))


async def datacenters(conn: AsyncConnection, named: Collection[str]) -> frozenset[str]:
    """Return those of the named datacenters in which any metal has ever reported."""
    rows = await conn.execute(
        select(metals.c.datacenter).where(metals.c.datacenter.in_(named)).distinct()
    )
    return frozenset(row.datacenter for row in rows)


async def any_registered(conn: AsyncConnection) -> bool:
    """Return whether any metal has ever reported."""
    return bool(await conn.scalar(select(exists(select(metals.c.metal_id)))))
