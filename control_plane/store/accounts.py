"""Accounts, and what operators allow them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects.postgresql import insert

from control_plane.store.switches import DISPATCH_ON
from control_plane.store.tables import accounts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from sqlalchemy.engine import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection


@unique
class Permission(StrEnum):
    """What a token may be used for; the value is the name its owner knows."""

    WORKERS_SCRIPTS_READ = "Workers Scripts Read"
    WORKERS_SCRIPTS_WRITE = "Workers Scripts Write"
    PROFILING = "Workers Profiling"


@dataclass(frozen=True, kw_only=True)
class Account:
    """An owner of Workers."""

    account_id: str
    name: str
    profiling_enabled: bool


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an operator allows an account; None: the default of the settings.

    Args:
        weight: its share of dispatch's turns while several accounts have something due.
        retention_days: how long its profiles are kept.
    """

    max_concurrent_sessions: int | None = None
    max_sessions_per_hour: int | None = None
    max_capture_seconds_per_hour: int | None = None
    retention_days: int | None = None
    weight: int = 1


@dataclass(frozen=True, kw_only=True)
class Owned:
    """An account with what operators decided for it.

    Args:
        dispatch_on: profiles may be asked for, by anybody.
    """

    account: Account
    limits: Limits
    created_at: datetime
    dispatch_on: bool = True


async def read(conn: AsyncConnection, account_id: str) -> Account | None:
    """Read one account."""
    rows = await conn.execute(
        select(accounts.c.account_id, accounts.c.name, accounts.c.profiling_enabled).where(
            accounts.c.account_id == account_id
        )
    )
    row = rows.mappings().one_or_none()
    return Account(**row) if row is not None else None


async def known(conn: AsyncConnection, account_ids: Collection[str]) -> frozenset[str]:
    """Return which of these accounts exist."""
    rows = await conn.execute(
        select(accounts.c.account_id).where(accounts.c.account_id.in_(account_ids))
    )
    return frozenset(rows.scalars())


async def keep(conn: AsyncConnection, account: Account) -> None:
    """Insert an account, or bring its name and switch up to date."""
    statement = insert(accounts).values(
        account_id=account.account_id,
        name=account.name,
        profiling_enabled=account.profiling_enabled,
    )
    await conn.execute(
        statement.on_conflict_do_update(
            index_elements=["account_id"],
            set_={
                "name": statement.excluded.name,
                "profiling_enabled": statement.excluded.profiling_enabled,
            },
        )
    )


_OWNED = (
    accounts.c.account_id,
    accounts.c.name,
    accounts.c.profiling_enabled,
    accounts.c.created_at,
    accounts.c.max_concurrent_sessions,
    accounts.c.max_sessions_per_hour,
    accounts.c.max_capture_seconds_per_hour,
    accounts.c.retention_days,
    accounts.c.weight,
)


_ONE = select(*_OWNED).where(accounts.c.account_id == bindparam("of_account"))
# Not in the way of rows that refer to the account.
_LOCK = _ONE.add_columns(DISPATCH_ON.label("dispatch_on")).with_for_update(key_share=True)


def _owned(row: RowMapping) -> Owned:
    values = dict(row)
    account = Account(
        account_id=values.pop("account_id"),
        name=values.pop("name"),
        profiling_enabled=values.pop("profiling_enabled"),
    )
    return Owned(
        account=account,
        created_at=values.pop("created_at"),
        dispatch_on=values.pop("dispatch_on", True),
        limits=Limits(**values),
    )


async def add(conn: AsyncConnection, account: Account) -> Owned | None:
    """Insert an account; None when its id is taken."""
    rows = await conn.execute(
        insert(accounts)
        .values(
            account_id=account.account_id,
            name=account.name,
            profiling_enabled=account.profiling_enabled,
        )
        .on_conflict_do_nothing()
        .returning(*_OWNED)
    )
    row = rows.mappings().one_or_none()
    return _owned(row) if row is not None else None


async def show(conn: AsyncConnection, account_id: str, *, lock: bool = False) -> Owned | None:
    """Read an account with its limits.

    Args:
        lock: have other transactions that ask for the lock wait until this one ends.
    """
    rows = await conn.execute(_LOCK if lock else _ONE, {"of_account": account_id})
    row = rows.mappings().one_or_none()
    return _owned(row) if row is not None else None


async def page(conn: AsyncConnection, *, limit: int, after: str = "") -> tuple[Owned, ...]:
    """List accounts by id."""
    rows = await conn.execute(
        select(*_OWNED)
        .where(accounts.c.account_id > after)
        .order_by(accounts.c.account_id)
        .limit(limit)
    )
    return tuple(_owned(row) for row in rows.mappings())


async def change(
    conn: AsyncConnection, account_id: str, changes: Mapping[str, object]
) -> Owned | None:
    """Change an account's switch, name or limits; None when there is none.

    Args:
        changes: by field of ``Account`` or ``Limits``; what is not named stays.
    """
    if changes:
        await conn.execute(
            update(accounts).where(accounts.c.account_id == account_id).values(**changes)
        )
    return await show(conn, account_id)
