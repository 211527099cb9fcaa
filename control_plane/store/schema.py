"""Changing the schema: one process at a time, without the time limits of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from control_plane.store.database import told_as_fault

if TYPE_CHECKING:
    from collections.abc import Callable


# Any fixed number, the same for every process that migrates this database.
_LOCK = 7_145_301

SyncConnection = Connection


async def change(url: str, apply: Callable[[SyncConnection], None]) -> None:
    """Run ``apply`` in one transaction, on a connection used as if it were synchronous.

    Raises:
        Fault: store_unavailable.
    """
    engine = create_async_engine(
        make_url(url).set(drivername="postgresql+asyncpg"), poolclass=NullPool
    )
    with told_as_fault():
        async with engine.begin() as conn:
            await conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            await conn.run_sync(apply)
