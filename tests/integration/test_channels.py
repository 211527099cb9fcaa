"""Channels to peers: shared while nothing changed, bounded, and closed only behind their calls."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from contract import convert, identity
from contract.channels import Channels
from contract.faults import Fault, Reason
from protos.control.v1 import gateway_pb2_grpc
from services.certificates import make
from tests.integration.tls_scene import METALS, Halves, halves, report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grpc import aio


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Halves]:
    async with halves(tmp_path) as made:
        yield made


async def tell(channel: aio.Channel) -> None:
    stub = gateway_pb2_grpc.GatewayStub(channel)
    await stub.Report(convert.report_to_wire(report()), timeout=20)


async def test_one_channel_per_peer_until_the_certificates_change(scene: Halves) -> None:
    channels = Channels(scene.agent, most=8, drain_s=1)
    here = scene.gateway_address, identity.CONTROL_PLANE
    first = channels.to(*here)
    assert channels.to(*here) is first
    assert channels.to(scene.gateway_address, "another") is not first
    make(scene.directory, METALS, now=datetime.now(UTC), anew=True)
    assert scene.agent.look()
    second = channels.to(*here)
    assert second is not first
    assert channels.to(*here) is second
    await tell(second)
    await channels.close()


async def test_the_one_used_longest_ago_is_closed_behind_its_calls(scene: Halves) -> None:
    entered, go = asyncio.Event(), asyncio.Event()
    hear = scene.noted.sightings

    async def slowly(told: Any) -> Any:
        entered.set()
        await go.wait()
        return await hear(told)

    scene.noted.sightings = slowly  # type: ignore[method-assign]
    channels = Channels(scene.agent, most=2, drain_s=20)
    oldest = channels.to(scene.gateway_address, identity.CONTROL_PLANE)
    calling = asyncio.create_task(tell(oldest))
    await entered.wait()
    for port in (1, 2):
        channels.to(f"127.0.0.1:{port}", identity.CONTROL_PLANE)
    assert channels.to(scene.gateway_address, identity.CONTROL_PLANE) is not oldest
    go.set()
    await calling
    await channels.close()
    assert len(scene.noted.reports) == 1


async def test_plain_text_is_for_loopback_alone() -> None:
    channels = Channels(None, most=2, drain_s=1)
    channels.to("127.0.0.1:1", identity.CONTROL_PLANE)
    for address in ("10.0.0.1:1", "control-plane:8788", "[2001:db8::1]:1"):
        with pytest.raises(Fault) as refused:
            channels.to(address, identity.CONTROL_PLANE)
        assert refused.value.reason is Reason.PEER_FORBIDDEN
    await channels.close()
