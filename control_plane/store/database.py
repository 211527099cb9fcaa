"""The pool of connections to Postgres, and the one place where its trouble becomes a fault."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import asyncpg
from sqlalchemy import exc, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from contract.faults import Fault, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# SQLSTATE classes and codes that say "not now", not "wrong": connection, resources, operator,
# system; then read-only, lock wait, serialization, deadlock.
_NOT_NOW_CLASSES = frozenset({"08", "53", "57", "58"})
_NOT_NOW_CODES = frozenset({"25006", "55P03", "40001", "40P01"})
_RETRY_AFTER_S = 1.0
_SERVER_SETTINGS = {
    "application_name": "isoprof",
    "statement_timeout": "5000",
    "lock_timeout": "2000",
    "idle_in_transaction_session_timeout": "15000",
    "timezone": "UTC",
}


# What the steps hand from one statement of theirs to the next; they know no more of it.
Connection = AsyncConnection


class Database:
    """Connections of one process: ``begin`` for a transaction, ``read`` for single statements."""

    def __init__(self, engine: AsyncEngine, url: str) -> None:
        self._engine = engine
        self._reads = engine.execution_options(isolation_level="AUTOCOMMIT")
        self.url = url
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, *, pool_size: int = 16, pool_wait_ms: int = 800
    ) -> AsyncIterator[Database]:
        """Open the pool; nothing connects before the first statement.

        Args:
            url: ``postgresql://…``, with ``?host=/directory`` for a Unix socket.
            pool_wait_ms: how long a step waits for a free connection before it fails.
        """
        engine = create_async_engine(
            make_url(url).set(drivername="postgresql+asyncpg"),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=pool_wait_ms / 1000,
            # The connection used last has the statements prepared and the pages at hand.
            pool_use_lifo=True,
            pool_recycle=1800,
            connect_args={"timeout": 5, "server_settings": _SERVER_SETTINGS},
        )
        try:
            yield cls(engine, url)
        finally:
            await engine.dispose()

    @asynccontextmanager
    async def begin(self, *, in_turn: str | None = None) -> AsyncIterator[AsyncConnection]:
        """Run a transaction: committed at the end of the block, rolled back when it raises.

        Args:
            in_turn: those of one name run one after the other, each waiting before it takes a
                connection: many that lock the same row must not take the whole pool to wait.

        Raises:
            Fault: store_unavailable. Raised by the commit, the change may have been made.
        """
        async with self._turns.setdefault(in_turn, asyncio.Lock()) if in_turn else nullcontext():
            with told_as_fault():
                async with self._engine.begin() as conn:
                    yield conn

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Give a connection without a transaction: each statement sees what is committed then.

        Raises:
            Fault: store_unavailable.
        """
        with told_as_fault():
            async with self._reads.connect() as conn:
                yield conn

    def pool_state(self) -> dict[str, int]:
        """Return how many connections the pool may open, and how many are in use."""
        pool = self._engine.sync_engine.pool
        if not isinstance(pool, QueuePool):
            return {"size": 0, "in_use": 0}
        return {"size": pool.size(), "in_use": pool.checkedout()}

    async def ping(self) -> None:
        """Return when the database answers.

        Raises:
            Fault: store_unavailable.
        """
        async with self.read() as conn:
            await conn.execute(text("SELECT 1"))


class told_as_fault:  # noqa: N801 - reads as a statement where it is used
    """Turn the driver's and the system's connection errors into ``store_unavailable``."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None and _not_now(error):
            raise Fault(
                Reason.STORE_UNAVAILABLE,
                "The database does not answer at the moment.",
                retry_after_s=_RETRY_AFTER_S,
            ) from error


def _not_now(error: BaseException) -> bool:
    if isinstance(error, exc.TimeoutError | OSError):
        return True
    # The driver's own, unwrapped: a connection that was cut while it was being used.
    if isinstance(error, asyncpg.InternalClientError | asyncpg.PostgresConnectionError):
        return True
    if isinstance(error, asyncpg.InterfaceError):
        return not isinstance(error, ValueError)
    if not isinstance(error, exc.DBAPIError):
        return False
    if error.connection_invalidated or isinstance(error.orig, OSError):
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return isinstance(error, exc.InterfaceError | exc.OperationalError)
    return state in _NOT_NOW_CODES or state[:2] in _NOT_NOW_CLASSES
