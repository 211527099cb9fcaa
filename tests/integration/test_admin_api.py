"""What operators do over their listener, and that each write is in the audit log."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.integration.admin_scene import AdminScene, admin_scene
from tests.integration.planes import ACCOUNT, OTHER_ACCOUNT, VERSION, WORKER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[AdminScene]:
    async with admin_scene(database_url, metals=2) as made:
        yield made


async def test_agents_are_listed_shown_and_drained(scene: AdminScene) -> None:
    agents = (await scene.call("GET", "agents")).result
    assert [(one["id"], one["datacenter"], one["draining"]) for one in agents] == [
        ("m1", "dc1", False),
        ("m2", "dc0", False),
    ]
    drained = (await scene.call("POST", "agents/m1/drain", json={"within_s": 60})).result
    assert drained["draining"]
    assert drained["drain_until"] is not None
    assert (await scene.call("GET", "agents/m1")).result == drained
    undrained = (await scene.call("POST", "agents/m1/undrain")).result
    assert (undrained["draining"], undrained["drain_until"]) == (False, None)
    actions = [(entry["action"], entry["target"]) for entry in await scene.audited()]
    assert actions == [("agents.undrain", "m1"), ("agents.drain", "m1")]
    assert (await scene.audited(action="agents.drain"))[0]["details"] == {"within_s": 60}


async def test_a_list_is_walked_by_its_cursor(scene: AdminScene) -> None:
    seen = []
    cursor = ""
    for _ in range(3):
        answer = await scene.call("GET", "agents", params={"limit": "1", "cursor": cursor})
        seen += [one["id"] for one in answer.result]
        cursor = answer.body["result_info"]["cursor"]
        if not cursor:
            break
    assert seen == ["m1", "m2"]


async def test_datacenters_are_drained_with_their_metals(scene: AdminScene) -> None:
    drained = (await scene.call("POST", "datacenters/dc1/drain", json={})).result
    assert (drained["draining"], drained["metals"]) == (True, 1)
    agents = (await scene.call("GET", "agents")).result
    assert [(one["draining"], one["drained_itself"]) for one in agents] == [
        (True, False),
        (False, False),
    ]
    await scene.call("POST", "datacenters/dc1/undrain")
    listed = (await scene.call("GET", "datacenters")).result
    assert [(one["name"], one["draining"]) for one in listed] == [("dc0", False), ("dc1", False)]


async def test_what_there_is_none_of_is_404_and_leaves_no_entry(scene: AdminScene) -> None:
    for method, path in [
        ("GET", "agents/m9"),
        ("POST", "agents/m9/drain"),
        ("POST", "agents/%00/drain"),
        ("POST", "agents/m9/undrain"),
        ("POST", "datacenters/none/drain"),
        ("POST", "datacenters/none/undrain"),
        ("GET", f"accounts/{'0' * 32}"),
        ("GET", f"accounts/{'0' * 32}/tokens"),
        ("DELETE", f"accounts/{ACCOUNT}/tokens/none"),
        ("DELETE", "operator-tokens/none"),
    ]:
        assert (await scene.call(method, path)).code == (404, 10404), path
    for path in (f"sessions/{uuid.uuid4()}", "sessions/x"):
        assert (await scene.call("GET", path)).code == (404, 10402)
    assert await scene.audited() == []


async def test_an_account_is_made_limited_and_switched_off(scene: AdminScene) -> None:
    body = {"name": "new", "limits": {"max_sessions_per_hour": 5}}
    made = (await scene.call("POST", "accounts", json=body)).result
    assert made["limits"]["max_sessions_per_hour"] == 5
    assert made["limits"]["max_concurrent_sessions"] is None
    path = f"accounts/{made['id']}"
    changes = {"profiling_enabled": False, "limits": {"weight": 3}}
    changed = (await scene.call("PATCH", path, json=changes)).result
    assert changed == made | {
        "profiling_enabled": False,
        "limits": made["limits"] | {"weight": 3},
    }
    assert (await scene.call("GET", path)).result == changed
    again = await scene.call("POST", "accounts", json={"id": made["id"], "name": "new"})
    assert again.code == (409, 10414)
    ids = [one["id"] for one in (await scene.call("GET", "accounts")).result]
    assert ids == sorted({ACCOUNT, OTHER_ACCOUNT, made["id"]})
    entries = await scene.audited(target=made["id"])
    assert [entry["action"] for entry in entries] == ["accounts.change", "accounts.create"]
    assert entries[0]["details"] == {"profiling_enabled": False, "weight": 3}


async def test_an_account_without_profiling_is_refused_at_once(scene: AdminScene) -> None:
    asked = {"worker": WORKER, "duration_ms": 1000}
    path = f"accounts/{ACCOUNT}"
    await scene.call("PATCH", path, json={"profiling_enabled": False})
    refused = await scene.ask("POST", "profile-sessions", json=asked)
    assert refused.code == (403, 10390)
    await scene.call("PATCH", path, json={"profiling_enabled": True})
    assert (await scene.ask("POST", "profile-sessions", json=asked)).status == 202


async def test_a_token_is_shown_once_works_and_ends_when_revoked(scene: AdminScene) -> None:
    body = {"name": "ci", "permissions": ["Workers Profiling"], "expires_in_s": 3600}
    path = f"accounts/{ACCOUNT}/tokens"
    made = (await scene.call("POST", path, json=body)).result
    text = made.pop("token")
    assert (await scene.ask("GET", "profile-sessions", token=text)).status == 200
    listed = await scene.call("GET", path)
    (found,) = [one for one in listed.result if one["id"] == made["id"]]
    assert found["permissions"] == ["Workers Profiling"]
    assert found["expires_at"] is not None
    assert text not in str(listed.body)
    assert text not in str(await scene.audited())
    revoked = (await scene.call("DELETE", f"{path}/{made['id']}")).result
    assert revoked["revoked_at"] is not None
    assert (await scene.ask("GET", "profile-sessions", token=text)).code == (401, 10000)
    again = (await scene.call("DELETE", f"{path}/{made['id']}")).result
    assert again["revoked_at"] == revoked["revoked_at"]


async def test_operators_make_and_end_tokens_of_operators(scene: AdminScene) -> None:
    made = (await scene.call("POST", "operator-tokens", json={"name": "night"})).result
    text = made.pop("token")
    assert text.startswith("iso_op_")
    assert (await scene.call("GET", "agents", token=text)).status == 200
    assert len((await scene.call("GET", "operator-tokens")).result) == 2
    await scene.call("DELETE", f"operator-tokens/{made['id']}", token=text)
    assert (await scene.call("GET", "agents", token=text)).code == (401, 10000)
    entries = await scene.audited(actor=f"operator:{made['id']}")
    assert [entry["action"] for entry in entries] == ["operator-tokens.revoke"]


async def test_sessions_are_seen_across_accounts_and_cancelled(scene: AdminScene) -> None:
    session, capture = await scene.plane.sampling()
    session_id = str(uuid.UUID(session.session_id))
    await scene.plane.execute("UPDATE sessions SET datacenters = '{}'")
    listed = (await scene.call("GET", "sessions")).result
    assert [(one["account"], one["id"]) for one in listed] == [(ACCOUNT, session.session_id)]
    assert (await scene.call("GET", "sessions", params={"account": OTHER_ACCOUNT})).result == []
    assert (await scene.call("GET", "sessions", params={"state": "ready"})).result == []
    asked = {"worker": WORKER, "duration_ms": 1000}
    session_id = (await scene.ask("POST", "profile-sessions", json=asked)).result["id"]
    shown = (await scene.call("GET", f"sessions/{session_id}")).result
    assert shown["account"] == ACCOUNT
    assert [entry["event"] for entry in shown["history"]] == ["admitted"]
    ended = (await scene.call("POST", f"sessions/{session_id}/cancel")).result
    assert (ended["state"], ended["message"]) == ("cancelled", "cancelled by an operator")
    assert [entry["action"] for entry in await scene.audited(target=session_id)] == [
        "sessions.cancel"
    ]
    assert capture.live


async def test_why_a_version_would_go_where(scene: AdminScene) -> None:
    await scene.call("POST", "agents/m1/drain")
    query = {"account": ACCOUNT, "worker": "replacer", "version": "latest"}
    told = (await scene.call("GET", "placement/explain", params=query)).result
    assert told["version"] == VERSION
    assert told["fit"] == 1
    assert told["turned_away"] == {"draining": 1}
    assert {one["metal"]: one["turned_away"] for one in told["metals"]} == {
        "m1": "draining",
        "m2": None,
    }
    await scene.call("POST", "agents/m2/drain")
    told = (await scene.call("GET", "placement/explain", params=query)).result
    assert (told["fit"], told["verdict"]) == (0, "dispatch_off")
    unknown = await scene.call("GET", "placement/explain", params=query | {"worker": "none"})
    assert unknown.code == (404, 10007)


async def test_every_wrong_field_is_named(scene: AdminScene) -> None:
    rows = [
        ("POST", "agents/m1/drain", {"within_s": -1, "x": 1}, ["/within_s", "/x"]),
        ("POST", "accounts", {"name": "", "id": "A"}, ["/id", "/name"]),
        ("PATCH", f"accounts/{ACCOUNT}", {"limits": {"weight": 0}}, ["/limits/weight"]),
        ("PATCH", f"accounts/{ACCOUNT}", {"limits": {"weight": "3"}}, ["/limits/weight"]),
        ("POST", f"accounts/{ACCOUNT}/tokens", {"permissions": []}, ["/name", "/permissions"]),
        ("POST", "operator-tokens", {"name": "a\u0000"}, None),
        ("PUT", "dispatch", {"turned_on": "no"}, ["/turned_on"]),
        ("POST", "accounts", [], [""]),
    ]
    for method, path, body, pointers in rows:
        answer = await scene.call(method, path, json=body)
        assert answer.code == (400, 10021), path
        if pointers is not None:
            assert sorted(answer.pointers) == sorted(pointers)
    for path, query, pointer in [
        ("agents", {"limit": "0"}, "query/limit"),
        ("audit", {"cursor": "x"}, "query/cursor"),
        ("audit", {"outcome": "x"}, "query/outcome"),
        ("sessions", {"state": "x"}, "query/state"),
        ("placement/explain", {"account": ACCOUNT}, "query/worker"),
    ]:
        answer = await scene.call("GET", path, params=query)
        assert answer.pointers == [pointer]
    assert await scene.audited() == []


async def test_health_tells_every_part(scene: AdminScene) -> None:
    told = (await scene.call("GET", "health")).result
    assert told["database"]["state"] == told["blobs"]["state"] == "ok"
    assert told["agents"] == {"state": "ok", "known": 2, "silent": 0, "draining": 0}
    assert told["dispatch"] == {"state": "ok", "due": 0, "oldest_due_ms": 0}


async def test_metrics_count_requests_and_sessions(scene: AdminScene) -> None:
    await scene.plane.sampling()
    await scene.ask("GET", "workers/workers")
    page = (await scene.call("GET", "/metrics", token="")).body.decode()
    assert 'isoprof_live_sessions{state="capturing"} 1.0' in page
    assert 'isoprof_agents{state="known"} 2.0' in page
    assert "isoprof_database_up 1.0" in page
    (line,) = [
        line
        for line in page.splitlines()
        if line.startswith("isoprof_http_request_seconds_count") and "workers/workers" in line
    ]
    assert line.endswith(" 1.0")
    assert 'route="/client/v4/accounts/{account_id}/workers/workers"' in line


async def test_the_audit_log_is_walked_by_its_cursor(scene: AdminScene) -> None:
    for _ in range(3):
        await scene.call("POST", "agents/m1/undrain")
    first = await scene.call("GET", "audit", params={"limit": "2"})
    cursor = first.body["result_info"]["cursor"]
    rest = await scene.call("GET", "audit", params={"limit": "2", "cursor": cursor})
    entries = [entry["entry"] for entry in first.result + rest.result]
    assert len(entries) == 3
    assert entries == sorted(entries, reverse=True)
    assert rest.body["result_info"]["cursor"] == ""
