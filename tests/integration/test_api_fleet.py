"""Sessions of several isolates as their owner sees them: parts, the whole, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from contract.faults import Fault, Reason
from pprof import codec
from pprof.model import total
from tests.integration.edge_scene import Scene, edge_scene
from tests.integration.planes import OTHER_ACCOUNT, profile_bytes, sighting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ASKED = {"worker": "replacer", "duration_ms": 1000}
METALS = ("ams1-m1", "ams1-m2", "iad1-m1")


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url, metals=0) as made:
        for number, metal_id in enumerate(METALS, 1):
            metal = await made.add_metal(metal_id)
            metal.profile = profile_bytes("hot", number)
            await metal.sight(sighting())
        yield made


async def create(scene: Scene, **more: Any) -> str:
    answer = await scene.call("POST", "profile-sessions", json=ASKED | more)
    assert answer.status == 202, answer
    return str(answer.body["result"]["id"])


async def test_three_metals_are_one_profile_and_three(scene: Scene) -> None:
    session_id = await create(scene, isolates=3)
    seen = await scene.session_until(session_id, "ready")
    assert seen["isolates"] == {
        "asked": 3,
        "taken": 3,
        "live": 0,
        "waiting": 0,
        "lost": 0,
        "reasons": {},
        "fewer": "",
    }
    assert seen["message"] == ""
    assert [one["part"] for one in seen["captures"]] == [1, 2, 3]
    assert {one["metal"] for one in seen["captures"]} == set(METALS)

    answer = await scene.call("GET", seen["links"]["profile"])
    assert answer.headers["x-isoprof-isolates"] == "3/3"
    assert answer.headers["etag"] == f'"{seen["profile"]["sha256"]}"'
    whole = codec.decode(answer.data)
    assert total(whole, 0) == 6
    parts = []
    for one in seen["captures"]:
        part = await scene.call("GET", one["links"]["profile"])
        assert (part.status, part.headers["x-isoprof-metal"]) == (200, one["metal"])
        assert f"-{one['n']}.pprof" in part.headers["content-disposition"]
        parts.append(codec.decode(part.data))
        top = await scene.call("GET", f"{one['links']['profile']}?format=top")
        assert top.body["result"]["total"] == total(parts[-1], 1)
    assert sorted(total(part, 0) for part in parts) == [1, 2, 3]
    taken = {label.text: sample.values[0] for sample in whole.samples for label in sample.labels}
    assert taken["ams1-m1"] == 1
    assert taken["iad1"] == 3
    flame = await scene.call("GET", f"{seen['links']['profile']}?format=flamegraph")
    assert flame.status == 200
    listed = await scene.call("GET", "profile-sessions")
    assert listed.body["result"][0] == seen


async def test_what_is_missing_is_said(scene: Scene) -> None:
    scene.metals[0].refusal = Fault(Reason.RUNTIME_UNSUPPORTED, "no profiler")
    session_id = await create(scene, isolates=8)
    seen = await scene.session_until(session_id, "ready")
    told = seen["isolates"]
    assert (told["asked"], told["taken"], told["lost"]) == (8, 2, 6)
    assert told["reasons"] == {"not_loaded": 5, "runtime_unsupported": 1}
    assert told["fewer"].startswith("3 of 8 isolates could be asked")
    assert (
        seen["message"] == "2 of 8 isolates were captured (not_loaded: 5, runtime_unsupported: 1)."
    )
    refused = next(one for one in seen["captures"] if one["state"] == "refused")
    assert refused["links"] == {}
    place = f"profile-sessions/{session_id}/captures"
    assert (await scene.call("GET", f"{place}/{refused['n']}/profile")).error[:2] == (404, 10403)


async def test_only_where_it_was_asked_for(scene: Scene) -> None:
    session_id = await create(scene, isolates=3, datacenters=["ams1", "ams1"])
    seen = await scene.session_until(session_id, "ready")
    assert seen["datacenters"] == ["ams1"]
    assert {one["metal"] for one in seen["captures"]} == {"ams1-m1", "ams1-m2"}
    unknown = await scene.call(
        "POST", "profile-sessions", json=ASKED | {"datacenters": ["ams1", "nowhere1", "atlantis"]}
    )
    assert unknown.status == 400
    assert unknown.pointers == ["/datacenters/1", "/datacenters/2"]
    empty = await scene.call("POST", "profile-sessions", json=ASKED | {"datacenters": []})
    assert (empty.status, empty.pointers) == (400, ["/datacenters"])


async def test_a_part_can_be_had_before_the_others(scene: Scene) -> None:
    for metal in scene.metals[1:]:
        metal.go.clear()
    session_id = await create(scene, isolates=3)
    place = f"profile-sessions/{session_id}"
    await scene.session_seen(session_id, lambda seen: seen["isolates"]["taken"] == 1)
    seen = (await scene.call("GET", place)).body["result"]
    assert seen["state"] == "capturing"
    assert (seen["isolates"]["live"], seen["profile"]) == (2, None)
    first = next(one for one in seen["captures"] if one["state"] == "uploaded")
    other = next(one for one in seen["captures"] if one["state"] != "uploaded")
    assert (await scene.call("GET", first["links"]["profile"])).status == 200
    early = await scene.call("GET", f"{place}/captures/{other['n']}/profile")
    assert early.error[:2] == (409, 10409)
    assert (await scene.call("GET", f"{place}/profile")).error[:2] == (409, 10409)
    for number in ("9", "0", "x", "1x", "-1", "1" * 30):
        none = await scene.call("GET", f"{place}/captures/{number}/profile")
        assert none.error[:2] == (404, 10403), number
    others = await scene.call(
        "GET",
        f"{place}/captures/{first['n']}/profile",
        account=OTHER_ACCOUNT,
        token=scene.other_token,
    )
    assert others.error[:2] == (404, 10402)
    # Discarded, what had come is gone too, and every isolate is told.
    assert (await scene.call("DELETE", place)).status == 200
    gone = await scene.call("GET", first["links"]["profile"])
    assert gone.error[:2] == (404, 10403)
    for metal in scene.metals[1:]:
        key, discard = await metal.stops.get()
        assert (key.session_id, discard) == (session_id, True)


async def test_stopped_it_keeps_what_all_have(scene: Scene) -> None:
    for metal in scene.metals:
        metal.go.clear()
    session_id = await create(scene, isolates=3)
    await scene.session_seen(session_id, lambda seen: seen["isolates"]["live"] == 3)
    assert (await scene.call("POST", f"profile-sessions/{session_id}/stop")).status == 200
    seen = await scene.session_until(session_id, "ready")
    assert seen["isolates"]["taken"] == 3
