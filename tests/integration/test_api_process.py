"""The process itself: one line when ready, JSON on stderr, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LISTEN = {f"ISOPROF_{which}_LISTEN": "127.0.0.1:0" for which in ("HTTP", "GRPC", "ADMIN")}


@contextlib.asynccontextmanager
async def process(data_dir: Path, **environ: str) -> AsyncIterator[asyncio.subprocess.Process]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("ISOPROF_")}
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.control_plane",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=given | LISTEN | {"ISOPROF_DATA_DIR": str(data_dir)} | environ,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def ready(child: asyncio.subprocess.Process) -> dict[str, Any]:
    assert child.stdout is not None
    line = await asyncio.wait_for(child.stdout.readline(), 60)
    told: dict[str, Any] = json.loads(line)
    assert told["ready"] is True
    return told


async def ended(child: asyncio.subprocess.Process) -> tuple[int, list[dict[str, Any]]]:
    """Exit status and log lines; there must be nothing else on either stream."""
    out, err = await asyncio.wait_for(child.communicate(), 60)
    assert out == b""
    assert child.returncode is not None
    return child.returncode, [json.loads(line) for line in err.decode().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serves_until_told_to_stop(
    tmp_path: Path, database_url: str, number: signal.Signals
) -> None:
    async with process(tmp_path, DATABASE_URL=database_url) as child:
        told = await ready(child)
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://{told['http']}/readyz") as answer,
        ):
            assert answer.status == 200
        host, _, port = told["grpc"].rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        child.send_signal(number)
        status, lines = await ended(child)
    assert status == 0
    events = [line["event"] for line in lines]
    assert events[0] == "starting"
    assert events[-1] == "stopped"
    assert {"ready", "draining"} <= set(events)
    # The password of the database is in no line.
    assert {line["process"] for line in lines} == {"control_plane"}


async def test_roles_choose_what_runs(tmp_path: Path, database_url: str) -> None:
    for roles, expected in [("gateway,sweep", {"grpc"}), ("api", {"http"}), ("dispatch", set())]:
        async with process(tmp_path, DATABASE_URL=database_url, ISOPROF_ROLES=roles) as child:
            assert set(await ready(child)) - {"ready"} == expected
            child.send_signal(signal.SIGTERM)
            assert (await ended(child))[0] == 0


async def test_wrong_settings_are_all_told(tmp_path: Path) -> None:
    async with process(tmp_path, ISOPROF_POOL_SIZE="x", ISOPROF_ROLES="cook") as child:
        status, lines = await ended(child)
    assert status == 2
    assert len(lines) == 1
    assert len(lines[0]["mistakes"]) == 2


async def test_port_that_is_taken(tmp_path: Path, database_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for name in LISTEN:
            async with process(tmp_path, DATABASE_URL=database_url, **{name: address}) as child:
                status, lines = await ended(child)
            assert status == 1
            assert lines[-1]["event"] == "not_started"


async def test_embedded_postgres_that_dies_ends_the_process(tmp_path: Path) -> None:
    async with process(tmp_path) as child:
        await ready(child)
        pointer = tmp_path / "postgres" / "cluster-path"
        place = pointer.read_text().strip() if pointer.exists() else pointer.with_name("cluster")
        cluster = Path(place)
        os.kill(int((cluster / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
        status, lines = await ended(child)
        # Run as root it stands outside of tmp_path.
        shutil.rmtree(cluster)
    assert status == 1
    assert [line["step"] for line in lines if line["event"] == "step_ended"] == ["postgres"]
