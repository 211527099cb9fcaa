"""Workers, their versions, and the Durable Object namespaces they own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Integer, Text, bindparam, case, func, literal, or_, select
from sqlalchemy.dialects.postgresql import insert

from control_plane.store.tables import actor_sightings, namespaces, versions, workers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection

    from contract.messages import NamespaceRef, Sighting


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A deployed program."""

    account_id: str
    worker_id: str
    name: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Version:
    """One immutable upload of a Worker. ``number`` counts from 1 within it."""

    account_id: str
    worker_id: str
    version_id: str
    number: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A Durable Object namespace. ``unique_key`` is empty until an agent tells it."""

    namespace_id: str
    worker_id: str
    class_name: str
    unique_key: str


_WORKER = (
    workers.c.account_id,
    workers.c.worker_id,
    workers.c.name,
    workers.c.created_at,
    workers.c.updated_at,
)
_VERSION = (
    versions.c.account_id,
    versions.c.worker_id,
    versions.c.version_id,
    versions.c.number,
    versions.c.created_at,
)


_BY_NAME_OR_ID = (
    select(*_WORKER)
    .where(
        workers.c.account_id == bindparam("of_account"),
        or_(workers.c.worker_id == bindparam("named"), workers.c.name == bindparam("named")),
    )
    .order_by(case((workers.c.worker_id == bindparam("named"), 0), else_=1))
    .limit(1)
)
_VERSIONS = (
    select(*_VERSION)
    .where(
        versions.c.account_id == bindparam("of_account"),
        versions.c.worker_id == bindparam("of_worker"),
    )
    .order_by(versions.c.created_at.desc(), versions.c.number.desc())
)
# Prefixes hold no character that means anything to LIKE: admission lets hex and dashes by.
_VERSIONS_BY_PREFIX = _VERSIONS.where(
    versions.c.version_id.like(bindparam("prefix", type_=Text) + "%")
).limit(bindparam("most", type_=Integer))


async def find(conn: AsyncConnection, account_id: str, worker: str) -> Worker | None:
    """Find a Worker by id or by name; where both fit different Workers, the id wins."""
    rows = await conn.execute(_BY_NAME_OR_ID, {"of_account": account_id, "named": worker})
    row = rows.mappings().one_or_none()
    return Worker(**row) if row is not None else None


async def page(
    conn: AsyncConnection, account_id: str, *, offset: int, limit: int
) -> tuple[tuple[Worker, ...], int]:
    """Return one page of the account's Workers by name, and how many there are."""
    rows = await conn.execute(
        select(*_WORKER)
        .where(workers.c.account_id == account_id)
        .order_by(workers.c.name)
        .offset(offset)
        .limit(limit)
    )
    total = await conn.scalar(
        select(func.count()).select_from(workers).where(workers.c.account_id == account_id)
    )
    return tuple(Worker(**row) for row in rows.mappings()), total or 0


async def versions_page(
    conn: AsyncConnection, account_id: str, worker_id: str, *, offset: int, limit: int
) -> tuple[tuple[Version, ...], int]:
    """Return one page of a Worker's versions, newest first, and how many there are."""
    rows = await conn.execute(
        _VERSIONS.offset(offset).limit(limit), {"of_account": account_id, "of_worker": worker_id}
    )
    total = await conn.scalar(
        select(func.count())
        .select_from(versions)
        .where(versions.c.account_id == account_id, versions.c.worker_id == worker_id)
    )
    return tuple(Version(**row) for row in rows.mappings()), total or 0


async def versions_by_prefix(
    conn: AsyncConnection, account_id: str, worker_id: str, prefix: str, *, limit: int
) -> tuple[Version, ...]:
    """Return the versions whose UUID begins with ``prefix`` (empty: all), newest first."""
    rows = await conn.execute(
        _VERSIONS_BY_PREFIX,
        {"of_account": account_id, "of_worker": worker_id, "prefix": prefix, "most": limit},
    )
    return tuple(Version(**row) for row in rows.mappings())


async def namespace(conn: AsyncConnection, account_id: str, namespace_id: str) -> Namespace | None:
    """Find a Durable Object namespace of the account."""
    rows = await conn.execute(
        select(
            namespaces.c.namespace_id,
            namespaces.c.worker_id,
            namespaces.c.class_name,
            namespaces.c.unique_key,
        ).where(namespaces.c.account_id == account_id, namespaces.c.namespace_id == namespace_id)
    )
    row = rows.mappings().one_or_none()
    return Namespace(**row) if row is not None else None


async def namespaces_page(
    conn: AsyncConnection, account_id: str, *, offset: int, limit: int
) -> tuple[tuple[tuple[Namespace, str], ...], int]:
    """Return one page of the account's namespaces with their Workers' names, and how many."""
    joined = namespaces.join(
        workers,
        (workers.c.account_id == namespaces.c.account_id)
        & (workers.c.worker_id == namespaces.c.worker_id),
    )
    rows = await conn.execute(
        select(
            namespaces.c.namespace_id,
            namespaces.c.worker_id,
            namespaces.c.class_name,
            namespaces.c.unique_key,
            workers.c.name,
        )
        .select_from(joined)
        .where(namespaces.c.account_id == account_id)
        .order_by(workers.c.name, namespaces.c.class_name, namespaces.c.namespace_id)
        .offset(offset)
        .limit(limit)
    )
    found = []
    for row in rows.mappings():
        values = dict(row)
        script = values.pop("name")
        found.append((Namespace(**values), script))
    total = await conn.scalar(
        select(func.count()).select_from(namespaces).where(namespaces.c.account_id == account_id)
    )
    return tuple(found), total or 0


async def objects(
    conn: AsyncConnection, account_id: str, namespace_id: str, *, limit: int, after: str
) -> tuple[str, ...]:
    """Return the objects of a namespace that were seen lately, by id."""
    rows = await conn.execute(
        select(actor_sightings.c.actor_id)
        .where(
            actor_sightings.c.account_id == account_id,
            actor_sightings.c.namespace_id == namespace_id,
            actor_sightings.c.actor_id > after,
        )
        .order_by(actor_sightings.c.actor_id)
        .limit(limit)
    )
    return tuple(rows.scalars())


async def register(conn: AsyncConnection, sightings: Sequence[Sighting]) -> None:
    """Register what agents saw before anybody uploaded it: Worker, version, namespaces.

    Registering twice changes nothing. A unique key told later is taken over. Accounts must exist.
    """
    for seen in sorted(sightings, key=lambda s: (s.account_id, s.worker_id)):
        await _register_worker(conn, seen)
        await _register_version(conn, seen)
        for ref in sorted(seen.namespaces, key=lambda n: n.namespace_id):
            await _register_namespace(conn, seen, ref)


async def _register_namespace(conn: AsyncConnection, seen: Sighting, ref: NamespaceRef) -> None:
    statement = insert(namespaces).values(
        account_id=seen.account_id,
        namespace_id=ref.namespace_id,
        worker_id=seen.worker_id,
        class_name=ref.class_name,
        unique_key=ref.unique_key,
    )
    new = statement.excluded
    await conn.execute(
        statement.on_conflict_do_update(
            index_elements=["account_id", "namespace_id"],
            set_={"unique_key": new.unique_key},
            where=(namespaces.c.worker_id == new.worker_id)
            & (new.unique_key != "")
            & (namespaces.c.unique_key != new.unique_key),
        )
    )


async def _register_worker(conn: AsyncConnection, seen: Sighting) -> None:
    # The name may be taken by another Worker of the account; then the id makes it unique.
    for name in (seen.worker_name, f"{seen.worker_name}-{seen.worker_id[:8]}", seen.worker_id):
        await conn.execute(
            insert(workers)
            .values(account_id=seen.account_id, worker_id=seen.worker_id, name=name)
            .on_conflict_do_nothing()
        )
        # The lock makes version numbers of one Worker count without gaps or doubles.
        locked = await conn.scalar(
            select(workers.c.worker_id)
            .where(workers.c.account_id == seen.account_id, workers.c.worker_id == seen.worker_id)
            .with_for_update()
        )
        if locked is not None:
            return


async def _register_version(conn: AsyncConnection, seen: Sighting) -> None:
    following = (
        select(func.coalesce(func.max(versions.c.number), 0) + 1)
        .where(versions.c.account_id == seen.account_id, versions.c.worker_id == seen.worker_id)
        .scalar_subquery()
    )
    await conn.execute(
        insert(versions)
        .from_select(
            ["account_id", "version_id", "worker_id", "number", "created_at"],
            select(
                literal(seen.account_id),
                literal(seen.version_id),
                literal(seen.worker_id),
                following,
                func.clock_timestamp(),
            ),
        )
        .on_conflict_do_nothing(index_elements=["account_id", "version_id"])
    )
