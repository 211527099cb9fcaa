"""Who gets in: on both doors the right peer alone; everybody else is told and logged why not."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio
from structlog.testing import capture_logs

from contract import convert, identity, rpc
from contract.faults import Fault, Reason
from control_plane.rpc.agents import GrpcAgents
from edge_agent.rpc.gateway import Gateway
from edge_agent.runtimes.clock import SystemClock
from protos.control.v1 import gateway_pb2_grpc
from protos.edge.v1 import edge_pb2, edge_pb2_grpc
from tests.integration.tls_scene import (
    KEY,
    LOOPBACK,
    Halves,
    halves,
    report,
    unchecked,
    without_certificate,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from contract.certificates import Material

M1, M2 = identity.of_metal("ams1-m1"), identity.of_metal("ams1-m2")
SOON_S = 20
STRANGERS = ["self_signed", "expired", "no_certificate", "plaintext"]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Halves]:
    async with halves(tmp_path) as made:
        yield made


async def refused(call: Any) -> aio.AioRpcError:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return caught.value


def strange_channel(scene: Halves, how: str, address: str, name: str, peer: str) -> aio.Channel:
    """A channel of somebody who is not ``name``, to ``peer``."""
    if how == "plaintext":
        return rpc.channel(address)
    trusted = scene.material(name).authority
    if how == "no_certificate":
        return without_certificate(address, trusted, peer)
    material = scene.expired(name) if how == "expired" else scene.forged(name)
    return rpc.secure_channel(address, material, peer)


async def test_the_right_ones_reach_each_other(scene: Halves) -> None:
    agents = GrpcAgents(scene.control_plane)
    assert (await agents.show_capture(scene.agent_address, KEY, metal_id="ams1-m1")).key == KEY
    gateway = Gateway([scene.gateway_address], SystemClock(), scene.agent, rng=Random(1))
    await gateway.report(report())
    assert (scene.noted.shown, len(scene.noted.reports)) == ([KEY], 1)
    await agents.close()
    await gateway.close()


@pytest.mark.parametrize("how", STRANGERS)
async def test_an_agent_takes_no_orders_from_a_stranger(scene: Halves, how: str) -> None:
    async with strange_channel(
        scene, how, scene.agent_address, identity.CONTROL_PLANE, M1
    ) as channel:
        request = edge_pb2.ShowCaptureRequest(key=convert.key_to_wire(KEY))
        error = await refused(
            edge_pb2_grpc.EdgeAgentStub(channel).ShowCapture(request, timeout=SOON_S)
        )
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert scene.noted.shown == []


@pytest.mark.parametrize("how", STRANGERS)
async def test_a_gateway_hears_no_stranger(scene: Halves, how: str) -> None:
    async with strange_channel(
        scene, how, scene.gateway_address, M1, identity.CONTROL_PLANE
    ) as channel:
        error = await refused(
            gateway_pb2_grpc.GatewayStub(channel).Report(
                convert.report_to_wire(report()), timeout=SOON_S
            )
        )
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert scene.noted.reports == []


@pytest.mark.parametrize("name", [M1, M2])
async def test_an_agent_takes_orders_from_the_control_plane_alone(scene: Halves, name: str) -> None:
    """Not from another metal's agent, and not from one that holds its own certificate."""
    with capture_logs() as logs:
        async with rpc.secure_channel(scene.agent_address, scene.material(name), M1) as channel:
            stub = edge_pb2_grpc.EdgeAgentStub(channel)
            key = convert.key_to_wire(KEY)
            for call in (
                stub.ShowCapture(edge_pb2.ShowCaptureRequest(key=key), timeout=SOON_S),
                stub.StopCapture(edge_pb2.StopCaptureRequest(key=key), timeout=SOON_S),
                stub.StartCapture(edge_pb2.StartCaptureRequest(), timeout=SOON_S),
                stub.ListIsolates(edge_pb2.ListIsolatesRequest(), timeout=SOON_S),
            ):
                error = await refused(call)
                assert error.code() is grpc.StatusCode.PERMISSION_DENIED
                fault = rpc.fault_of(error, unreachable=Reason.AGENT_UNREACHABLE)
                assert fault.reason is Reason.PEER_FORBIDDEN
    assert [(one["event"], one["name"]) for one in logs] == [("peer_refused", name)] * 4
    assert scene.noted.shown == []


async def test_a_gateway_hears_agents_alone(scene: Halves) -> None:
    material = scene.material(identity.CONTROL_PLANE)
    with capture_logs() as logs:
        gateway = Gateway(
            [scene.gateway_address], SystemClock(), unchecked(material), rng=Random(1)
        )
        with pytest.raises(Fault) as refusal:
            await gateway.report(report())
        await gateway.close()
    assert refusal.value.reason is Reason.PEER_FORBIDDEN
    assert [one["event"] for one in logs] == ["peer_refused"]
    assert scene.noted.reports == []


async def test_an_agent_speaks_for_its_own_metal(scene: Halves) -> None:
    gateway = Gateway([scene.gateway_address], SystemClock(), scene.agent, rng=Random(1))
    with pytest.raises(Fault) as refusal:
        await gateway.report(report("ams1-m2"))
    await gateway.close()
    assert refusal.value.reason is Reason.PEER_FORBIDDEN
    assert scene.noted.impostors == [("ams1-m1", "ams1-m2")]
    assert scene.noted.reports == []


async def test_an_address_that_changed_hands_gets_no_order(scene: Halves) -> None:
    """The control plane means ams1-m2; ams1-m1 answers there."""
    agents = GrpcAgents(scene.control_plane)
    with capture_logs() as logs, pytest.raises(Fault) as refusal:
        await agents.show_capture(scene.agent_address, KEY, metal_id="ams1-m2")
    await agents.close()
    assert refusal.value.reason is Reason.AGENT_UNREACHABLE
    assert [(one["event"], one["cause"]) for one in logs] == [
        ("agent_unreachable", "peer_is_another")
    ]
    assert scene.noted.shown == []


IMPOSTORS: dict[str, tuple[Callable[[Halves], Material | None], str]] = {
    "another metal's": (lambda scene: scene.material(M2), "peer_is_another"),
    "the control plane's": (
        lambda scene: scene.material(identity.CONTROL_PLANE),
        "peer_is_another",
    ),
    "self-signed": (lambda scene: scene.forged(M1), "peer_untrusted"),
    "expired": (lambda scene: scene.expired(M1), "peer_untrusted"),
    "none": (lambda _scene: None, "peer_speaks_plaintext"),
}


@pytest.mark.parametrize("shows", list(IMPOSTORS))
async def test_nothing_is_told_to_a_server_that_is_another(scene: Halves, shows: str) -> None:
    """Both clients, against a listener that shows something else than it should."""
    made, cause = IMPOSTORS[shows]
    material = made(scene)
    server, heard = rpc.server(), []

    async def hear(request: bytes, context: Any) -> bytes:
        heard.append(request)
        return b""

    for service in ("isoprof.edge.v1.EdgeAgent", "isoprof.control.v1.Gateway"):
        methods = {
            name: grpc.unary_unary_rpc_method_handler(hear) for name in ("ShowCapture", "Report")
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    port = rpc.bind(server, LOOPBACK, None if material is None else unchecked(material))
    await server.start()
    address = f"127.0.0.1:{port}"
    agents = GrpcAgents(scene.control_plane)
    with capture_logs() as logs, pytest.raises(Fault) as unreachable:
        await agents.show_capture(address, KEY, metal_id="ams1-m1")
    assert unreachable.value.reason is Reason.AGENT_UNREACHABLE
    assert [(one["event"], one["cause"]) for one in logs] == [("agent_unreachable", cause)]
    if shows != "the control plane's":
        gateway = Gateway([address], SystemClock(), scene.agent, rng=Random(1))
        with capture_logs() as logs, pytest.raises(Fault):
            await gateway.report(report())
        assert [(one["event"], one["cause"]) for one in logs] == [("gateway_unreachable", cause)]
        await gateway.close()
    assert heard == []
    await agents.close()
    await server.stop(0)


async def test_plain_text_leaves_no_machine() -> None:
    """No order goes out in the clear, whatever address an agent told."""
    agents = GrpcAgents()
    with capture_logs() as logs, pytest.raises(Fault) as refusal:
        await agents.show_capture("192.0.2.1:7101", KEY, metal_id="ams1-m1")
    assert refusal.value.reason is Reason.AGENT_UNREACHABLE
    assert [one["event"] for one in logs] == ["plaintext_refused"]
    await agents.close()
