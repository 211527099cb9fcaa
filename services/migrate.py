"""Brings the schema to head: ``python -m services.migrate``. Of several at once, one does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from alembic import command
from alembic.config import Config

from control_plane import settings
from control_plane.store import schema
from services import embedded_postgres, logs

if TYPE_CHECKING:
    from control_plane.store.schema import SyncConnection

ALEMBIC_INI = Path(__file__).resolve().parents[1] / "alembic.ini"
HEAD = "head"
BASE = "base"

log = structlog.get_logger(__name__)


async def upgrade(database_url: str, revision: str = HEAD) -> None:
    """Migrate up to a revision.

    Raises:
        Fault: store_unavailable.
    """
    await schema.change(database_url, lambda conn: command.upgrade(_config(conn), revision))


async def downgrade(database_url: str, revision: str) -> None:
    """Migrate down to a revision.

    Raises:
        Fault: store_unavailable.
    """
    await schema.change(database_url, lambda conn: command.downgrade(_config(conn), revision))


def _config(connection: SyncConnection) -> Config:
    config = Config(ALEMBIC_INI)
    config.attributes["connection"] = connection
    return config


async def _main() -> None:
    configured = settings.read()
    async with embedded_postgres.database_url(configured) as url:
        await upgrade(url)
    log.info("migrated", revision=HEAD)


if __name__ == "__main__":
    logs.configure("migrate")
    asyncio.run(_main())
    print(json.dumps({"migrated": HEAD}))
