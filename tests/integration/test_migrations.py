"""What the migrations make is what the code believes in, and they can be undone."""

from __future__ import annotations

import asyncpg
from sqlalchemy.ext.asyncio import create_async_engine

from control_plane.store.operator_tables import audit
from services import migrate
from tests import postgres

SHAPE = """
SELECT 'column', c.relname, a.attname,
       format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
       || ' ' || a.attidentity::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'table', relname, relpersistence::text, coalesce(reloptions::text, '')
FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
ORDER BY 1, 2, 3, 4
"""


async def shape(url: str) -> list[tuple[str, ...]]:
    conn = await asyncpg.connect(url)
    try:
        rows = [tuple(row) for row in await conn.fetch(SHAPE)]
    finally:
        await conn.close()
    return [row for row in rows if "alembic_version" not in row]


async def test_migrations_make_the_tables(postgres_url: str, database_url: str) -> None:
    async with postgres.empty_database(postgres_url) as url:
        engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
        async with engine.begin() as conn:
            await conn.run_sync(audit.metadata.create_all)
        await engine.dispose()
        declared = await shape(url)
    assert await shape(database_url) == declared
    assert len(declared) > 100


async def test_up_down_and_up_again(postgres_url: str) -> None:
    async with postgres.empty_database(postgres_url) as url:
        await migrate.upgrade(url)
        first = await shape(url)
        await migrate.downgrade(url, migrate.BASE)
        assert await shape(url) == []
        await migrate.upgrade(url)
        await migrate.upgrade(url)
        assert await shape(url) == first
