"""Both processes as they are started: what they log of strangers, and files that are replaced."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from grpc import aio

from contract import certificates, convert, identity, rpc
from edge_agent.rpc.gateway import Gateway
from edge_agent.runtimes.clock import SystemClock
from protos.control.v1 import gateway_pb2_grpc
from protos.edge.v1 import edge_pb2, edge_pb2_grpc
from services import issuing
from services.certificates import make, of_control_plane, of_metal
from tests.integration.tls_scene import opened, report, without_certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from contract.certificates import Material

SOON_S = 60
M1 = identity.of_metal("ams1-m1")


class Running:
    """A process that said it is ready, and its log."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self.events: list[dict[str, Any]] = []
        self.grpc = ""

    async def ready(self) -> None:
        assert self._child.stdout is not None
        told = json.loads(await asyncio.wait_for(self._child.stdout.readline(), SOON_S))
        self.grpc = told["grpc"]

    async def until(self, event: str, **fields: object) -> dict[str, Any]:
        """Read the log on to such an event."""
        assert self._child.stderr is not None
        async with asyncio.timeout(SOON_S):
            while True:
                line = await self._child.stderr.readline()
                assert line, [one["event"] for one in self.events]
                self.events.append(json.loads(line))
                if {"event": event, **fields}.items() <= self.events[-1].items():
                    return self.events[-1]

    async def stop(self) -> int:
        self._child.send_signal(signal.SIGTERM)
        await self.until("stopped")
        return await asyncio.wait_for(self._child.wait(), SOON_S)


@contextlib.asynccontextmanager
async def running(module: str, *words: str, **environ: str) -> AsyncIterator[Running]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("ISOPROF_")}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=given | environ,
    )
    try:
        started = Running(child)
        await started.ready()
        yield started
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


def config(folder: Path, made: Path, gateway: str) -> Path:
    own = of_metal(made, "ams1-m1")
    path = folder / "metal.toml"
    path.write_text(
        f"""
[metal]
id = "ams1-m1"
datacenter = "ams1"
listen = "127.0.0.1:0"
gateways = ["{gateway}"]
data_dir = "{folder / "journal"}"
report_interval_ms = 200
[tls]
certificate = "{own.certificate}"
key = "{own.key}"
authority = "{own.authority}"
[[runtime]]
id = "wd1"
kind = "simulated"
[[runtime.isolate]]
service = "checkout"
account_id = "{"a" * 32}"
worker_id = "{"b" * 32}"
worker_name = "checkout"
version_id = "11111111-2222-4333-8444-555555555555"
""",
        encoding="utf-8",
    )
    return path


def held(made: Path, name: str) -> Material:
    control_plane = name == identity.CONTROL_PLANE
    own = of_control_plane(made) if control_plane else of_metal(made, "ams1-m1")
    return certificates.read(own, name=name, at=datetime.now(UTC))


def self_signed(good: Material, name: str) -> Material:
    now = datetime.now(UTC)
    one = issuing.issue(issuing.authority(now=now, days=1), name, now=now, days=1)
    return replace(good, certificate=one.pem(), key=one.key_pem())


async def refused(channels: Sequence[aio.Channel], *, by_agent: bool) -> None:
    for channel in channels:
        call: Any = (
            edge_pb2_grpc.EdgeAgentStub(channel).ListIsolates(
                edge_pb2.ListIsolatesRequest(), timeout=SOON_S
            )
            if by_agent
            else gateway_pb2_grpc.GatewayStub(channel).Report(
                convert.report_to_wire(report()), timeout=SOON_S
            )
        )
        with pytest.raises(aio.AioRpcError):
            await call
        await channel.close(None)


def strangers(address: str, good: Material, name: str, peer: str) -> list[aio.Channel]:
    return [
        rpc.secure_channel(address, self_signed(good, name), peer),
        without_certificate(address, good.authority, peer),
        rpc.channel(address),
    ]


CAUSES = ("peer_untrusted", "peer_shows_no_certificate", "peer_speaks_plaintext")


async def test_an_agent_logs_who_was_turned_away_and_takes_new_files_in(tmp_path: Path) -> None:
    made = tmp_path / "made"
    make(made, ["ams1-m1"], now=datetime.now(UTC))
    good = held(made, identity.CONTROL_PLANE)
    path = config(tmp_path, made, "127.0.0.1:1")
    async with running("services.edge_agent", "--config", str(path)) as agent:
        doors = strangers(agent.grpc, good, identity.CONTROL_PLANE, M1)
        await refused(doors, by_agent=True)
        for cause in CAUSES:
            await agent.until("handshake_failed", cause=cause)
        await refused([rpc.secure_channel(agent.grpc, held(made, M1), M1)], by_agent=True)
        assert (await agent.until("peer_refused"))["name"] == M1
        make(made, ["ams1-m1"], now=datetime.now(UTC), anew=True)
        await agent.until("certificates_renewed")
        async with rpc.secure_channel(agent.grpc, good, M1) as channel:
            stub = edge_pb2_grpc.EdgeAgentStub(channel)
            await stub.ListIsolates(edge_pb2.ListIsolatesRequest(), timeout=SOON_S)
        assert await agent.stop() == 0


async def test_a_control_plane_makes_its_own_and_logs_who_was_turned_away(
    tmp_path: Path, database_url: str
) -> None:
    listen = {f"ISOPROF_{which}_LISTEN": "127.0.0.1:0" for which in ("HTTP", "GRPC", "ADMIN")}
    async with running(
        "services.control_plane",
        DATABASE_URL=database_url,
        ISOPROF_DATA_DIR=str(tmp_path),
        **listen,
    ) as plane:
        await plane.until("development_certificates")
        made = tmp_path / "certificates"
        make(made, ["ams1-m1"], now=datetime.now(UTC))
        gateway = Gateway(
            [plane.grpc], SystemClock(), opened(of_metal(made, "ams1-m1"), M1), rng=Random(1)
        )
        await gateway.report(report())
        await gateway.close()
        good = held(made, M1)
        await refused(strangers(plane.grpc, good, M1, identity.CONTROL_PLANE), by_agent=False)
        for cause in CAUSES:
            await plane.until("handshake_failed", cause=cause)
        make(made, (), now=datetime.now(UTC), anew=True)
        await plane.until("certificates_renewed")
        assert await plane.stop() == 0
    # What was made at the first start is used at the second.
    before = held(made, identity.CONTROL_PLANE)
    async with running(
        "services.control_plane",
        DATABASE_URL=database_url,
        ISOPROF_DATA_DIR=str(tmp_path),
        ISOPROF_ROLES="gateway",
        **listen,
    ) as plane:
        assert held(made, identity.CONTROL_PLANE) == before
        assert await plane.stop() == 0


async def test_an_agent_whose_files_are_wrong_says_so_and_ends(tmp_path: Path) -> None:
    made = tmp_path / "made"
    make(made, ["ams1-m1"], now=datetime.now(UTC))
    path = config(tmp_path, made, "10.0.0.1:8788")
    path.write_text(path.read_text().replace('id = "ams1-m1"', 'id = "ams1-m2"'))
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.edge_agent", "--config", str(path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(child.communicate(), SOON_S)
    assert (child.returncode, out) == (2, b"")
    (line,) = [json.loads(line) for line in err.decode().splitlines()]
    assert [told.partition(":")[0] for told in line["mistakes"]] == ["/tls/certificate"]
