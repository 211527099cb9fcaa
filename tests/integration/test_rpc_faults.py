"""Faults cross real gRPC whole: raised by a servicer, raised again by the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from grpc import aio

from contract import rpc
from contract.faults import Fault, Reason
from protos.control.v1 import gateway_pb2, gateway_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class _Raising(gateway_pb2_grpc.GatewayServicer):
    def __init__(self) -> None:
        self.error: Exception = RuntimeError("unset")

    async def Report(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise self.error

    ReportCapture = ShowUpload = Report

    async def Upload(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        async for _ in request_iterator:
            pass
        raise self.error


@pytest.fixture
async def served() -> AsyncIterator[tuple[_Raising, gateway_pb2_grpc.GatewayStub]]:
    servicer, server = _Raising(), rpc.server()
    gateway_pb2_grpc.add_GatewayServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with rpc.channel(f"127.0.0.1:{port}") as channel:
        yield servicer, gateway_pb2_grpc.GatewayStub(channel)
    await server.stop(None)


async def _unary(stub: gateway_pb2_grpc.GatewayStub) -> None:
    await stub.Report(gateway_pb2.ReportRequest(), timeout=10)


async def _stream(stub: gateway_pb2_grpc.GatewayStub) -> None:
    await stub.Upload(iter([gateway_pb2.UploadRequest()]), timeout=10)


@pytest.mark.parametrize("call", [_unary, _stream])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(Reason.ISOLATES_BUSY, "held till later", retry_after_s=4.25),
        Fault(Reason.CAPTURE_UNKNOWN, "never had it"),
        Fault(Reason.AGENT_RESTARTED, "stopping"),
    ],
    ids=lambda one: getattr(one, "reason", one.__class__).__str__(),
)
async def test_a_fault_is_raised_again_as_it_was(
    served: tuple[_Raising, gateway_pb2_grpc.GatewayStub],
    call: Callable[[gateway_pb2_grpc.GatewayStub], Any],
    fault: Fault,
) -> None:
    servicer, stub = served
    servicer.error = fault
    with pytest.raises(aio.AioRpcError) as failed:
        await call(stub)
    again = rpc.fault_of(failed.value, unreachable=Reason.AGENT_UNREACHABLE)
    assert (again.reason, again.message, again.retry_after_s) == (
        fault.reason,
        fault.message,
        fault.retry_after_s,
    )


@pytest.mark.parametrize(
    "error", [ValueError("password=hunter2"), Fault(Reason.INTERNAL, "password=hunter2")]
)
async def test_what_went_wrong_inside_stays_inside(
    served: tuple[_Raising, gateway_pb2_grpc.GatewayStub], error: Exception
) -> None:
    servicer, stub = served
    servicer.error = error
    with pytest.raises(aio.AioRpcError) as failed:
        await _unary(stub)
    assert "hunter2" not in repr(failed.value)
    again = rpc.fault_of(failed.value, unreachable=Reason.AGENT_UNREACHABLE)
    assert again.reason is Reason.INTERNAL


async def test_nobody_there_is_unreachable() -> None:
    async with rpc.channel("127.0.0.1:1") as channel:
        with pytest.raises(aio.AioRpcError) as failed:
            await _unary(gateway_pb2_grpc.GatewayStub(channel))
    fault = rpc.fault_of(failed.value, unreachable=Reason.AGENT_UNREACHABLE)
    assert fault.reason is Reason.AGENT_UNREACHABLE
