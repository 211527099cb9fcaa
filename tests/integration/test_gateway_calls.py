"""What agents may send, over real gRPC: reports, captures, and uploads that break and go on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from contract import convert, rpc
from contract.faults import Reason
from contract.messages import CaptureKey, CaptureReport, CaptureState
from protos.control.v1 import gateway_pb2
from tests.integration.edge_scene import ISOLATE, Scene, edge_scene, manifest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from contract.messages import UploadManifest

NOBODY = CaptureKey(session_id="00000000-0000-4000-8000-000000000000", capture=1)


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


async def refused(call: Awaitable[Any]) -> tuple[grpc.StatusCode, Reason]:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    fault = rpc.fault_of(caught.value, unreachable=Reason.AGENT_UNREACHABLE)
    return caught.value.code(), fault.reason


async def sampling(scene: Scene) -> CaptureKey:
    """Bring a session to where its metal samples and the test does the uploading."""
    scene.metal.go.clear()
    asked = {"worker": "replacer", "duration_ms": 1000}
    made = await scene.call("POST", "profile-sessions", json=asked)
    order = await asyncio.wait_for(scene.metal.orders.get(), 10)
    assert order.key.session_id == made.body["result"]["id"]
    return order.key


async def kept(scene: Scene, told: UploadManifest) -> int:
    request = gateway_pb2.ShowUploadRequest(key=convert.key_to_wire(told.key), sha256=told.sha256)
    return (await scene.metal.gateway.ShowUpload(request, timeout=10)).offset_bytes


async def send(scene: Scene, *parts: gateway_pb2.UploadRequest) -> None:
    async def stream() -> AsyncIterator[gateway_pb2.UploadRequest]:
        for part in parts:
            yield part

    await scene.metal.gateway.Upload(stream(), timeout=10)


def first(told: UploadManifest) -> gateway_pb2.UploadRequest:
    return gateway_pb2.UploadRequest(manifest=convert.manifest_to_wire(told))


def chunk(offset: int, data: bytes) -> gateway_pb2.UploadRequest:
    return gateway_pb2.UploadRequest(chunk=gateway_pb2.Chunk(offset_bytes=offset, data=data))


async def test_broken_upload_goes_on_where_it_was(scene: Scene) -> None:
    data = scene.metal.profile
    told = manifest("ams1-m1", await sampling(scene), data)
    assert await kept(scene, told) == 0
    code, reason = await refused(send(scene, first(told), chunk(0, data[:50])))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID)
    assert await kept(scene, told) == 50
    # No part of it can be read before all of it is here.
    shown = await scene.call("GET", f"profile-sessions/{told.key.session_id}")
    assert shown.body["result"]["profile"] is None
    assert await scene.metal.upload(told, data, offset=50) == len(data)
    await scene.session_until(told.key.session_id, "ready")
    # The same again is the same.
    assert await scene.metal.upload(told, data) == len(data)
    assert await kept(scene, told) == len(data)


async def test_stream_cut_in_the_middle_loses_nothing(scene: Scene) -> None:
    data = scene.metal.profile
    told = manifest("ams1-m1", await sampling(scene), data)
    call: Any = cast(Any, scene.metal.gateway.Upload)(timeout=10)
    await call.write(first(told))
    await call.write(chunk(0, data[:40]))
    async with asyncio.timeout(10):
        while await kept(scene, told) < 40:  # noqa: ASYNC110 - asked of the other side
            await asyncio.sleep(0)
    call.cancel()
    assert await scene.metal.upload(told, data, offset=await kept(scene, told)) == len(data)


async def test_chunks_must_follow_one_another(scene: Scene) -> None:
    data = scene.metal.profile
    told = manifest("ams1-m1", await sampling(scene), data)
    wrong = [
        (first(told), chunk(10, data[10:])),
        (first(told), chunk(0, data + b"more")),
        (first(told), first(told)),
        (chunk(0, data),),
        (gateway_pb2.UploadRequest(),),
        (),
    ]
    for parts in wrong:
        code, reason = await refused(send(scene, *parts))
        assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID)
    assert await scene.metal.upload(told, data) == len(data)


async def test_bytes_that_are_not_those_announced(scene: Scene) -> None:
    data = scene.metal.profile
    told = manifest("ams1-m1", await sampling(scene), data)
    code, reason = await refused(scene.metal.upload(told, data[:-1] + b"x"))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.PROFILE_INVALID)
    assert await scene.metal.upload(told, data) == len(data)


async def test_upload_that_is_too_large_is_refused_before_its_bytes(scene: Scene) -> None:
    told = manifest("ams1-m1", await sampling(scene), scene.metal.profile)
    _, reason = await refused(send(scene, first(replace(told, size_bytes=10**10))))
    assert reason is Reason.PROFILE_TOO_LARGE


async def test_another_metals_capture_is_not_there(scene: Scene) -> None:
    data = scene.metal.profile
    key = await sampling(scene)
    stranger = replace(manifest("ams1-m1", key, data), metal_id="ams1-m9")
    nobodys = manifest("ams1-m1", NOBODY, data)
    for told, expected in (
        (stranger, (grpc.StatusCode.PERMISSION_DENIED, Reason.PEER_FORBIDDEN)),
        (nobodys, (grpc.StatusCode.NOT_FOUND, Reason.CAPTURE_UNKNOWN)),
    ):
        assert await refused(scene.metal.upload(told, data)) == expected
    report = CaptureReport(
        key=key,
        metal_id="ams1-m9",
        state=CaptureState.FAILED,
        isolate_id=ISOLATE,
        sampled_ms=0,
        reason=Reason.INTERNAL,
    )
    assert (await refused(scene.metal.tell(report)))[1] is Reason.PEER_FORBIDDEN


async def test_messages_with_parts_missing_are_refused(scene: Scene) -> None:
    stub = scene.metal.gateway
    calls: list[Awaitable[Any]] = [
        stub.Report(gateway_pb2.ReportRequest(), timeout=10),
        stub.ReportCapture(gateway_pb2.ReportCaptureRequest(), timeout=10),
        stub.ShowUpload(gateway_pb2.ShowUploadRequest(), timeout=10),
    ]
    for call in calls:
        code, reason = await refused(call)
        assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID)


async def test_failed_capture_reaches_the_caller(scene: Scene) -> None:
    scene.metal.go.clear()
    asking = asyncio.create_task(scene.profile())
    order = await asyncio.wait_for(scene.metal.orders.get(), 10)
    await scene.metal.tell(
        CaptureReport(
            key=order.key,
            metal_id="ams1-m1",
            state=CaptureState.FAILED,
            isolate_id=ISOLATE,
            sampled_ms=200,
            reason=Reason.TARGET_EXITED,
            message="the runtime exited",
        )
    )
    assert (await asking).error[:2] == (503, 10504)


async def test_health_and_reflection(scene: Scene) -> None:
    channel = scene.metal.channel
    for name in ("", "isoprof.control.v1.Gateway"):
        health = health_pb2_grpc.HealthStub(channel)
        state = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
        assert state.status == health_pb2.HealthCheckResponse.SERVING

    async def ask() -> AsyncIterator[Any]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    async for answer in stub.ServerReflectionInfo(ask(), timeout=10):
        names = {service.name for service in answer.list_services_response.service}
        assert "isoprof.control.v1.Gateway" in names
