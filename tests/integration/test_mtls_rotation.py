"""Certificates and the authority change while calls run: none fails, and the old ones are out."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from cryptography import x509
from grpc import aio

from contract import convert, identity, rpc
from contract.faults import Fault, Reason
from control_plane.rpc.agents import GrpcAgents
from edge_agent.rpc.gateway import Gateway
from edge_agent.runtimes.clock import SystemClock
from protos.control.v1 import gateway_pb2, gateway_pb2_grpc
from services.certificates import add_authority, drop_authorities, make, of_metal
from tests.integration.tls_scene import KEY, METALS, Halves, halves, report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from contract.certificates import Material

M1 = identity.of_metal("ams1-m1")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Halves]:
    async with halves(tmp_path) as made:
        yield made


class Calls:
    """The same call again and again; the first that fails ends them, and the test."""

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self._call = call
        self.done = 0
        self._more = asyncio.Condition()

    async def run(self) -> None:
        while True:
            await self._call()
            async with self._more:
                self.done += 1
                self._more.notify_all()

    async def more(self, count: int = 20) -> None:
        """Wait for so many that end well from now on."""
        until = self.done + count
        async with self._more, asyncio.timeout(60):
            await self._more.wait_for(lambda: self.done >= until)


@contextlib.asynccontextmanager
async def calling(scene: Halves) -> AsyncIterator[tuple[Calls, Calls]]:
    """Both directions, all the time."""
    agents = GrpcAgents(scene.control_plane)
    gateway = Gateway([scene.gateway_address], SystemClock(), scene.agent, rng=Random(1))
    orders = Calls(lambda: agents.show_capture(scene.agent_address, KEY, metal_id="ams1-m1"))
    reports = Calls(lambda: gateway.report(report()))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one.run()) for one in (orders, reports)]
        yield orders, reports
        for task in running:
            task.cancel()
    await agents.close()
    await gateway.close()


async def shown_at(scene: Halves, address: str, name: str) -> x509.Certificate:
    """The certificate a listener shows in a new handshake."""
    own = of_metal(scene.directory, "ams1-m1")
    context = ssl.create_default_context(cafile=str(own.authority))
    context.load_cert_chain(own.certificate, own.key)
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return x509.load_der_x509_certificate(shown)


def serial(material: Material) -> int:
    return x509.load_pem_x509_certificate(material.certificate).serial_number


async def reports_with(scene: Halves, material: Material) -> Any:
    async with rpc.secure_channel(
        scene.gateway_address, material, identity.CONTROL_PLANE
    ) as channel:
        request = convert.report_to_wire(report())
        return await gateway_pb2_grpc.GatewayStub(channel).Report(request, timeout=20)


async def test_nothing_fails_while_everything_is_replaced(scene: Halves) -> None:
    old = scene.material(M1)
    first = await shown_at(scene, scene.gateway_address, identity.CONTROL_PLANE)
    assert first.serial_number == serial(scene.control_plane.current)

    async def step(of: Callable[[], object]) -> None:
        of()
        # In the order in which the two processes come to look; each alone for a while.
        assert scene.control_plane.look()
        for calls in both:
            await calls.more()
        assert scene.agent.look()
        for calls in both:
            await calls.more()

    now = datetime.now(UTC) + timedelta(seconds=1)
    async with calling(scene) as both:
        for calls in both:
            await calls.more()
        await step(lambda: add_authority(scene.directory, now=now))
        # What the old authority issued is still good.
        await reports_with(scene, old)
        await step(lambda: make(scene.directory, METALS, now=now, anew=True))
        await step(lambda: drop_authorities(scene.directory, now=now))

    for address, name, held in (
        (scene.gateway_address, identity.CONTROL_PLANE, scene.control_plane),
        (scene.agent_address, M1, scene.agent),
    ):
        shown = await shown_at(scene, address, name)
        assert shown.serial_number == serial(held.current)
        assert shown.serial_number != first.serial_number
    # The old certificate has not expired; its authority is no longer believed.
    with pytest.raises(aio.AioRpcError) as refused:
        await reports_with(scene, old)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_call_under_way_ends_on_the_connection_it_began_on(scene: Halves) -> None:
    entered, go = asyncio.Event(), asyncio.Event()
    hear = scene.noted.sightings

    async def slowly(told: Any) -> Any:
        if not entered.is_set():
            entered.set()
            await go.wait()
        return await hear(told)

    scene.noted.sightings = slowly  # type: ignore[method-assign]
    gateway = Gateway([scene.gateway_address], SystemClock(), scene.agent, rng=Random(1))
    slow = asyncio.create_task(gateway.report(report()))
    await entered.wait()
    make(scene.directory, METALS, now=datetime.now(UTC), anew=True)
    assert scene.control_plane.look()
    assert scene.agent.look()
    # This one makes a new channel, and the old one drains.
    await gateway.report(report())
    assert not slow.done()
    go.set()
    await slow
    assert len(scene.noted.reports) == 2
    await gateway.close()


async def test_a_bad_replacement_changes_nothing(scene: Halves) -> None:
    own = of_metal(scene.directory, "ams1-m1")
    before = scene.agent.current
    own.certificate.write_bytes(scene.material(identity.CONTROL_PLANE).certificate)
    assert not scene.agent.look()
    assert scene.agent.current is before
    gateway = Gateway([scene.gateway_address], SystemClock(), scene.agent, rng=Random(1))
    await gateway.report(report())
    await gateway.close()


async def test_an_upload_s_offset_is_asked_with_the_metal_s_own_name(scene: Halves) -> None:
    """The request names no metal: the certificate alone says who asks."""
    asked: list[str | None] = []

    async def kept_bytes(key: Any, sha256: str, *, metal_id: str | None) -> int:
        asked.append(metal_id)
        raise Fault(Reason.PEER_FORBIDDEN, "not yours")

    scene.noted.kept_bytes = kept_bytes  # type: ignore[attr-defined]
    async with rpc.secure_channel(
        scene.gateway_address, scene.material(M1), identity.CONTROL_PLANE
    ) as channel:
        request = gateway_pb2.ShowUploadRequest(key=convert.key_to_wire(KEY), sha256="0" * 64)
        with pytest.raises(aio.AioRpcError) as refused:
            await gateway_pb2_grpc.GatewayStub(channel).ShowUpload(request, timeout=20)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert asked == ["ams1-m1"]
