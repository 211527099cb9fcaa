"""Sessions asked for by id: from 202 to a profile in every format, stopped, discarded, listed."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from pprof import codec
from tests.integration.edge_scene import Scene, edge_scene
from tests.integration.planes import (
    ACCOUNT,
    OTHER_ACCOUNT,
    VERSION,
    WORKER,
    profile_bytes,
    sighting,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ASKED = {"worker": "replacer", "duration_ms": 1000}


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


async def create(scene: Scene, **more: Any) -> dict[str, Any]:
    answer = await scene.call("POST", "profile-sessions", json=ASKED | more)
    assert answer.status == 202, answer
    result: dict[str, Any] = answer.body["result"]
    place = f"/client/v4/accounts/{ACCOUNT}/profile-sessions/{result['id']}"
    assert answer.headers["location"] == place
    return result


async def ready(scene: Scene, **more: Any) -> dict[str, Any]:
    return await scene.session_until((await create(scene, **more))["id"], "ready")


async def test_created_session_says_what_was_asked(scene: Scene) -> None:
    scene.metal.go.clear()
    made = await create(scene, profile_type="heap", labels={"why": "slow"})
    assert made["state"] == "queued"
    assert made["worker"] == {"id": WORKER, "name": "replacer"}
    assert made["version"] == VERSION
    assert (made["profile_type"], made["duration_ms"]) == ("heap", 1000)
    assert made["labels"] == {"why": "slow"}
    assert (made["reason"], made["ended_at"], made["profile"]) == (None, None, None)
    assert made["captures"] == []
    assert set(made["links"]) == {"self", "events", "stop"}


async def test_ready_session_shows_its_capture_and_holds(scene: Scene) -> None:
    seen = await ready(scene)
    data = scene.metal.profile
    assert seen["profile"] == {
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "samples": 811,
        "window_ms": 1000,
        "truncated": "",
    }
    (capture,) = seen["captures"]
    assert (capture["n"], capture["state"], capture["reason"]) == (1, "uploaded", None)
    assert (capture["metal"], capture["datacenter"]) == ("ams1-m1", "ams1")
    assert capture["isolate"] == "wd1/replacer"
    assert capture["lock_held_us"] == 600
    assert [hold["start_hold_us"] for hold in capture["holds"]] == [300, 70]
    assert seen["created_at"] <= seen["ended_at"]


async def test_every_link_leads_somewhere(scene: Scene) -> None:
    seen = await ready(scene)
    for name, link in seen["links"].items():
        method = "POST" if name == "stop" else "GET"
        assert (await scene.call(method, link)).status == 200, name


async def test_profile_in_every_format(scene: Scene) -> None:
    place = f"profile-sessions/{(await ready(scene))['id']}/profile"
    stored = scene.metal.profile
    tag = f'"{hashlib.sha256(stored).hexdigest()}"'

    plain = await scene.call("GET", place)
    assert plain.data == gzip.decompress(stored)
    assert plain.headers["content-type"] == "application/vnd.google.protobuf"
    disposition = plain.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="replacer-11111111-cpu-')
    assert disposition.endswith('.pprof"')

    packed = await scene.call("GET", f"{place}?format=pprof.gz")
    assert packed.data == stored
    assert packed.headers["content-type"] == "application/gzip"
    assert "content-encoding" not in packed.headers

    top = await scene.call("GET", f"{place}?format=top")
    table = top.body["result"]
    assert (table["sample_type"], table["unit"], table["total"]) == ("cpu", "nanoseconds", 10**6)
    assert table["rows"][0]["name"] == "hot"
    assert codec.decode(plain.data).functions[0].name == "hot"

    for answer in (plain, packed):
        assert answer.headers["etag"] == tag
    # A form made of the profile follows the program that makes it, too.
    assert top.headers["etag"].startswith(f"{tag[:-1]}-top-")
    same = await scene.call("GET", place, headers={"If-None-Match": f'"x", {tag}'})
    assert (same.status, same.data) == (304, b"")
    assert same.headers["etag"] == tag
    assert (await scene.call("GET", place, headers={"If-None-Match": '"x"'})).status == 200
    assert (await scene.call("GET", f"{place}?format=exe")).pointers == ["query/format"]


async def test_the_flame_graph_of_a_session(scene: Scene) -> None:
    taken = await scene.profile()
    session = taken.headers["x-isoprof-session"]
    place = f"profile-sessions/{session}/profile?format=flamegraph"
    answer = await scene.call("GET", place)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "private, no-cache"
    assert answer.headers["content-disposition"].endswith('.flamegraph.json"')
    assert "content-encoding" not in answer.headers
    assert answer.body["total"] == 1_000_000
    assert answer.body["nodes"] == {"level": [0], "fn": [0], "self": [1_000_000], "samples": [1]}
    packed = await scene.call("GET", place, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.data) == answer.data
    tag = answer.headers["etag"]
    same = await scene.call("GET", place, headers={"If-None-Match": tag})
    assert (same.status, same.data) == (304, b"")
    by_count = await scene.call("GET", f"{place}&sample_type=samples&max_nodes=1")
    assert by_count.headers["etag"] != tag
    assert by_count.body["unit"] == "count"


async def test_what_a_format_or_a_profile_does_not_know_is_refused(scene: Scene) -> None:
    taken = await scene.profile()
    place = f"profile-sessions/{taken.headers['x-isoprof-session']}/profile"
    for query, pointers in (
        ("format=flamegraph&sample_type=wall", ["query/sample_type"]),
        ("format=top&sample_type=WALL%20", ["query/sample_type"]),
        ("format=top&max_nodes=5", ["query/max_nodes"]),
        ("sample_type=cpu&max_nodes=5", ["query/max_nodes", "query/sample_type"]),
        ("format=flamegraph&max_nodes=0", ["query/max_nodes"]),
        ("format=flamegraph&focus=x", ["query/focus"]),
    ):
        answer = await scene.call("GET", f"{place}?{query}")
        assert answer.status == 400
        assert answer.pointers == pointers


async def test_profile_before_it_is_there(scene: Scene) -> None:
    scene.metal.go.clear()
    made = await create(scene)
    answer = await scene.call("GET", f"profile-sessions/{made['id']}/profile")
    assert answer.error[:2] == (409, 10409)
    assert answer.headers["retry-after"] == "1"


async def test_stop_keeps_what_was_sampled(scene: Scene) -> None:
    scene.metal.go.clear()
    made = await create(scene, duration_ms=50_000)
    await asyncio.wait_for(scene.metal.orders.get(), 10)
    for _ in range(2):
        answer = await scene.call("POST", f"profile-sessions/{made['id']}/stop")
        assert answer.status == 200
    _, discarded = await asyncio.wait_for(scene.metal.stops.get(), 10)
    assert discarded is False
    seen = await scene.session_until(made["id"], "ready")
    assert seen["profile"] is not None


async def test_delete_discards(scene: Scene) -> None:
    scene.metal.go.clear()
    made = await create(scene, duration_ms=50_000)
    await asyncio.wait_for(scene.metal.orders.get(), 10)
    for _ in range(2):
        answer = await scene.call("DELETE", f"profile-sessions/{made['id']}")
        assert answer.status == 200
        assert answer.body["result"]["state"] == "cancelled"
    _, discarded = await asyncio.wait_for(scene.metal.stops.get(), 10)
    assert discarded is True
    answer = await scene.call("GET", f"profile-sessions/{made['id']}/profile")
    assert answer.error[:2] == (404, 10403)


async def test_failed_session_says_why(scene: Scene) -> None:
    await scene.metal.server.stop(0)
    made = await create(scene)
    seen = await scene.session_until(made["id"], "failed")
    assert seen["reason"] == "agent_unreachable"
    assert seen["captures"][0]["state"] == "lost"
    # Nothing of how the network looks from inside.
    assert "127.0.0.1" not in str(seen)


async def test_list_is_newest_first_and_ends(scene: Scene) -> None:
    made = [(await ready(scene))["id"] for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        more = f"&cursor={cursor}" if cursor else ""
        answer = await scene.call("GET", f"profile-sessions?limit=2{more}")
        seen.extend(session["id"] for session in answer.body["result"])
        cursor = answer.body["result_info"]["cursor"]
        assert answer.body["result_info"]["cursors"]["after"] == cursor
        if not cursor:
            break
    assert seen == made[::-1]


async def test_list_filters(scene: Scene) -> None:
    done = (await ready(scene))["id"]
    scene.metal.go.clear()
    gone = (await create(scene))["id"]
    await scene.call("DELETE", f"profile-sessions/{gone}")
    rows = [
        ("state=ready", [done]),
        ("state=cancelled", [gone]),
        ("state=expired", []),
        ("worker=replacer", [gone, done]),
        (f"worker={WORKER}&state=ready", [done]),
    ]
    for query, expected in rows:
        answer = await scene.call("GET", f"profile-sessions?{query}")
        assert [session["id"] for session in answer.body["result"]] == expected, query
    assert (await scene.call("GET", "profile-sessions?worker=none")).error[:2] == (404, 10007)


async def test_every_filter_narrows_the_list(scene: Scene) -> None:
    other = "22222222-2222-4222-8222-222222222222"
    await scene.metal.sight(sighting(), sighting(version_id=other))
    cpu = await ready(scene, version=VERSION)
    heap = await ready(scene, version=other, profile_type="heap")
    assert (await scene.profile()).status == 200
    listed = (await scene.call("GET", "profile-sessions")).body["result"]
    waited = listed[0]["id"]
    assert [one["id"] for one in listed] == [waited, heap["id"], cpu["id"]]
    rows = [
        ("version=latest&worker=replacer", [heap["id"]]),
        (f"version={other}", [heap["id"]]),
        (f"version={VERSION[:8]}", [waited, cpu["id"]]),
        ("version=33333333", []),
        ("profile_type=heap", [heap["id"]]),
        ("origin=sync", [waited]),
        ("origin=api", [heap["id"], cpu["id"]]),
        (f"since={heap['created_at']}", [waited, heap["id"]]),
        (f"until={heap['created_at']}", [cpu["id"]]),
        (f"since={heap['created_at']}&until={listed[0]['created_at']}", [heap["id"]]),
        (f"origin=api&version={VERSION}&state=ready&profile_type=cpu", [cpu["id"]]),
    ]
    for query, expected in rows:
        answer = await scene.call("GET", f"profile-sessions?{query}")
        assert [session["id"] for session in answer.body["result"]] == expected, query
        # What a list shows of a session is what the session shows of itself.
        for session in answer.body["result"]:
            shown = await scene.call("GET", f"profile-sessions/{session['id']}")
            assert shown.body["result"] == session
    theirs = await scene.call(
        "GET", "profile-sessions", account=OTHER_ACCOUNT, token=scene.other_token
    )
    assert theirs.body["result"] == []


async def test_every_form_of_a_profile(scene: Scene) -> None:
    session = (await scene.profile()).headers["x-isoprof-session"]
    place = f"profile-sessions/{session}/profile"
    types = {
        "speedscope": "application/json",
        "cpuprofile": "application/json",
        "folded": "text/plain",
        "markdown": "text/markdown",
    }
    told = {}
    for name, content_type in types.items():
        answer = await scene.call("GET", f"{place}?format={name}")
        assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (
            200,
            content_type,
        )
        told[name] = answer
    assert told["folded"].data == b"hot (a.js:1) 1000000\n"
    assert told["speedscope"].body["profiles"][1]["endValue"] == 1_000_000
    assert told["cpuprofile"].body["timeDeltas"] == [0, 1000, 0]
    assert told["markdown"].data.startswith(b"# replacer 11111111 cpu, ")
    assert b"`hot` | `a.js:2` |" in told["markdown"].data


async def test_two_sessions_compared(scene: Scene) -> None:
    base = (await scene.profile()).headers["x-isoprof-session"]
    scene.metal.profile = profile_bytes("cold")
    new = (await scene.profile()).headers["x-isoprof-session"]
    place = f"profile-sessions/{new}/diff/{base}"
    table = (await scene.call("GET", place)).body["result"]
    assert [(row["name"], row["status"]) for row in table["rows"]] == [
        ("cold", "new"),
        ("hot", "gone"),
    ]
    drawn = await scene.call("GET", f"{place}?format=flamegraph&normalize=window")
    assert sorted(drawn.body["nodes"]["base_self"]) == [0, 1_000_000]
    again = await scene.call(
        "GET",
        f"{place}?format=flamegraph&normalize=window",
        headers={"If-None-Match": drawn.headers["etag"]},
    )
    assert again.status == 304
    written = await scene.call("GET", f"{place}?format=markdown")
    assert b"1 gone, 1 new" in written.data
    assert (await scene.call("GET", f"{place}?normalize=day")).pointers == ["query/normalize"]
    assert (await scene.call("GET", f"{place}?max_nodes=9")).pointers == ["query/max_nodes"]


async def test_a_comparison_tells_nothing_of_others(scene: Scene) -> None:
    mine = (await scene.profile()).headers["x-isoprof-session"]
    await scene.metal.sight(
        sighting(), sighting(account_id=OTHER_ACCOUNT, worker_id="2" * 32, worker_name="other")
    )
    taken = await scene.call(
        "POST",
        f"workers/workers/other/versions/{VERSION}/profile",
        json={"duration_ms": 1000},
        account=OTHER_ACCOUNT,
        token=scene.other_token,
    )
    theirs = taken.headers["x-isoprof-session"]
    never = "11111111-2222-4333-8444-555555555555"
    for other in (theirs, never, "not-an-id"):
        for place in (f"{mine}/diff/{other}", f"{other}/diff/{mine}"):
            answer = await scene.call("GET", f"profile-sessions/{place}")
            assert answer.error == (404, 10402, "This account has no such profile session.")
