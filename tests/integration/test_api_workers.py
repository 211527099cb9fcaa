"""Workers and versions as published clients read them, and paging that ends."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.integration.edge_scene import Scene, edge_scene
from tests.integration.planes import VERSION, WORKER, sighting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


async def test_worker_by_id_and_by_name(scene: Scene) -> None:
    by_id = await scene.call("GET", f"workers/workers/{WORKER}")
    by_name = await scene.call("GET", "workers/workers/replacer")
    assert by_id.body == by_name.body
    worker = by_id.body["result"]
    assert (worker["id"], worker["name"]) == (WORKER, "replacer")
    assert datetime.fromisoformat(worker["created_on"]).tzinfo is not None
    assert set(worker) == {
        "id",
        "name",
        "created_on",
        "updated_on",
        "logpush",
        "tags",
        "tail_consumers",
        "observability",
        "subdomain",
        "references",
    }
    assert set(worker["references"]) == {
        "dispatch_namespace_outbounds",
        "domains",
        "durable_objects",
        "queues",
        "workers",
    }


async def test_version_by_uuid_prefix_and_latest(scene: Scene) -> None:
    shown = [
        (await scene.call("GET", f"workers/workers/replacer/versions/{name}")).body["result"]
        for name in (VERSION, VERSION[:8], VERSION.upper(), "latest")
    ]
    assert all(one == shown[0] for one in shown)
    assert (shown[0]["id"], shown[0]["number"], shown[0]["urls"]) == (VERSION, 1, [])
    assert set(shown[0]) == {"id", "number", "created_on", "urls"}


async def test_pages_until_one_is_empty(scene: Scene) -> None:
    await scene.metal.sight(
        *(
            sighting(worker_id=f"{n:032x}", worker_name=f"w{n}", version_id=str(uuid.uuid4()))
            for n in range(1, 5)
        )
    )
    names: list[str] = []
    for page in range(1, 10):
        answer = await scene.call("GET", f"workers/workers?page={page}&per_page=2&order=asc")
        assert answer.status == 200
        names.extend(worker["name"] for worker in answer.body["result"])
        assert answer.body["result_info"] == {
            "page": page,
            "per_page": 2,
            "count": len(answer.body["result"]),
            "total_count": 5,
            "total_pages": 3,
        }
        if not answer.body["result"]:
            break
    assert page == 4
    assert names == ["replacer", "w1", "w2", "w3", "w4"]


async def test_versions_newest_first(scene: Scene) -> None:
    newer = str(uuid.uuid4())
    await scene.metal.sight(sighting(), sighting(version_id=newer))
    answer = await scene.call("GET", "workers/workers/replacer/versions")
    assert [(one["id"], one["number"]) for one in answer.body["result"]] == [
        (newer, 2),
        (VERSION, 1),
    ]
    empty = await scene.call("GET", "workers/workers/replacer/versions?page=2")
    assert empty.body["result"] == []
