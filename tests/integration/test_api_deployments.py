"""Deployments and activity: what may be told, and what is told of what runs."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.api import deployments
from control_plane.store.accounts import Permission
from control_plane.store.deployments import Running
from tests.integration.edge_scene import Scene, edge_scene
from tests.integration.planes import (
    ACCOUNT,
    OTHER_ACCOUNT,
    VERSION,
    account_token,
    sighting,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATH = "workers/scripts/replacer/deployments"
ALL = {"version_id": VERSION, "percentage": 100}


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        made.token = await account_token(
            made.db, ACCOUNT, permissions=frozenset({Permission.WORKERS_SCRIPTS_WRITE})
        )
        yield made


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/versions"]),
        ({"versions": []}, ["/versions"]),
        ({"versions": [ALL], "strategy": "canary"}, ["/strategy"]),
        ({"versions": [ALL], "force": True}, ["/force"]),
        ({"versions": [ALL | {"percentage": 0}]}, ["/versions/0/percentage"]),
        ({"versions": [ALL | {"percentage": 101}]}, ["/versions/0/percentage"]),
        ({"versions": [ALL | {"percentage": 60}]}, ["/versions"]),
        ({"versions": [ALL | {"version_id": "latest"}]}, ["/versions/0/version_id"]),
        (
            {"versions": [{"version_id": str(uuid.UUID(int=9)), "percentage": 100}]},
            ["/versions/0/version_id"],
        ),
        (
            {"versions": [ALL | {"percentage": 50}, ALL | {"percentage": 50}]},
            ["/versions/1/version_id"],
        ),
        (
            {"versions": [ALL], "annotations": {"workers/message": "x" * 1001}},
            ["/annotations/workers~1message"],
        ),
    ],
)
async def test_what_is_wrong_is_named(
    scene: Scene, body: dict[str, Any], pointers: list[str]
) -> None:
    answer = await scene.call("POST", PATH, json=body)
    assert answer.status == 400
    assert [one["source"]["pointer"] for one in answer.body["errors"]] == pointers
    listed = await scene.call("GET", PATH)
    assert [one["source"] for one in listed.body["result"]["deployments"]] == ["telemetry"]


async def test_the_newest_is_the_active_one(scene: Scene) -> None:
    first = await scene.call("POST", PATH, json={"versions": [ALL]})
    second = await scene.call("POST", PATH, json={"versions": [ALL]})
    listed = await scene.call("GET", PATH)
    assert [one["id"] for one in listed.body["result"]["deployments"]] == [
        second.body["result"]["id"],
        first.body["result"]["id"],
    ]


async def test_nobody_sees_or_tells_anothers(scene: Scene) -> None:
    other = await account_token(
        scene.db, OTHER_ACCOUNT, permissions=frozenset({Permission.WORKERS_SCRIPTS_WRITE})
    )
    await scene.call("POST", PATH, json={"versions": [ALL]})
    for method in ("GET", "POST"):
        sent: dict[str, Any] = {"json": {"versions": [ALL]}} if method == "POST" else {}
        refused = await scene.call(method, PATH, token=other, **sent)
        assert refused.status == 403
        own = await scene.call(method, PATH, account=OTHER_ACCOUNT, token=other, **sent)
        assert own.status == 404
        assert (await scene.call(method, PATH, token="", **sent)).status == 401


async def test_activity_by_datacenter(scene: Scene) -> None:
    await scene.metal.sight(sighting(executions=12, isolates=3, free_isolates=2))
    far = await scene.add_metal("iad1-m1")
    await far.sight(sighting(executions=5, idle_ms=3_600_000))
    answer = await scene.call("GET", f"workers/workers/replacer/versions/{VERSION[:8]}/activity")
    result = answer.body["result"]
    assert result["version_id"] == VERSION
    near, old = result["datacenters"]
    assert {name: near[name] for name in ("datacenter", "metals", "isolates", "free_isolates")} == {
        "datacenter": "ams1",
        "metals": 1,
        "isolates": 3,
        "free_isolates": 2,
    }
    assert (near["executions"], near["ran_lately"]) == (12, True)
    assert (old["datacenter"], old["ran_lately"]) == ("iad1", False)


async def test_the_older_version_shape(scene: Scene) -> None:
    listed = await scene.call("GET", "workers/scripts/replacer/versions?deployable=true")
    (item,) = listed.body["result"]["items"]
    assert (item["id"], item["number"]) == (VERSION, 1)
    assert set(item["metadata"]) >= {"created_on", "source", "author_email"}
    shown = await scene.call("GET", f"workers/scripts/replacer/versions/{VERSION}")
    assert shown.body["result"] == item
    past = await scene.call("GET", "workers/scripts/replacer/versions?page=2")
    assert past.body["result"]["items"] == []


@pytest.mark.parametrize("query", ["limit=9", "limit=10001", "limit=x", "cursor=zz"])
async def test_bad_paging_of_objects_is_named(scene: Scene, query: str) -> None:
    path = f"workers/durable_objects/namespaces/{'c' * 32}/objects?{query}"
    answer = await scene.call("GET", path)
    assert answer.status == 400
    (error,) = answer.body["errors"]
    assert error["source"]["pointer"] == f"query/{query.partition('=')[0]}"


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_what_runs_adds_up_to_a_hundred(executions: list[int]) -> None:
    running = [
        Running(version_id=str(uuid.UUID(int=n)), created_at=datetime.now(UTC), executions=count)
        for n, count in enumerate(executions)
    ]
    told = deployments.seen(running)
    assert round(sum(one.percentage for one in told.versions), 6) == 100
    assert all(0 < one.percentage <= 100 for one in told.versions)
    assert told.deployment_id == deployments.seen(running[::-1]).deployment_id
