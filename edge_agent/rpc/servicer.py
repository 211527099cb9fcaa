"""What the control plane asks of this metal: the servicer, and the listener it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from contract import convert, identity, rpc
from protos.edge.v1 import edge_pb2, edge_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpc import aio

    from contract.certificates import Certificates
    from contract.messages import Isolate
    from edge_agent.capture import Captures

SERVICE = edge_pb2.DESCRIPTOR.services_by_name["EdgeAgent"].full_name


class EdgeAgent(edge_pb2_grpc.EdgeAgentServicer):
    """Every call is answered at once; nothing here waits for a capture to end.

    Args:
        isolates: what is loaded on this metal now.
    """

    def __init__(self, captures: Captures, isolates: Callable[[], tuple[Isolate, ...]]) -> None:
        self._captures = captures
        self._isolates = isolates

    async def StartCapture(  # noqa: N802 - the name on the wire
        self, request: edge_pb2.StartCaptureRequest, context: Any
    ) -> edge_pb2.StartCaptureResponse:
        """Take a hold and begin; idempotent by key."""
        accepted = await self._captures.start(convert.order_from_wire(request))
        return convert.accepted_to_wire(accepted)

    async def StopCapture(  # noqa: N802
        self, request: edge_pb2.StopCaptureRequest, context: Any
    ) -> edge_pb2.StopCaptureResponse:
        """End a capture early; idempotent."""
        report = await self._captures.stop(convert.required_key(request), discard=request.discard)
        return edge_pb2.StopCaptureResponse(report=convert.capture_report_to_wire(report))

    async def ShowCapture(  # noqa: N802
        self, request: edge_pb2.ShowCaptureRequest, context: Any
    ) -> edge_pb2.ShowCaptureResponse:
        """Tell how a capture stands."""
        report = self._captures.show(convert.required_key(request))
        return edge_pb2.ShowCaptureResponse(report=convert.capture_report_to_wire(report))

    async def ListIsolates(  # noqa: N802
        self, request: edge_pb2.ListIsolatesRequest, context: Any
    ) -> edge_pb2.ListIsolatesResponse:
        """Tell what is loaded, of one version or of all."""
        wanted = request.version_id
        return convert.isolates_to_wire(
            isolate for isolate in self._isolates() if wanted in {"", isolate.version_id}
        )


@dataclass(frozen=True, kw_only=True)
class AgentListener:
    """A bound EdgeAgent service; ``port`` is the one in use even when the OS chose it."""

    port: int
    server: aio.Server

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls at once, let those under way end within ``grace_s``."""
        await self.server.stop(grace_s)


async def bind(address: str, certificates: Certificates | None = None) -> AgentListener:
    """Bind ``host:port`` before anything is served on it, so that the address can be told.

    Args:
        certificates: None for plain text. With them, the control plane alone may give orders.

    Raises:
        OSError: the address can't be listened on.
    """
    control_plane_alone = rpc.Admission(
        service=SERVICE, admits=lambda name: name == identity.CONTROL_PLANE
    )
    server = rpc.server(control_plane_alone if certificates is not None else None)
    return AgentListener(port=rpc.bind(server, address, certificates), server=server)


async def serve(listener: AgentListener, servicer: EdgeAgent) -> None:
    """Serve the agent, health and reflection on a bound listener."""
    edge_pb2_grpc.add_EdgeAgentServicer_to_server(servicer, listener.server)
    checks: Any = health.aio.HealthServicer()  # type: ignore[attr-defined]
    health_pb2_grpc.add_HealthServicer_to_server(checks, listener.server)
    for name in ("", SERVICE):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), listener.server)
    await listener.server.start()
