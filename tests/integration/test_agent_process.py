"""The agent process itself, over real gRPC: orders, a profile, a kill, a stop, a wrong file."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from grpc import aio

from contract import convert, rpc
from contract.faults import Reason
from contract.messages import (
    CaptureKey,
    CaptureReport,
    CaptureState,
    Isolate,
    Order,
    ProfileType,
    Report,
    UploadManifest,
)
from pprof import check, codec
from protos.control.v1 import gateway_pb2, gateway_pb2_grpc
from protos.edge.v1 import edge_pb2, edge_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

ACCOUNT, WORKER = "a" * 32, "b" * 32
VERSION = "11111111-2222-4333-8444-555555555555"
SESSION = "0b9d7f6e-1d2c-4a3b-9c4d-5e6f70819203"
SOON_S = 30

One = TypeVar("One")


class ScriptedGateway(gateway_pb2_grpc.GatewayServicer):
    """Takes everything, in the order it came."""

    def __init__(self) -> None:
        self.reports: asyncio.Queue[Report] = asyncio.Queue()
        self.told: asyncio.Queue[CaptureReport] = asyncio.Queue()
        self.uploads: asyncio.Queue[tuple[UploadManifest, bytes]] = asyncio.Queue()
        self.stop: tuple[CaptureKey, ...] = ()

    async def Report(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.reports.put_nowait(convert.report_from_wire(request))
        return gateway_pb2.ReportResponse(stop=[convert.key_to_wire(key) for key in self.stop])

    async def ReportCapture(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.told.put_nowait(convert.required_capture_report(request))
        return gateway_pb2.ReportCaptureResponse()

    async def ShowUpload(self, request: Any, context: Any) -> Any:  # noqa: N802
        return gateway_pb2.ShowUploadResponse(offset_bytes=0)

    async def Upload(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        parts = [part async for part in request_iterator]
        manifest = convert.manifest_from_wire(parts[0].manifest)
        data = b"".join(part.chunk.data for part in parts[1:])
        self.uploads.put_nowait((manifest, data))
        return gateway_pb2.UploadResponse(
            key=convert.key_to_wire(manifest.key), size_bytes=len(data)
        )

    async def told_of(self, key: CaptureKey, *states: CaptureState) -> CaptureReport:
        return await _next(self.told, lambda one: one.key == key and one.state in states)


async def _next(queue: asyncio.Queue[One], wanted: Callable[[One], bool]) -> One:
    async with asyncio.timeout(SOON_S):
        while not wanted(one := await queue.get()):
            pass
    return one


@dataclass(kw_only=True)
class Agent:
    """One run of the process, and the channel to it."""

    child: asyncio.subprocess.Process
    stub: edge_pb2_grpc.EdgeAgentStub

    async def order(self, order: Order) -> str:
        reply = await self.stub.StartCapture(convert.order_to_wire(order), timeout=SOON_S)
        return convert.accepted_from_wire(reply).isolate_id

    async def isolates(self, version_id: str = "") -> tuple[Isolate, ...]:
        request = edge_pb2.ListIsolatesRequest(version_id=version_id)
        return convert.isolates_from_wire(await self.stub.ListIsolates(request, timeout=SOON_S))

    async def stop(self, key: CaptureKey, *, discard: bool) -> CaptureReport:
        request = edge_pb2.StopCaptureRequest(key=convert.key_to_wire(key), discard=discard)
        reply = await self.stub.StopCapture(request, timeout=SOON_S)
        return convert.required_capture_report(reply)

    async def ended(self) -> tuple[int | None, list[dict[str, Any]]]:
        """Exit status and log lines; there must be nothing else on either stream."""
        out, err = await asyncio.wait_for(self.child.communicate(), SOON_S)
        assert out == b""
        return self.child.returncode, [json.loads(line) for line in err.decode().splitlines()]


def order(session: int = 1, **changes: object) -> Order:
    """An order of one session or another: a session has each isolate once."""
    given: dict[str, object] = {
        "key": CaptureKey(session_id=f"{SESSION[:-1]}{session}", capture=1),
        "account_id": ACCOUNT,
        "worker_id": WORKER,
        "version_id": VERSION,
        "profile_type": ProfileType.CPU,
        "duration_ms": 1_000,
        "sampling_interval_us": 1_000,
        "deadline_ms": 60_000,
        **changes,
    }
    return Order(**given)  # type: ignore[arg-type]


@dataclass(kw_only=True)
class Site:
    """A metal's folder and the gateway its agents talk to."""

    gateway: ScriptedGateway
    folder: Path
    address: str

    def config(self) -> Path:
        path = self.folder / "metal.toml"
        path.write_text(
            f"""
[metal]
id = "ams1-m1"
datacenter = "ams1"
listen = "127.0.0.1:0"
gateways = ["{self.address}"]
data_dir = "{self.folder / "journal"}"
report_interval_ms = 200
[tls]
plaintext = "loopback"
[[runtime]]
id = "wd1"
kind = "simulated"
[[runtime.isolate]]
service = "checkout"
account_id = "{ACCOUNT}"
worker_id = "{WORKER}"
worker_name = "checkout"
version_id = "{VERSION}"
""",
            encoding="utf-8",
        )
        return path

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """An agent that said it is ready."""
        async with process(self.config()) as child:
            assert child.stdout is not None
            told = json.loads(await asyncio.wait_for(child.stdout.readline(), SOON_S))
            assert told["ready"] is True
            async with rpc.channel(told["grpc"]) as channel:
                yield Agent(child=child, stub=edge_pb2_grpc.EdgeAgentStub(channel))

    async def until_reported(self, wanted: Callable[[Report], bool]) -> Report:
        return await _next(self.gateway.reports, wanted)

    async def until_ran(self) -> Report:
        return await self.until_reported(
            lambda report: any(one.idle_ms is not None for one in report.sightings)
        )


@contextlib.asynccontextmanager
async def process(config: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.edge_agent",
        "--config",
        str(config),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    gateway, server = ScriptedGateway(), rpc.server()
    gateway_pb2_grpc.add_GatewayServicer_to_server(gateway, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield Site(gateway=gateway, folder=tmp_path, address=f"127.0.0.1:{port}")
    await server.stop(None)


async def test_an_order_becomes_a_profile(site: Site) -> None:
    async with site.agent() as agent:
        report = await site.until_ran()
        assert (report.metal.metal_id, report.metal.datacenter) == ("ams1-m1", "ams1")
        (isolate,) = await agent.isolates(VERSION)
        assert (isolate.account_id, isolate.version_id) == (ACCOUNT, VERSION)
        assert await agent.isolates("99999999-2222-4333-8444-555555555555") == ()
        for session, profile_type in enumerate(ProfileType, start=1):
            asked = order(session, profile_type=profile_type)
            assert await agent.order(asked) == isolate.isolate_id
            # Asked twice, taken once.
            assert await agent.order(asked) == isolate.isolate_id
            async with asyncio.timeout(SOON_S):
                manifest, data = await site.gateway.uploads.get()
            assert manifest.key == asked.key
            assert manifest.sha256 == hashlib.sha256(data).hexdigest()
            assert manifest.size_bytes == len(data)
            profile = codec.decode(data)
            check.check(profile)
            assert profile.samples
        agent.child.send_signal(signal.SIGTERM)
        status, lines = await agent.ended()
    assert status == 0
    assert (lines[0]["event"], lines[-1]["event"]) == ("starting", "stopped")
    assert {line["process"] for line in lines} == {"edge_agent"}
    assert not [line for line in lines if line["level"] in ("error", "critical")]
    assert site.gateway.uploads.empty()
    assert not list((site.folder / "journal").glob("*.capture"))


async def test_a_killed_agent_tells_what_it_lost_when_it_is_back(site: Site) -> None:
    asked = order(duration_ms=50_000)
    async with site.agent() as agent:
        before = await site.until_ran()
        await agent.order(asked)
        await site.gateway.told_of(asked.key, CaptureState.SAMPLING)
        agent.child.send_signal(signal.SIGKILL)
        await agent.child.communicate()
    async with site.agent() as agent:
        told = await site.gateway.told_of(asked.key, CaptureState.FAILED)
        assert told.reason is Reason.AGENT_RESTARTED
        assert told.isolate_id == "wd1/checkout"
        after = await site.until_reported(lambda one: one.metal.epoch > before.metal.epoch)
        assert after.snapshot
        await site.until_ran()
        # The isolate is free again.
        await agent.order(order(2))
        async with asyncio.timeout(SOON_S):
            manifest, _ = await site.gateway.uploads.get()
    assert manifest.key == order(2).key


async def test_an_agent_told_to_end_ends_its_captures_first(site: Site) -> None:
    asked = order(duration_ms=50_000)
    async with site.agent() as agent:
        await site.until_ran()
        await agent.order(asked)
        agent.child.send_signal(signal.SIGTERM)
        told = await site.gateway.told_of(asked.key, CaptureState.FAILED)
        status, _ = await agent.ended()
    assert told.reason is Reason.AGENT_RESTARTED
    assert status == 0
    assert not list((site.folder / "journal").glob("*.capture"))


@pytest.mark.parametrize("discard", [False, True])
async def test_a_capture_is_stopped_early(site: Site, *, discard: bool) -> None:
    asked = order(duration_ms=50_000)
    async with site.agent() as agent:
        await site.until_ran()
        await agent.order(asked)
        await site.gateway.told_of(asked.key, CaptureState.SAMPLING)
        with pytest.raises(aio.AioRpcError) as refused:
            await agent.order(order(2))
        fault = rpc.fault_of(refused.value, unreachable=Reason.AGENT_UNREACHABLE)
        assert fault.reason is Reason.ISOLATES_BUSY
        assert fault.retry_after_s is not None
        assert 0 < fault.retry_after_s <= 51
        await agent.stop(asked.key, discard=discard)
        (isolate,) = await agent.isolates()
        assert isolate.held_ms == 0
        if discard:
            told = await site.gateway.told_of(asked.key, CaptureState.STOPPED)
            assert told.reason is Reason.CAPTURE_STOPPED
            assert site.gateway.uploads.empty()
        else:
            async with asyncio.timeout(SOON_S):
                manifest, _ = await site.gateway.uploads.get()
            assert 0 < manifest.window_ms < asked.duration_ms


async def test_a_capture_the_control_plane_no_longer_wants_is_stopped(site: Site) -> None:
    asked = order(duration_ms=50_000)
    async with site.agent() as agent:
        await site.until_ran()
        await agent.order(asked)
        site.gateway.stop = (asked.key,)
        told = await site.gateway.told_of(asked.key, CaptureState.STOPPED)
    assert told.reason is Reason.CAPTURE_STOPPED
    assert site.gateway.uploads.empty()


async def test_every_mistake_in_the_file_is_told(site: Site) -> None:
    config = site.config()
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('"ams1"', '"AMS 1"').replace("200", "2"), encoding="utf-8")
    async with process(config) as child:
        out, err = await asyncio.wait_for(child.communicate(), SOON_S)
        assert child.returncode == 2
    assert out == b""
    (line,) = [json.loads(line) for line in err.decode().splitlines()]
    assert line["event"] == "settings_invalid"
    assert [told.partition(":")[0] for told in line["mistakes"]] == [
        "/metal/datacenter",
        "/metal/report_interval_ms",
    ]
