"""Switches that hold for every replica at once, because each asks when it matters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select, true
from sqlalchemy.dialects.postgresql import insert

from control_plane.store.notices import CHANNEL, DISPATCH
from control_plane.store.operator_tables import switches

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection


@unique
class Switch(StrEnum):
    """What can be switched off."""

    DISPATCH = "dispatch"


@dataclass(frozen=True, kw_only=True)
class Position:
    """How a switch stands. ``changed_at`` is None until it is first touched."""

    turned_on: bool = True
    reason: str = ""
    changed_at: datetime | None = None


_ONE = select(switches.c.turned_on, switches.c.reason, switches.c.changed_at).where(
    switches.c.name == bindparam("of_name")
)


# For statements that have something else to read as well.
DISPATCH_ON: ColumnElement[bool] = func.coalesce(
    select(switches.c.turned_on).where(switches.c.name == Switch.DISPATCH).scalar_subquery(), true()
)


async def read(conn: AsyncConnection, switch: Switch) -> Position:
    """Read a switch."""
    rows = await conn.execute(_ONE, {"of_name": switch})
    row = rows.mappings().one_or_none()
    return Position(**row) if row is not None else Position()


async def turn(conn: AsyncConnection, switch: Switch, *, turned_on: bool, reason: str) -> Position:
    """Turn a switch, and wake dispatch."""
    statement = insert(switches).values(
        name=switch, turned_on=turned_on, reason=reason, changed_at=func.now()
    )
    new = statement.excluded
    rows = await conn.execute(
        statement.on_conflict_do_update(
            index_elements=["name"],
            set_={
                "turned_on": new.turned_on,
                "reason": new.reason,
                "changed_at": new.changed_at,
            },
        ).returning(
            switches.c.turned_on,
            switches.c.reason,
            switches.c.changed_at,
            func.pg_notify(CHANNEL, DISPATCH).label("told"),
        )
    )
    row = rows.mappings().one()
    return Position(turned_on=row["turned_on"], reason=row["reason"], changed_at=row["changed_at"])
