"""The agent's way to the control plane, over real gRPC: uploads that resume, replicas that go."""

from __future__ import annotations

import hashlib
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from contract import convert, rpc
from contract.faults import Fault, Reason
from contract.messages import (
    CaptureKey,
    CaptureReport,
    CaptureState,
    Metal,
    Receipt,
    Report,
    UploadManifest,
)
from edge_agent.rpc.gateway import CHUNK_BYTES, Gateway
from edge_agent.runtimes.clock import SystemClock
from protos.control.v1 import gateway_pb2, gateway_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grpc import aio

KEY = CaptureKey(session_id="0b9d7f6e-1d2c-4a3b-9c4d-5e6f70819203", capture=1)
DATA = bytes(range(256)) * 4 * 1024
METAL = Metal(metal_id="ams1-m1", datacenter="ams1", address="127.0.0.1:1", epoch=1, max_captures=4)
MANIFEST = UploadManifest(
    key=KEY,
    metal_id="ams1-m1",
    isolate_id="wd1/checkout",
    sha256=hashlib.sha256(DATA).hexdigest(),
    size_bytes=len(DATA),
    samples=1,
    window_ms=1_000,
    slices=(),
)


class _Replica(gateway_pb2_grpc.GatewayServicer):
    """Keeps what comes; breaks an upload off after so many bytes, as often as told."""

    def __init__(self) -> None:
        self.kept = b""
        self.offsets: list[int] = []
        self.break_after: list[int] = []
        self.faults: list[Fault] = []
        self.told: list[CaptureReport] = []
        self.reports = 0

    def _maybe_fail(self) -> None:
        if self.faults:
            raise self.faults.pop(0)

    async def Report(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._maybe_fail()
        self.reports += 1
        return gateway_pb2.ReportResponse()

    async def ReportCapture(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._maybe_fail()
        self.told.append(convert.required_capture_report(request))
        return gateway_pb2.ReportCaptureResponse()

    async def ShowUpload(self, request: Any, context: Any) -> Any:  # noqa: N802
        return gateway_pb2.ShowUploadResponse(offset_bytes=len(self.kept))

    async def Upload(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        self._maybe_fail()
        limit = self.break_after.pop(0) if self.break_after else None
        async for part in request_iterator:
            if part.WhichOneof("part") == "manifest":
                assert convert.manifest_from_wire(part.manifest) == MANIFEST
                continue
            self.offsets.append(part.chunk.offset_bytes)
            self.kept = self.kept[: part.chunk.offset_bytes] + part.chunk.data
            if limit is not None and len(self.kept) >= limit:
                raise Fault(Reason.STORE_UNAVAILABLE, "cut")
        return gateway_pb2.UploadResponse(key=convert.key_to_wire(KEY), size_bytes=len(self.kept))


async def _serve(replica: _Replica, port: int = 0) -> tuple[aio.Server, str]:
    server = rpc.server()
    gateway_pb2_grpc.add_GatewayServicer_to_server(replica, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server, f"127.0.0.1:{bound}"


@pytest.fixture
async def served() -> AsyncIterator[tuple[_Replica, Gateway]]:
    replica = _Replica()
    server, address = await _serve(replica)
    gateway = Gateway([address], SystemClock(), rng=Random(1))
    yield replica, gateway
    await gateway.close()
    await server.stop(None)


async def test_an_upload_arrives_whole_in_chunks(served: tuple[_Replica, Gateway]) -> None:
    replica, gateway = served
    receipt = await gateway.upload(MANIFEST, DATA, for_s=10)
    assert receipt == Receipt(key=KEY, size_bytes=len(DATA))
    assert replica.kept == DATA
    assert replica.offsets == list(range(0, len(DATA), CHUNK_BYTES))


async def test_an_upload_that_breaks_off_goes_on_where_it_ended(
    served: tuple[_Replica, Gateway],
) -> None:
    replica, gateway = served
    replica.break_after = [CHUNK_BYTES * 2, CHUNK_BYTES * 3]
    receipt = await gateway.upload(MANIFEST, DATA, for_s=30)
    assert receipt.size_bytes == len(DATA)
    assert replica.kept == DATA
    # No chunk came twice: what was kept was not sent again.
    assert replica.offsets == list(range(0, len(DATA), CHUNK_BYTES))


async def test_a_profile_nobody_wants_is_not_sent_again(
    served: tuple[_Replica, Gateway],
) -> None:
    replica, gateway = served
    replica.faults = [Fault(Reason.SESSION_CANCELLED, "ended")] * 2
    with pytest.raises(Fault) as refused:
        await gateway.upload(MANIFEST, DATA, for_s=30)
    assert refused.value.reason is Reason.SESSION_CANCELLED
    assert len(replica.faults) == 1


async def test_how_a_capture_ended_is_told_until_it_is_taken(
    served: tuple[_Replica, Gateway],
) -> None:
    replica, gateway = served
    replica.faults = [Fault(Reason.STORE_UNAVAILABLE, "away")] * 2
    report = CaptureReport(
        key=KEY,
        metal_id="ams1-m1",
        state=CaptureState.FAILED,
        isolate_id="wd1/checkout",
        sampled_ms=10,
        reason=Reason.TARGET_EXITED,
    )
    await gateway.report_capture(report, for_s=30)
    assert replica.told == [report]


async def test_the_next_replica_is_asked_when_one_is_gone() -> None:
    first, second = _Replica(), _Replica()
    first_server, first_address = await _serve(first)
    second_server, second_address = await _serve(second)
    gateway = Gateway([first_address, second_address], SystemClock(), rng=Random(1))
    report = Report(metal=METAL, snapshot=True)
    await gateway.report(report)
    assert (first.reports, gateway.replica) == (1, first_address)
    await first_server.stop(None)
    with pytest.raises(Fault) as gone:
        await gateway.report(report)
    assert gone.value.reason is Reason.STORE_UNAVAILABLE
    assert gateway.replica == second_address
    await gateway.report(report)
    assert second.reports == 1
    await gateway.close()
    await second_server.stop(None)
