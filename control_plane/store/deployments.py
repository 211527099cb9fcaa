"""Which versions of a Worker get its traffic: as told, and as telemetry shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import insert, select, text

from control_plane.store.tables import deployments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.engine import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

MOST = 100


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one version gets, in percent."""

    version_id: str
    percentage: float


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Shares of 100 percent together."""

    deployment_id: str
    created_at: datetime
    message: str
    versions: tuple[Share, ...]


@dataclass(frozen=True, kw_only=True)
class Running:
    """A version that ran lately, and how often since its metals' last reports."""

    version_id: str
    created_at: datetime
    executions: int


@dataclass(frozen=True, kw_only=True)
class Place:
    """How a version stands in one datacenter.

    Args:
        executions: since its metals' reports before the last.
        ran_at: None: it never did.
    """

    datacenter: str
    metals: int
    isolates: int
    free_isolates: int
    executions: int
    ran_at: datetime | None
    idle_ms: int | None


_COLUMNS = (
    deployments.c.deployment_id,
    deployments.c.created_at,
    deployments.c.message,
    deployments.c.versions,
)
_RUNNING = text(
    """
    SELECT v.version_id, v.created_at, sum(s.executions)::bigint AS executions
    FROM versions v JOIN sightings s ON s.version_id = v.version_id AND s.account_id = v.account_id
    WHERE v.account_id = :account_id AND v.worker_id = :worker_id
      AND s.ran_at > now() - :recent_ms * interval '1 millisecond'
    GROUP BY v.version_id, v.created_at ORDER BY v.created_at DESC, v.version_id
    """
)
_PLACES = text(
    """
    SELECT m.datacenter, count(*) AS metals, sum(s.isolates)::bigint AS isolates,
           sum(s.free_isolates)::bigint AS free_isolates, sum(s.executions)::bigint AS executions,
           max(s.ran_at) AS ran_at,
           (extract(epoch FROM now() - max(s.ran_at)) * 1000)::bigint AS idle_ms
    FROM sightings s JOIN metals m ON m.metal_id = s.metal_id
    WHERE s.account_id = :account_id AND s.worker_id = :worker_id AND s.version_id = :version_id
    GROUP BY m.datacenter ORDER BY m.datacenter
    """
)


def _deployment(row: RowMapping) -> Deployment:
    values = dict(row)
    return Deployment(**values | {"versions": tuple(Share(**one) for one in values["versions"])})


async def add(
    conn: AsyncConnection,
    account_id: str,
    worker_id: str,
    deployment_id: str,
    *,
    message: str,
    versions: Sequence[Share],
) -> Deployment:
    """Insert what somebody told. The Worker and its versions must exist."""
    rows = await conn.execute(
        insert(deployments)
        .values(
            account_id=account_id,
            worker_id=worker_id,
            deployment_id=deployment_id,
            message=message,
            versions=[
                {"version_id": one.version_id, "percentage": one.percentage} for one in versions
            ],
        )
        .returning(*_COLUMNS)
    )
    return _deployment(rows.mappings().one())


async def of_worker(
    conn: AsyncConnection, account_id: str, worker_id: str
) -> tuple[Deployment, ...]:
    """Return a Worker's latest deployments, the active one first."""
    rows = await conn.execute(
        select(*_COLUMNS)
        .where(deployments.c.account_id == account_id, deployments.c.worker_id == worker_id)
        .order_by(deployments.c.created_at.desc(), deployments.c.deployment_id)
        .limit(MOST)
    )
    return tuple(_deployment(row) for row in rows.mappings())


async def running(
    conn: AsyncConnection, account_id: str, worker_id: str, *, recent_ms: int
) -> tuple[Running, ...]:
    """Return the versions of a Worker that ran lately, the newest first."""
    rows = await conn.execute(
        _RUNNING, {"account_id": account_id, "worker_id": worker_id, "recent_ms": recent_ms}
    )
    return tuple(Running(**row) for row in rows.mappings())


async def places(
    conn: AsyncConnection, account_id: str, worker_id: str, version_id: str
) -> tuple[Place, ...]:
    """Return how a version stands in every datacenter that has sighted it."""
    rows = await conn.execute(
        _PLACES, {"account_id": account_id, "worker_id": worker_id, "version_id": version_id}
    )
    return tuple(Place(**row) for row in rows.mappings())
