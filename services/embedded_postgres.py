"""Postgres for a machine that has none: a wheel's binaries, run as a supervised child.

The server ends when its owner does, however that happens: a death signal is set on the child. It
listens on a Unix socket in a directory only its account can enter; nothing is opened on the
network. Started on a data directory whose server another process owns, it only hands out that
server's address.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import asyncpg
import structlog

from services import postgres_account
from services.deaths import end_with_parent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from control_plane.settings import Settings
    from services.postgres_account import Account

log = structlog.get_logger(__name__)

SUPERUSER = "postgres"
DATABASE = "isoprof"
_POLL_S = 0.02
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
_MAX_LOG_BYTES = 16 * 1024 * 1024
# Of a Unix socket's path, the file name included.
_MAX_SOCKET_PATH = 100
_SOCKET_NAME = ".s.PGSQL.5432"
_SERVER = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "jit": "off",
    "autovacuum_naptime": "10s",
}


class PostgresFailed(Exception):  # noqa: N818 - what happened
    """The server could not be made or started; the message ends with the last lines it wrote."""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A running server; ``stop`` ends it when this process started it."""

    url: str
    cluster: Path
    socket: Path
    process: subprocess.Popen[bytes] | None

    async def stop(self) -> None:
        """Shut down: connections are cut, everything committed is on disk."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        if not await _ended(self.process, _STOP_TIMEOUT_S):
            self.process.send_signal(signal.SIGQUIT)
            if not await _ended(self.process, _STOP_TIMEOUT_S):
                self.process.kill()
        self.process.wait()
        if self.socket != self.cluster:
            with suppress(OSError):
                self.socket.rmdir()


async def start(data_dir: Path, *, settings: Mapping[str, str] | None = None) -> Postgres:
    """Start the server of a data directory; an empty one gets a database ``isoprof``.

    Call it from the thread that lives as long as the process: the server ends with that thread.

    Args:
        settings: of the server, over the defaults.

    Raises:
        PostgresFailed: with what the server said.
    """
    data_dir = _made(data_dir)
    account = postgres_account.account()
    binaries = await asyncio.to_thread(postgres_account.usable_binaries, account)
    with _locked(data_dir / "postgres.lock"):
        cluster = postgres_account.cluster_directory(data_dir, account)
        if not (cluster / "PG_VERSION").exists():
            await _initialise(binaries, cluster, account, data_dir)
        socket = postgres_account.socket_directory(cluster, account, _MAX_SOCKET_PATH)
        process = None
        if not await _runs_already(cluster):
            values = {**_SERVER, "unix_socket_directories": str(socket), **(settings or {})}
            process = await _serve(binaries, cluster, account, data_dir, values)
        url = f"postgresql://{SUPERUSER}@/{{}}?host={quote(str(socket), safe='')}"
        await _make_database(url)
    return Postgres(url=url.format(DATABASE), cluster=cluster, socket=socket, process=process)


def _made(data_dir: Path) -> Path:
    data_dir.mkdir(parents=True, exist_ok=True)
    return data_dir.absolute()


@asynccontextmanager
async def database_url(configured: Settings) -> AsyncIterator[str]:
    """Give the database that is configured, or an embedded one for as long as the block runs."""
    if configured.database_url is not None:
        yield configured.database_url
        return
    server = await start(configured.data_dir / "postgres")
    try:
        yield server.url
    finally:
        await server.stop()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # Two processes that start the same directory: the second finds the first one's server.
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _child(
    command: list[str], account: Account, output: Path, cwd: Path
) -> subprocess.Popen[bytes]:
    with output.open("ab") as out:
        return subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            user=account.uid,
            group=account.gid,
            extra_groups=[] if account.uid is not None else None,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            # Ctrl-C is for the owner, which then ends the server in order.
            start_new_session=True,
            # Set after the account is taken, which would clear it.
            preexec_fn=end_with_parent(signal.SIGINT),
        )


async def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + timeout_s
    while process.poll() is None:
        if loop.time() > until_s:
            return False
        await asyncio.sleep(_POLL_S)
    return True


async def _initialise(binaries: Path, cluster: Path, account: Account, data_dir: Path) -> None:
    postgres_account.clear_half_made(cluster)
    output = data_dir / "postgres.log"
    command = [
        str(binaries / "initdb"),
        f"--pgdata={cluster}",
        f"--username={SUPERUSER}",
        # Whoever can enter the socket's directory is this account, or root.
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-instructions",
    ]
    process = _child(command, account, output, cluster)
    if not await _ended(process, _START_TIMEOUT_S):
        process.kill()
    if process.wait() != 0:
        raise PostgresFailed(f"initdb failed: {_last_lines(output)}")


async def _runs_already(cluster: Path) -> bool:
    """Return whether a server of this cluster lives; wait for one that ends."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _STOP_TIMEOUT_S
    lock_file = cluster / "postmaster.pid"
    while lock_file.exists():
        lines = lock_file.read_text().splitlines()
        pid = int(lines[0]) if lines and lines[0].strip().isdigit() else 0
        if not postgres_account.is_server(pid, cluster):
            # The number may be another program's by now, which Postgres itself would take for a
            # server.
            lock_file.unlink(missing_ok=True)
            return False
        if len(lines) >= 8 and lines[7].strip() == "ready" and not _is_orphan(pid):
            return True
        if loop.time() > until_s:
            raise PostgresFailed(f"the server {pid} of {cluster} neither serves nor ends")
        await asyncio.sleep(_POLL_S)
    return False


def _is_orphan(pid: int) -> bool:
    # Its owner died a moment ago: the death signal is on its way, the server still says "ready".
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return int(fields[1]) == 1 and os.getpid() != 1


async def _serve(
    binaries: Path, cluster: Path, account: Account, data_dir: Path, values: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    output = data_dir / "postgres.log"
    if output.exists() and output.stat().st_size > _MAX_LOG_BYTES:
        output.unlink()
    command = [str(binaries / "postgres"), "-D", str(cluster)]
    for name, value in values.items():
        command += ["-c", f"{name}={value}"]
    process = _child(command, account, output, cluster)
    ready = False
    try:
        ready = await _ready(process, cluster)
    finally:
        if not ready and process.poll() is None:
            process.send_signal(signal.SIGQUIT)
            process.wait()
    if not ready:
        raise PostgresFailed(f"postgres did not start: {_last_lines(output)}")
    return process


async def _ready(process: subprocess.Popen[bytes], cluster: Path) -> bool:
    lock_file = cluster / "postmaster.pid"
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _START_TIMEOUT_S
    while process.poll() is None and loop.time() < until_s:
        lines = lock_file.read_text().splitlines() if lock_file.exists() else []
        if len(lines) >= 8 and lines[7].strip() == "ready" and lines[0] == str(process.pid):
            return True
        await asyncio.sleep(_POLL_S)
    return False


def _last_lines(output: Path) -> str:
    lines = output.read_text(errors="replace").splitlines() if output.exists() else []
    return " | ".join(lines[-5:])


async def _make_database(url: str) -> None:
    conn = await asyncpg.connect(url.format(SUPERUSER), timeout=_START_TIMEOUT_S)
    try:
        query = "SELECT 1 FROM pg_database WHERE datname = $1"
        if await conn.fetchval(query, DATABASE) is None:
            await conn.execute(f"CREATE DATABASE {DATABASE}")
    finally:
        await conn.close()
