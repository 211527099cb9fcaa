"""No agent speaks for another metal: refused, told in the session's history, and without effect."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio
from structlog.testing import capture_logs

from contract import convert, rpc
from contract.faults import Reason
from contract.messages import CaptureReport, CaptureState
from control_plane.store import captures, history
from pprof import codec
from protos.control.v1 import gateway_pb2
from tests.integration.edge_scene import ISOLATE, Scene, edge_scene, manifest
from tests.integration.planes import ACCOUNT, profile_bytes, sighting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from contract.messages import CaptureKey
    from tests.integration.edge_scene import ScriptedMetal

FORBIDDEN = (grpc.StatusCode.PERMISSION_DENIED, Reason.PEER_FORBIDDEN)


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url, metals=2) as made:
        yield made


async def refused(call: Awaitable[Any]) -> tuple[grpc.StatusCode, Reason]:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    fault = rpc.fault_of(caught.value, unreachable=Reason.AGENT_UNREACHABLE)
    return caught.value.code(), fault.reason


async def sampling(scene: Scene) -> tuple[CaptureKey, ScriptedMetal, ScriptedMetal]:
    """A capture that samples, the metal it is on, and the other one."""
    for metal in scene.metals:
        metal.go.clear()
    asked = {"worker": "replacer", "duration_ms": 1000}
    made = await scene.call("POST", "profile-sessions", json=asked)
    await scene.session_until(made.body["result"]["id"], "capturing")
    (own,) = [metal for metal in scene.metals if not metal.orders.empty()]
    (other,) = [metal for metal in scene.metals if metal is not own]
    return own.orders.get_nowait().key, own, other


async def impostors(scene: Scene, key: CaptureKey) -> list[tuple[int | None, str | None]]:
    async with scene.db.read() as conn:
        entries = await history.of_session(conn, ACCOUNT, key.session_id)
    return [(one.capture, one.reason) for one in entries if one.event == "impostor"]


def failed(key: CaptureKey, metal_id: str) -> CaptureReport:
    return CaptureReport(
        key=key,
        metal_id=metal_id,
        state=CaptureState.FAILED,
        isolate_id=ISOLATE,
        sampled_ms=0,
        reason=Reason.INTERNAL,
    )


def test_every_call_of_a_gateway_is_tried_here() -> None:
    """A new one must hold its caller to its metal too: try it below, then name it here."""
    calls = gateway_pb2.DESCRIPTOR.services_by_name["Gateway"].methods_by_name
    assert set(calls) == {"Report", "ReportCapture", "ShowUpload", "Upload"}


@pytest.mark.parametrize("claims", ["its own name", "the other's name"])
async def test_another_s_capture_can_be_neither_ended_nor_uploaded(
    scene: Scene, claims: str
) -> None:
    key, own, other = await sampling(scene)
    claimed = other.metal_id if claims == "its own name" else own.metal_id
    forged = profile_bytes("forged")
    told = replace(manifest(own.metal_id, key, forged), metal_id=claimed)
    with capture_logs() as logs:
        assert await refused(other.tell(failed(key, claimed))) == FORBIDDEN
        assert await refused(other.upload(told, forged)) == FORBIDDEN
        request = gateway_pb2.ShowUploadRequest(key=convert.key_to_wire(key), sha256=told.sha256)
        assert await refused(other.gateway.ShowUpload(request, timeout=10)) == FORBIDDEN
    spoke = [one for one in logs if one["event"] == "metal_spoke_for_another"]
    assert {(one["metal"], one["claimed"]) for one in spoke} == {(other.metal_id, own.metal_id)}
    assert len(spoke) == 3
    assert await impostors(scene, key) == [(1, "peer_forbidden")]
    # Nothing of it counted: the capture is whole, and its own metal's profile is the one read.
    own.go.set()
    result = await scene.session_until(key.session_id, "ready")
    assert result["state"] == "ready"
    answer = await scene.call("GET", f"profile-sessions/{key.session_id}/profile")
    assert {one.name for one in codec.decode(answer.data).functions} == {"hot"}


async def test_another_s_sightings_are_not_taken(scene: Scene) -> None:
    """Or a metal could draw every capture of a fleet to an address of its own."""
    own, other = scene.metals
    address, own.address = own.address, "127.0.0.1:1"
    metal_id, other.metal_id = other.metal_id, own.metal_id
    assert await refused(other.sight(sighting(executions=10**6))) == FORBIDDEN
    other.metal_id, own.address = metal_id, address
    for metal in scene.metals:
        metal.go.clear()
    asked = {"worker": "replacer", "duration_ms": 1000}
    made = await scene.call("POST", "profile-sessions", json=asked)
    await scene.session_until(made.body["result"]["id"], "capturing")


async def test_an_order_goes_to_the_metal_it_is_for(scene: Scene) -> None:
    """A metal that tells another's address as its own gets that one no orders."""
    own, other = scene.metals
    theirs, own.address = own.address, other.address
    await own.sight(sighting(executions=10**6))
    asked = {"worker": "replacer", "duration_ms": 1000}
    made = await scene.call("POST", "profile-sessions", json=asked)
    session_id = made.body["result"]["id"]
    await scene.session_until(session_id, "ready")
    own.address = theirs
    async with scene.db.read() as conn:
        tried = await captures.of_session(conn, ACCOUNT, session_id)
    # The order for ``own`` found ``other``: lost, and the session went on to where it belongs.
    assert [(one.metal_id, one.state, one.reason) for one in tried] == [
        (own.metal_id, CaptureState.LOST, Reason.AGENT_UNREACHABLE),
        (other.metal_id, CaptureState.UPLOADED, None),
    ]
    assert (own.orders.qsize(), other.orders.qsize()) == (0, 1)
