"""Tokens of accounts and of operators: what is stored of them never opens anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, func, insert, or_, select, update

from control_plane.store.operator_tables import operator_tokens
from control_plane.store.tables import tokens

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

# A use is written down no oftener: a busy token would else rewrite its row at every request.
USED_EVERY = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A token's row.

    Args:
        account_id: empty for an operator's.
        hash: see ``credentials.keyed``.
        use_is_old: its use should be written down again.
    """

    account_id: str = ""
    token_id: str
    name: str
    hash: bytes = field(repr=False)
    permissions: frozenset[str] = frozenset()
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None
    use_is_old: bool


def _usable(table: Any) -> ColumnElement[bool]:
    return and_(
        table.c.revoked_at.is_(None),
        or_(table.c.expires_at.is_(None), table.c.expires_at > func.now()),
    )


def _use_is_old(table: Any) -> ColumnElement[bool]:
    return or_(table.c.used_at.is_(None), table.c.used_at < func.now() - USED_EVERY)


def _both(table: Any) -> tuple[ColumnElement[Any], ...]:
    return (
        table.c.token_id,
        table.c.name,
        table.c.hash,
        table.c.created_at,
        table.c.expires_at,
        table.c.revoked_at,
        table.c.used_at,
        _use_is_old(table).label("use_is_old"),
    )


_OF_ACCOUNT = (tokens.c.account_id, tokens.c.permissions, *_both(tokens))
_OF_OPERATOR = _both(operator_tokens)


def _stored(row: Any) -> Stored:
    values = dict(row)
    if "permissions" in values:
        values["permissions"] = frozenset(values["permissions"])
    return Stored(**values)


_ACCOUNT_BY_HASH = select(*_OF_ACCOUNT).where(
    or_(
        and_(tokens.c.hash == bindparam("by_keyed"), tokens.c.keyed),
        and_(tokens.c.hash == bindparam("by_plain"), tokens.c.keyed.is_(False)),
    ),
    _usable(tokens),
)


async def of_account_by_hash(conn: AsyncConnection, keyed: bytes, plain: bytes) -> Stored | None:
    """Read the usable account token with this hash; ``plain`` finds those of before the key."""
    rows = await conn.execute(_ACCOUNT_BY_HASH, {"by_keyed": keyed, "by_plain": plain})
    row = rows.mappings().one_or_none()
    return _stored(row) if row is not None else None


async def of_operator_by_hash(conn: AsyncConnection, keyed: bytes) -> Stored | None:
    """Read the usable operator token with this hash."""
    rows = await conn.execute(
        select(*_OF_OPERATOR).where(operator_tokens.c.hash == keyed, _usable(operator_tokens))
    )
    row = rows.mappings().one_or_none()
    return _stored(row) if row is not None else None


async def add_of_account(
    conn: AsyncConnection,
    account_id: str,
    token_id: str,
    keyed: bytes,
    *,
    name: str,
    permissions: frozenset[str],
    lifetime: timedelta | None,
) -> Stored:
    """Insert an account's token; ``lifetime`` None: until it is revoked."""
    rows = await conn.execute(
        insert(tokens)
        .values(
            account_id=account_id,
            token_id=token_id,
            name=name,
            hash=keyed,
            keyed=True,
            permissions=sorted(permissions),
            expires_at=None if lifetime is None else func.now() + lifetime,
        )
        .returning(*_OF_ACCOUNT)
    )
    return _stored(rows.mappings().one())


async def add_of_operator(
    conn: AsyncConnection,
    token_id: str,
    keyed: bytes,
    *,
    name: str,
    lifetime: timedelta | None,
) -> Stored:
    """Insert an operator's token; ``lifetime`` None: until it is revoked."""
    rows = await conn.execute(
        insert(operator_tokens)
        .values(
            token_id=token_id,
            name=name,
            hash=keyed,
            expires_at=None if lifetime is None else func.now() + lifetime,
        )
        .returning(*_OF_OPERATOR)
    )
    return _stored(rows.mappings().one())


async def of_account(
    conn: AsyncConnection, account_id: str, *, limit: int, after: str = ""
) -> tuple[Stored, ...]:
    """List an account's tokens by id, ended ones included."""
    rows = await conn.execute(
        select(*_OF_ACCOUNT)
        .where(tokens.c.account_id == account_id, tokens.c.token_id > after)
        .order_by(tokens.c.token_id)
        .limit(limit)
    )
    return tuple(_stored(row) for row in rows.mappings())


async def of_operators(conn: AsyncConnection, *, limit: int, after: str = "") -> tuple[Stored, ...]:
    """List operators' tokens by id, ended ones included."""
    rows = await conn.execute(
        select(*_OF_OPERATOR)
        .where(operator_tokens.c.token_id > after)
        .order_by(operator_tokens.c.token_id)
        .limit(limit)
    )
    return tuple(_stored(row) for row in rows.mappings())


async def revoke_of_account(conn: AsyncConnection, account_id: str, token_id: str) -> Stored | None:
    """End a token at once, for every replica; None when the account has no such token."""
    rows = await conn.execute(
        update(tokens)
        .where(tokens.c.account_id == account_id, tokens.c.token_id == token_id)
        .values(revoked_at=func.coalesce(tokens.c.revoked_at, func.now()))
        .returning(*_OF_ACCOUNT)
    )
    row = rows.mappings().one_or_none()
    return _stored(row) if row is not None else None


async def revoke_of_operator(conn: AsyncConnection, token_id: str) -> Stored | None:
    """End a token at once, for every replica; None when there is no such token."""
    rows = await conn.execute(
        update(operator_tokens)
        .where(operator_tokens.c.token_id == token_id)
        .values(revoked_at=func.coalesce(operator_tokens.c.revoked_at, func.now()))
        .returning(*_OF_OPERATOR)
    )
    row = rows.mappings().one_or_none()
    return _stored(row) if row is not None else None


async def used(conn: AsyncConnection, token: Stored) -> None:
    """Write a use down, unless another replica just did."""
    if token.account_id:
        statement = update(tokens).where(
            tokens.c.account_id == token.account_id,
            tokens.c.token_id == token.token_id,
            _use_is_old(tokens),
        )
    else:
        statement = update(operator_tokens).where(
            operator_tokens.c.token_id == token.token_id, _use_is_old(operator_tokens)
        )
    await conn.execute(statement.values(used_at=func.now()))


async def unkeyed(conn: AsyncConnection, *, limit: int) -> tuple[tuple[str, str, bytes], ...]:
    """Return account id, token id and hash of tokens stored before there was a key."""
    rows = await conn.execute(
        select(tokens.c.account_id, tokens.c.token_id, tokens.c.hash)
        .where(tokens.c.keyed.is_(False))
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return tuple((row.account_id, row.token_id, row.hash) for row in rows)


async def rekey(conn: AsyncConnection, account_id: str, token_id: str, keyed: bytes) -> None:
    """Replace the hash of a token stored before there was a key."""
    await conn.execute(
        update(tokens)
        .where(
            tokens.c.account_id == account_id,
            tokens.c.token_id == token_id,
            tokens.c.keyed.is_(False),
        )
        .values(hash=keyed, keyed=True)
    )
