"""Orders to agents: one cached channel per address, every call short and bounded."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

import grpc
import structlog

from contract import convert, rpc
from contract.faults import Fault, Reason
from protos.edge.v1 import edge_pb2, edge_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from contract.messages import Accepted, CaptureKey, CaptureReport, Order

DEADLINE_S = 2.0
# Above the agents one replica is planned for; past it the channel used longest ago is closed.
MAX_CHANNELS = 4_096

Reply = TypeVar("Reply")

log = structlog.get_logger(__name__)


class GrpcAgents:
    """The agents of the fleet, by the address each of them advertises."""

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._channels: OrderedDict[str, grpc.aio.Channel] = OrderedDict()

    async def start_capture(self, address: str, order: Order) -> Accepted:
        """Order a capture. The same order again answers as the first time.

        Raises:
            Fault: what the agent refused with; agent_unreachable when it gave no answer in time.
        """
        stub = await self._stub(address)
        reply = await self._asked(
            stub.StartCapture(convert.order_to_wire(order), timeout=self._deadline_s)
        )
        return convert.accepted_from_wire(reply)

    async def stop_capture(self, address: str, key: CaptureKey, *, discard: bool) -> CaptureReport:
        """End a capture early, keeping or dropping what it sampled.

        Raises:
            Fault: capture_unknown; agent_unreachable.
        """
        stub = await self._stub(address)
        request = edge_pb2.StopCaptureRequest(key=convert.key_to_wire(key), discard=discard)
        reply = await self._asked(stub.StopCapture(request, timeout=self._deadline_s))
        return convert.required_capture_report(reply)

    async def show_capture(self, address: str, key: CaptureKey) -> CaptureReport:
        """Ask how a capture stands.

        Raises:
            Fault: capture_unknown; agent_unreachable.
        """
        stub = await self._stub(address)
        request = edge_pb2.ShowCaptureRequest(key=convert.key_to_wire(key))
        reply = await self._asked(stub.ShowCapture(request, timeout=self._deadline_s))
        return convert.required_capture_report(reply)

    async def close(self) -> None:
        """Close every channel."""
        while self._channels:
            _, channel = self._channels.popitem()
            await channel.close(None)

    async def _stub(self, address: str) -> edge_pb2_grpc.EdgeAgentStub:
        channel = self._channels.pop(address, None)
        if channel is None:
            channel = rpc.channel(address)
        self._channels[address] = channel
        if len(self._channels) > MAX_CHANNELS:
            _, oldest = self._channels.popitem(last=False)
            # The grace lets a call that is still out on it end by its own deadline.
            await oldest.close(grace=self._deadline_s)
        return edge_pb2_grpc.EdgeAgentStub(channel)

    @staticmethod
    async def _asked(call: Awaitable[Reply]) -> Reply:
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            fault = rpc.fault_of(error, unreachable=Reason.AGENT_UNREACHABLE)
            if fault.reason is Reason.AGENT_UNREACHABLE:
                # The library's words hold addresses, which are not for the caller who reads this.
                log.warning("agent_unreachable", detail=fault.message)
                fault = Fault(Reason.AGENT_UNREACHABLE, "The metal's agent did not answer.")
            raise fault from None
