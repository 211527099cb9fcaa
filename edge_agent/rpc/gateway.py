"""The control plane as this agent reaches it: any replica, the next when one gives no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog
from grpc import aio

from contract import convert, identity, rpc
from contract.channels import Channels
from contract.faults import Fault, Kind, Reason
from protos.control.v1 import gateway_pb2, gateway_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from random import Random

    from contract.certificates import Certificates
    from contract.messages import (
        CaptureReport,
        Receipt,
        Report,
        ReportReply,
        UploadManifest,
    )
    from edge_agent.runtime import Clock

CALL_S = 5.0
UPLOAD_S = 60.0
CHUNK_BYTES = 256 * 1024
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

Reply = TypeVar("Reply")

log = structlog.get_logger(__name__)

# What another replica, or the same one a little later, may answer differently.
_TRY_AGAIN = frozenset({Kind.UNAVAILABLE, Kind.TIMED_OUT, Kind.BUSY})


class Gateway:
    """Channels to the replicas, of which one is in use.

    Args:
        addresses: ``host:port`` each; at least one.
        certificates: None for plain text.
        rng: spreads what agents try again at the same time.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        clock: Clock,
        certificates: Certificates | None = None,
        *,
        rng: Random,
    ) -> None:
        self._addresses = tuple(addresses)
        self._channels = Channels(certificates, most=len(self._addresses), drain_s=UPLOAD_S)
        self._clock = clock
        self._rng = rng
        self._using = 0

    @property
    def replica(self) -> str:
        """Which replica is in use; when it changes, the new one may lack the whole picture."""
        return self._addresses[self._using]

    async def report(self, report: Report) -> ReportReply:
        """Tell sightings; one try.

        Raises:
            Fault: store_unavailable when no answer came, or what the gateway refused with.
        """
        request = convert.report_to_wire(report)
        reply = await self._once(lambda stub: stub.Report(request, timeout=CALL_S))
        return convert.report_reply_from_wire(reply)

    async def report_capture(self, report: CaptureReport, *, for_s: float) -> None:
        """Tell how a capture stands, trying again for this long.

        Raises:
            Fault: as ``report``, from the last try.
        """
        request = gateway_pb2.ReportCaptureRequest(report=convert.capture_report_to_wire(report))

        async def tell() -> None:
            await self._once(lambda stub: stub.ReportCapture(request, timeout=CALL_S))

        await self._again(tell, for_s)

    async def upload(self, manifest: UploadManifest, data: bytes, *, for_s: float) -> Receipt:
        """Upload a profile. A try that breaks off is followed by one that goes on where it ended.

        The first try does not ask where that is: nothing of it can be there yet.

        Raises:
            Fault: as ``report``; profile_invalid, profile_too_large, session_cancelled.
        """
        first = True

        async def send() -> Receipt:
            nonlocal first
            kept = 0 if first else await self._kept(manifest)
            first = False
            reply = await self._once(
                lambda stub: stub.Upload(_parts(manifest, data, kept), timeout=UPLOAD_S)
            )
            return convert.receipt_from_wire(reply)

        return await self._again(send, for_s)

    async def close(self) -> None:
        """Close every channel."""
        await self._channels.close()

    async def _kept(self, manifest: UploadManifest) -> int:
        request = gateway_pb2.ShowUploadRequest(
            key=convert.key_to_wire(manifest.key), sha256=manifest.sha256
        )
        reply = await self._once(lambda stub: stub.ShowUpload(request, timeout=CALL_S))
        return min(reply.offset_bytes, manifest.size_bytes)

    async def _once(
        self, call: Callable[[gateway_pb2_grpc.GatewayStub], Awaitable[Reply]]
    ) -> Reply:
        using = self._using
        try:
            channel = self._channels.to(self._addresses[using], identity.CONTROL_PLANE)
            return await call(gateway_pb2_grpc.GatewayStub(channel))
        except aio.AioRpcError as error:
            fault = rpc.fault_of(error, unreachable=Reason.STORE_UNAVAILABLE)
            if cause := rpc.handshake_failure(error):
                log.warning("gateway_unreachable", cause=cause, address=self._addresses[using])
            if fault.kind in _TRY_AGAIN and using == self._using:
                # Only the first of several calls that fail side by side moves on.
                self._using = (using + 1) % len(self._addresses)
            raise fault from None

    async def _again(self, attempt: Callable[[], Awaitable[Reply]], for_s: float) -> Reply:
        until_ns = self._clock.monotonic_ns() + int(for_s * 1e9)
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await attempt()
            except Fault as fault:
                left_s = (until_ns - self._clock.monotonic_ns()) / 1e9
                if fault.kind not in _TRY_AGAIN or left_s <= pause_s:
                    raise
            await self._clock.sleep(pause_s * self._rng.uniform(0.5, 1.0))
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)


async def _parts(
    manifest: UploadManifest, data: bytes, kept: int
) -> AsyncIterator[gateway_pb2.UploadRequest]:
    yield gateway_pb2.UploadRequest(manifest=convert.manifest_to_wire(manifest))
    for offset in range(kept, len(data), CHUNK_BYTES):
        chunk = gateway_pb2.Chunk(offset_bytes=offset, data=data[offset : offset + CHUNK_BYTES])
        yield gateway_pb2.UploadRequest(chunk=chunk)
