"""Who did what, when, from where: written in the transaction that does it; refusals, in bulk."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select

from control_plane.store.operator_tables import audit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

_FORGOTTEN_AT_ONCE = 10_000


@unique
class Outcome(StrEnum):
    """What came of it."""

    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Deed:
    """One thing somebody did, or was refused.

    Args:
        actor: ``operator:<token id>``, ``token:<token id>``, ``metal:<id>``, ``local:<user>``, or
            ``unknown``.
        address: where the request came from; empty for what was done on the machine itself.
        action: what was asked for, ``agents.drain``; of a refusal, method and route.
        target: what it was done to.
        times: how many alike it stands for.
        details: what else a reader needs; never a secret.
    """

    actor: str
    address: str
    request_id: str
    action: str
    target: str
    outcome: Outcome = Outcome.DONE
    times: int = 1
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Entry(Deed):
    """A deed as it was written."""

    entry: int
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which entries are read; None does not restrict. All are exact."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    outcome: Outcome | None = None


async def record(conn: AsyncConnection, *deeds: Deed) -> None:
    """Write deeds down; on the connection of the transaction that does them."""
    await conn.execute(
        insert(audit),
        [
            {
                "actor": deed.actor,
                "address": deed.address,
                "request_id": deed.request_id,
                "action": deed.action,
                "target": deed.target,
                "outcome": deed.outcome.value,
                "times": deed.times,
                "details": deed.details,
            }
            for deed in deeds
        ],
    )


async def page(
    conn: AsyncConnection, only: Filter, *, limit: int, before: int | None = None
) -> Sequence[Entry]:
    """Read entries, newest first.

    Args:
        before: the entry the page before ended with.
    """
    exact = {
        audit.c.actor: only.actor,
        audit.c.action: only.action,
        audit.c.target: only.target,
        audit.c.outcome: only.outcome,
    }
    query = select(
        audit.c.entry,
        audit.c.at,
        audit.c.actor,
        audit.c.address,
        audit.c.request_id,
        audit.c.action,
        audit.c.target,
        audit.c.outcome,
        audit.c.times,
        audit.c.details,
    ).where(*(column == value for column, value in exact.items() if value is not None))
    if before is not None:
        query = query.where(audit.c.entry < before)
    rows = await conn.execute(query.order_by(audit.c.entry.desc()).limit(limit))
    return [Entry(**{**row, "outcome": Outcome(row["outcome"])}) for row in rows.mappings()]


async def forget(conn: AsyncConnection, *, kept_days: int) -> None:
    """Delete the oldest of what is kept no longer, so many at once."""
    old = (
        select(audit.c.entry)
        .where(audit.c.at < func.now() - timedelta(days=kept_days))
        .limit(_FORGOTTEN_AT_ONCE)
    )
    await conn.execute(delete(audit).where(audit.c.entry.in_(old.scalar_subquery())))
