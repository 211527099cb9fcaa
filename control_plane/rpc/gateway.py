"""What agents tell the control plane: the servicer, and the listener it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from contract import convert, identity, rpc
from contract.faults import Fault, Reason
from protos.control.v1 import gateway_pb2, gateway_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grpc import aio

    from contract.certificates import Certificates
    from contract.messages import CaptureKey
    from control_plane.intake import Intake

SERVICE = gateway_pb2.DESCRIPTOR.services_by_name["Gateway"].full_name


class Gateway(gateway_pb2_grpc.GatewayServicer):
    """Any agent may call any replica: nothing is kept here between two calls.

    An agent speaks for the metal its certificate names, and for no other.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def Report(  # noqa: N802 - the name on the wire
        self, request: gateway_pb2.ReportRequest, context: Any
    ) -> gateway_pb2.ReportResponse:
        """Take sightings in."""
        report = convert.report_from_wire(request)
        await self._check(context, report.metal.metal_id, *report.captures)
        reply = await self._intake.sightings(report)
        return convert.report_reply_to_wire(reply)

    async def ReportCapture(  # noqa: N802
        self, request: gateway_pb2.ReportCaptureRequest, context: Any
    ) -> gateway_pb2.ReportCaptureResponse:
        """Take in how a capture goes."""
        report = convert.required_capture_report(request)
        await self._check(context, report.metal_id, report.key)
        await self._intake.captured(report)
        return gateway_pb2.ReportCaptureResponse()

    async def ShowUpload(  # noqa: N802
        self, request: gateway_pb2.ShowUploadRequest, context: Any
    ) -> gateway_pb2.ShowUploadResponse:
        """Tell where a broken upload goes on."""
        key = convert.required_key(request)
        kept = await self._intake.kept_bytes(
            key, convert.sha256_from_wire(request.sha256), metal_id=_speaker(context)
        )
        return gateway_pb2.ShowUploadResponse(offset_bytes=kept)

    async def Upload(  # noqa: N802
        self, request_iterator: AsyncIterator[gateway_pb2.UploadRequest], context: Any
    ) -> gateway_pb2.UploadResponse:
        """Write chunks as they come; the next is read only when the last is written.

        That is the back-pressure: HTTP/2's window fills while a write is out, and the agent waits.
        """
        first = await anext(aiter(request_iterator), None)
        if first is None or first.WhichOneof("part") != "manifest":
            raise Fault(Reason.REQUEST_INVALID, "An upload begins with its manifest.")
        manifest = convert.manifest_from_wire(first.manifest)
        await self._check(context, manifest.metal_id, manifest.key)
        upload = await self._intake.open_upload(manifest)
        async for part in request_iterator:
            if part.WhichOneof("part") != "chunk":
                raise Fault(Reason.REQUEST_INVALID, "After its manifest an upload has only chunks.")
            await upload.write(part.chunk.offset_bytes, part.chunk.data)
        return convert.receipt_to_wire(await upload.finish())

    async def _check(self, context: Any, claimed: str, *keys: CaptureKey) -> None:
        """Compare the metal a message names with the one its certificate names."""
        speaker = _speaker(context)
        if speaker not in {None, claimed}:
            await self._intake.spoke_for_another(speaker, claimed, keys)
            raise Fault(
                Reason.PEER_FORBIDDEN, f"The certificate is of {speaker}, the message of {claimed}."
            )


def _speaker(context: Any) -> str | None:
    """Return the metal whose agent calls; None in plain text, where nobody can tell."""
    return identity.metal_of(rpc.holder(context))


@dataclass(frozen=True, kw_only=True)
class GatewayListener:
    """A bound gateway; ``port`` is the one in use even when the OS chose it."""

    port: int
    server: aio.Server
    # Any: the published stubs of grpcio-health-checking lack its asyncio half.
    checks: Any

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls at once, let those under way end within ``grace_s``."""
        await self.checks.enter_graceful_shutdown()
        await self.server.stop(grace_s)


async def listen(
    intake: Intake, address: str, certificates: Certificates | None = None
) -> GatewayListener:
    """Serve the gateway, health and reflection on ``host:port``; port 0 lets the OS choose.

    Args:
        certificates: None for plain text.

    Raises:
        OSError: the address can't be listened on.
    """
    agents_alone = rpc.Admission(
        service=SERVICE, admits=lambda name: identity.metal_of(name) is not None
    )
    server = rpc.server(agents_alone if certificates is not None else None)
    gateway_pb2_grpc.add_GatewayServicer_to_server(Gateway(intake), server)
    checks: Any = health.aio.HealthServicer()  # type: ignore[attr-defined]
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    for name in ("", SERVICE):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), server)
    port = rpc.bind(server, address, certificates)
    await server.start()
    return GatewayListener(port=port, server=server, checks=checks)
