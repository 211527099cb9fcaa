"""The embedded server starts, restarts, survives what may happen, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from services import embedded_postgres, postgres_account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.postgres_account import Account

OWNER = """
import asyncio, sys
from pathlib import Path
from services import embedded_postgres

async def own():
    server = await embedded_postgres.start(Path(sys.argv[1]))
    print(server.process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(own())
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # A short path any account can enter, unlike pytest's own.
    with tempfile.TemporaryDirectory(prefix="isoprof-pg-", ignore_cleanup_errors=True) as path:
        Path(path).chmod(0o755)
        yield Path(path) / "postgres"


async def fetch(url: str, query: str) -> object:
    conn = await asyncpg.connect(url)
    try:
        return await conn.fetchval(query)
    finally:
        await conn.close()


async def gone(pid: int) -> bool:
    for _ in range(500):
        if not _lives(pid):
            return True
        await asyncio.sleep(0.02)
    return False


def _owner(data_dir: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", OWNER, str(data_dir)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )


def _children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in children.split()]


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _account_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


async def test_it_keeps_what_was_written_and_ends_when_told(data_dir: Path) -> None:
    server = await embedded_postgres.start(data_dir)
    assert server.process is not None
    await fetch(server.url, "CREATE TABLE kept AS SELECT 42 AS n")
    await server.stop()
    await server.stop()
    assert server.process.poll() is not None
    again = await embedded_postgres.start(data_dir)
    try:
        assert await fetch(again.url, "SELECT n FROM kept") == 42
        assert await fetch(again.url, "SHOW listen_addresses") == ""
    finally:
        await again.stop()


async def test_killing_its_owner_ends_it_and_the_next_owner_finds_everything(
    data_dir: Path,
) -> None:
    owner = _owner(data_dir)
    assert owner.stdout is not None
    pid = int(await asyncio.to_thread(owner.stdout.readline))
    try:
        beside = await embedded_postgres.start(data_dir)
        assert beside.process is None  # another's: only its address is handed out
        await fetch(beside.url, "CREATE TABLE kept AS SELECT 42 AS n")
        await beside.stop()
        assert await fetch(beside.url, "SELECT n FROM kept") == 42
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    server = await embedded_postgres.start(data_dir)
    try:
        assert server.process is not None
        assert await gone(pid)
        assert await fetch(server.url, "SELECT n FROM kept") == 42
    finally:
        await server.stop()


async def test_a_killed_server_recovers_and_a_foreign_lock_file_is_no_obstacle(
    data_dir: Path,
) -> None:
    server = await embedded_postgres.start(data_dir)
    assert server.process is not None
    await fetch(server.url, "CREATE TABLE kept AS SELECT 42 AS n")
    backends = _children(server.process.pid)
    server.process.kill()
    server.process.wait()
    for pid in backends:
        assert await gone(pid)
    lock = server.cluster / "postmaster.pid"
    lines = lock.read_text().splitlines()
    # The number has gone to another program meanwhile: to us.
    lock.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    again = await embedded_postgres.start(data_dir)
    try:
        assert await fetch(again.url, "SELECT n FROM kept") == 42
    finally:
        await again.stop()


async def test_a_cluster_half_made_is_made_anew(data_dir: Path) -> None:
    cluster = postgres_account.cluster_directory(_made(data_dir), postgres_account.account())
    (cluster / "base").mkdir()
    (cluster / "postgresql.conf").write_text("nonsense")
    server = await embedded_postgres.start(data_dir)
    await server.stop()


async def test_a_server_that_cannot_start_says_why(data_dir: Path) -> None:
    with pytest.raises(embedded_postgres.PostgresFailed, match="no_such_setting"):
        await embedded_postgres.start(data_dir, settings={"no_such_setting": "1"})


async def test_a_path_too_long_for_a_socket(data_dir: Path) -> None:
    server = await embedded_postgres.start(data_dir / ("x" * 60) / ("y" * 60))
    try:
        assert await fetch(server.url, "SELECT 1") == 1
    finally:
        await server.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the server to another account")
async def test_below_a_directory_only_root_can_enter(data_dir: Path) -> None:
    _made(data_dir).chmod(0o700)
    server = await embedded_postgres.start(data_dir / "deep")
    try:
        assert await fetch(server.url, "SELECT 1") == 1
        assert server.process is not None
        assert _account_of(server.process.pid) != 0
        assert data_dir not in server.cluster.parents
        assert (data_dir / "deep" / "cluster-path").read_text().strip() == str(server.cluster)
    finally:
        await server.stop()
        postgres_account.clear_half_made(server.cluster)
        server.cluster.rmdir()
        server.cluster.with_suffix(".origin").unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to copy")
def test_binaries_out_of_reach_are_copied_once(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _made(data_dir) / "home"
    monkeypatch.setattr(postgres_account, "_HOMES", (home,))
    account = postgres_account.account()
    runs = postgres_account._runs

    def out_of_reach(binaries: Path, account: Account) -> bool:
        return home in binaries.parents and runs(binaries, account)

    monkeypatch.setattr(postgres_account, "_runs", out_of_reach)
    copied = postgres_account.usable_binaries(account)
    assert home in copied.parents
    assert runs(copied, account)
    assert postgres_account.usable_binaries(account) == copied


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


async def test_the_owner_s_terminal_does_not_reach_the_server(data_dir: Path) -> None:
    server = await embedded_postgres.start(data_dir)
    assert server.process is not None
    try:
        # Ctrl-C goes to the terminal's session; the server has one of its own.
        assert os.getsid(server.process.pid) == server.process.pid
    finally:
        await server.stop()
