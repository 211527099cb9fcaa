"""Orders to agents: one cached channel per metal, every call short and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import grpc
import structlog

from contract import convert, identity, rpc
from contract.channels import Channels
from contract.faults import Fault, Reason
from protos.edge.v1 import edge_pb2, edge_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from contract.certificates import Certificates
    from contract.messages import Accepted, CaptureKey, CaptureReport, Order

DEADLINE_S = 2.0
# Above the agents one replica is planned for; past it the channel used longest ago is closed.
MAX_CHANNELS = 4_096

Reply = TypeVar("Reply")

log = structlog.get_logger(__name__)


class GrpcAgents:
    """The agents of the fleet, by metal and the address each of them advertises.

    Whoever answers there must hold the metal's certificate: an address may have changed hands.

    Args:
        certificates: None for plain text.
    """

    def __init__(
        self, certificates: Certificates | None = None, *, deadline_s: float = DEADLINE_S
    ) -> None:
        self._deadline_s = deadline_s
        # A call that is still out on a replaced channel ends by its own deadline.
        self._channels = Channels(certificates, most=MAX_CHANNELS, drain_s=deadline_s)

    async def start_capture(self, address: str, order: Order, *, metal_id: str) -> Accepted:
        """Order a capture. The same order again answers as the first time.

        Raises:
            Fault: what the agent refused with; agent_unreachable when it gave no answer in time.
        """
        stub = self._stub(address, metal_id)
        reply = await self._asked(
            stub.StartCapture(convert.order_to_wire(order), timeout=self._deadline_s), metal_id
        )
        return convert.accepted_from_wire(reply)

    async def stop_capture(
        self, address: str, key: CaptureKey, *, metal_id: str, discard: bool
    ) -> CaptureReport:
        """End a capture early, keeping or dropping what it sampled.

        Raises:
            Fault: capture_unknown; agent_unreachable.
        """
        stub = self._stub(address, metal_id)
        request = edge_pb2.StopCaptureRequest(key=convert.key_to_wire(key), discard=discard)
        reply = await self._asked(stub.StopCapture(request, timeout=self._deadline_s), metal_id)
        return convert.required_capture_report(reply)

    async def show_capture(self, address: str, key: CaptureKey, *, metal_id: str) -> CaptureReport:
        """Ask how a capture stands.

        Raises:
            Fault: capture_unknown; agent_unreachable.
        """
        stub = self._stub(address, metal_id)
        request = edge_pb2.ShowCaptureRequest(key=convert.key_to_wire(key))
        reply = await self._asked(stub.ShowCapture(request, timeout=self._deadline_s), metal_id)
        return convert.required_capture_report(reply)

    async def close(self) -> None:
        """Close every channel."""
        await self._channels.close()

    def _stub(self, address: str, metal_id: str) -> edge_pb2_grpc.EdgeAgentStub:
        try:
            channel = self._channels.to(address, identity.of_metal(metal_id))
        except Fault:
            raise _unreachable() from None
        return edge_pb2_grpc.EdgeAgentStub(channel)

    @staticmethod
    async def _asked(call: Awaitable[Reply], metal_id: str) -> Reply:
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            fault = rpc.fault_of(error, unreachable=Reason.AGENT_UNREACHABLE)
            if fault.reason is Reason.PEER_FORBIDDEN:
                # Ours to mend, and nothing the caller of a session did.
                log.warning("agent_refused_us", metal=metal_id, detail=fault.message)
                fault = _unreachable()
            elif fault.reason is Reason.AGENT_UNREACHABLE:
                # The library's words hold addresses, which are not for the caller who reads this.
                log.warning(
                    "agent_unreachable",
                    metal=metal_id,
                    cause=rpc.handshake_failure(error),
                    detail=fault.message,
                )
                fault = _unreachable()
            raise fault from None


def _unreachable() -> Fault:
    return Fault(Reason.AGENT_UNREACHABLE, "The metal's agent did not answer.")
