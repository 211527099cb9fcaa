"""Accounts and their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING

from sqlalchemy import func, or_, select
from sqlalchemy.dialects.postgresql import insert

from control_plane.store.tables import accounts, tokens

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy.ext.asyncio import AsyncConnection


@unique
class Permission(StrEnum):
    """What a token may be used for; the value is the name its owner knows."""

    WORKERS_SCRIPTS_READ = "Workers Scripts Read"


@dataclass(frozen=True, kw_only=True)
class Account:
    """An owner of Workers."""

    account_id: str
    name: str
    profiling_enabled: bool


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token that is neither revoked nor expired. ``hash`` is the SHA-256 of its text."""

    account_id: str
    token_id: str
    hash: bytes
    permissions: frozenset[str]


async def token_by_hash(conn: AsyncConnection, digest: bytes) -> Token | None:
    """Read the usable token with this hash."""
    rows = await conn.execute(
        select(tokens.c.account_id, tokens.c.token_id, tokens.c.hash, tokens.c.permissions).where(
            tokens.c.hash == digest,
            tokens.c.revoked_at.is_(None),
            or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > func.now()),
        )
    )
    row = rows.one_or_none()
    if row is None:
        return None
    return Token(
        account_id=row.account_id,
        token_id=row.token_id,
        hash=row.hash,
        permissions=frozenset(row.permissions),
    )


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


async def add_token(
    conn: AsyncConnection, token: Token, *, expires_at: datetime | None = None
) -> None:
    """Insert a token."""
    await conn.execute(
        insert(tokens).values(
            account_id=token.account_id,
            token_id=token.token_id,
            hash=token.hash,
            permissions=sorted(token.permissions),
            expires_at=expires_at,
        )
    )
