"""One Postgres for a whole test run, shared by its processes; a database of its own per test."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import asyncpg

from services import embedded_postgres, migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

TEMPLATE = "isoprof_template"
IMAGES = ("postgres:18-alpine", "postgres:18")
# Nothing of a test run is worth waiting for the disk.
UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class _Server(Protocol):
    @property
    def url(self) -> str: ...

    async def stop(self) -> None: ...


@contextlib.contextmanager
def server(run_id: str) -> Iterator[str]:
    """Give the address of the run's server; the first starts it, and stops it after the last."""
    place = Path(tempfile.gettempdir()) / f"isoprof-tests-{os.getuid()}-{run_id}"
    place.mkdir(mode=0o711, exist_ok=True)
    with (place / "users.lock").open("w") as users:
        with (place / "start.lock").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            started = None
            if not (place / "url").exists():
                started = asyncio.run(_start(place))
                (place / "url").write_text(started.url)
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield (place / "url").read_text()
        finally:
            _leave(users, place, started)


def _leave(users: IO[str], place: Path, started: _Server | None) -> None:
    fcntl.flock(users, fcntl.LOCK_UN)
    if started is None:
        return
    # Until the last of the others has left: the server is this process's child and ends with it.
    fcntl.flock(users, fcntl.LOCK_EX)
    asyncio.run(started.stop())
    shutil.rmtree(place, ignore_errors=True)


async def _start(place: Path) -> _Server:
    image = _image()
    started: _Server
    if image is not None:
        started = await asyncio.to_thread(_Container, image)
    else:
        started = await embedded_postgres.start(place / "data", settings=UNSAFE)
    await _execute(started.url, f"CREATE DATABASE {TEMPLATE}")
    await migrate.upgrade(_named(started.url, TEMPLATE))
    return started


class _Container:
    """Postgres in a container, on an engine that answers and has the image already."""

    def __init__(self, image: str) -> None:
        from testcontainers.core.config import testcontainers_config
        from testcontainers.postgres import PostgresContainer

        testcontainers_config.ryuk_disabled = True
        command = ["postgres", *(part for k, v in UNSAFE.items() for part in ("-c", f"{k}={v}"))]
        self._container = PostgresContainer(image, driver=None).with_command(command).start()
        self.url = self._container.get_connection_url()

    async def stop(self) -> None:
        self._container.stop()


def _image() -> str | None:
    if shutil.which("docker") is None:
        return None
    for image in IMAGES:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            asked = ["docker", "image", "inspect", image]
            if subprocess.run(asked, capture_output=True, timeout=10, check=False).returncode == 0:
                return image
    return None


@contextlib.asynccontextmanager
async def database(server_url: str) -> AsyncIterator[str]:
    """Give a fresh database with the current schema, gone after the block."""
    name = f"test_{uuid.uuid4().hex}"
    await _execute(server_url, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    try:
        yield _named(server_url, name)
    finally:
        await _execute(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.asynccontextmanager
async def empty_database(server_url: str) -> AsyncIterator[str]:
    """Give a database without any table, gone after the block."""
    name = f"test_{uuid.uuid4().hex}"
    await _execute(server_url, f"CREATE DATABASE {name}")
    try:
        yield _named(server_url, name)
    finally:
        await _execute(server_url, f"DROP DATABASE {name} WITH (FORCE)")


async def _execute(url: str, statement: str) -> None:
    conn = await asyncpg.connect(url)
    try:
        await conn.execute(statement)
    finally:
        await conn.close()


def _named(url: str, database_name: str) -> str:
    base, _, query = url.partition("?")
    return f"{base.rpartition('/')[0]}/{database_name}" + (f"?{query}" if query else "")
