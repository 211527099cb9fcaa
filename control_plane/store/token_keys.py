"""Which key the stored hashes of tokens were made with; the key itself is not in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from control_plane.store.operator_tables import token_keys

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection


async def settle(conn: AsyncConnection, fingerprint: str) -> bool:
    """Note the first key used with this database; False when it is another one."""
    await conn.execute(insert(token_keys).values(fingerprint=fingerprint).on_conflict_do_nothing())
    known = await conn.scalar(select(token_keys.c.fingerprint))
    return bool(known == fingerprint)
