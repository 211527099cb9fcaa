"""PyPI ``cloudflare``, the published client, unmodified, against a running control plane."""

from __future__ import annotations

import asyncio
import gzip
import uuid
from typing import TYPE_CHECKING, Any

import cloudflare
import httpx
import pytest
from aiohttp import web
from cloudflare import AsyncCloudflare

from contract.messages import Actor, ActorSighting, NamespaceRef
from control_plane.store.accounts import Permission
from tests.integration.edge_scene import Scene, edge_scene
from tests.integration.planes import ACCOUNT, VERSION, WORKER, account_token, sighting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAMESPACE = "c" * 32
CLASS = NamespaceRef(namespace_id=NAMESPACE, class_name="Counter", unique_key="key")
PROFILE = f"/accounts/{ACCOUNT}/workers/workers/{WORKER}/versions/{VERSION}/profile"


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url) as made:
        yield made


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[AsyncCloudflare]:
    async with client_of(scene.base, scene.token) as made:
        yield made


def client_of(base: str, token: str) -> AsyncCloudflare:
    return AsyncCloudflare(api_token=token, base_url=f"{base}/client/v4", timeout=30)


async def test_workers_page_after_page_until_one_is_empty(
    scene: Scene, client: AsyncCloudflare
) -> None:
    names = [f"w{number:02d}" for number in range(25)]
    await scene.metal.sight(
        *(
            sighting(worker_id=f"{n + 1:032x}", worker_name=name, version_id=str(uuid.uuid4()))
            for n, name in enumerate(names)
        )
    )
    found = [
        worker async for worker in client.workers.beta.workers.list(account_id=ACCOUNT, per_page=10)
    ]
    assert [worker.name for worker in found] == ["replacer", *names]
    one = await client.workers.beta.workers.get("replacer", account_id=ACCOUNT)
    assert (one.id, one.name) == (WORKER, "replacer")
    assert one.references.durable_objects == []


async def test_versions(scene: Scene, client: AsyncCloudflare) -> None:
    newer = str(uuid.uuid4())
    await scene.metal.sight(sighting(), sighting(version_id=newer))
    versions = client.workers.beta.workers.versions
    found = [one async for one in versions.list(WORKER, account_id=ACCOUNT)]
    assert [(one.id, one.number) for one in found] == [(newer, 2), (VERSION, 1)]
    one = await versions.get(VERSION, account_id=ACCOUNT, worker_id=WORKER)
    assert one.id == VERSION
    older = [
        one.id async for one in client.workers.scripts.versions.list("replacer", account_id=ACCOUNT)
    ]
    assert older == [newer, VERSION]


async def told_by(client: AsyncCloudflare) -> list[dict[str, Any]]:
    """Since its version 5 the client takes the answer for a page of items, which it is not."""
    page = await client.workers.scripts.deployments.list("replacer", account_id=ACCOUNT)
    assert page.result is not None
    found: list[dict[str, Any]] = page.result.model_dump()["deployments"]
    assert [one async for one in page] == []
    return found


async def test_deployments_are_what_runs_until_somebody_tells(
    scene: Scene, client: AsyncCloudflare
) -> None:
    newer = str(uuid.uuid4())
    await scene.metal.sight(sighting(executions=1), sighting(version_id=newer, executions=3))
    scripts = client.workers.scripts.deployments
    (active,) = await told_by(client)
    assert active["source"] == "telemetry"
    shares = {one["version_id"]: one["percentage"] for one in active["versions"]}
    assert shares == {newer: 75, VERSION: 25}
    writes = await account_token(
        scene.db, ACCOUNT, permissions=frozenset({Permission.WORKERS_SCRIPTS_WRITE})
    )
    async with client_of(scene.base, writes) as writer:
        made = await writer.workers.scripts.deployments.create(
            "replacer",
            account_id=ACCOUNT,
            strategy="percentage",
            versions=[{"version_id": VERSION, "percentage": 100}],
            annotations={"workers_message": "back to the first"},
        )
    (told,) = await told_by(client)
    assert told["id"] == made.id
    assert told["annotations"] == {"workers/message": "back to the first"}
    with pytest.raises(cloudflare.PermissionDeniedError):
        await scripts.create(
            "replacer",
            account_id=ACCOUNT,
            strategy="percentage",
            versions=[{"version_id": VERSION, "percentage": 100}],
        )


async def test_namespaces_and_their_objects_by_cursor(
    scene: Scene, client: AsyncCloudflare
) -> None:
    actors = [f"{number:064x}" for number in range(1, 31)]
    await scene.metal.sight(
        sighting(namespaces=(CLASS,)),
        actors=tuple(
            ActorSighting(
                actor=Actor(namespace_id=NAMESPACE, actor_id=actor_id),
                account_id=ACCOUNT,
                worker_id=WORKER,
                version_id=VERSION,
                idle_ms=0,
            )
            for actor_id in actors
        ),
    )
    spaces = client.durable_objects.namespaces
    (space,) = [one async for one in spaces.list(account_id=ACCOUNT)]
    assert (space.id, space.class_, space.script) == (NAMESPACE, "Counter", "replacer")
    assert space.name == "replacer_Counter"
    found = [one.id async for one in spaces.objects.list(NAMESPACE, account_id=ACCOUNT, limit=10)]
    assert found == actors
    with pytest.raises(cloudflare.NotFoundError):
        await spaces.objects.list("d" * 32, account_id=ACCOUNT)


async def test_a_profile_by_the_generic_post(scene: Scene, client: AsyncCloudflare) -> None:
    answer = await client.post(PROFILE, cast_to=httpx.Response, body={"duration_ms": 1000})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/vnd.google.protobuf"
    assert answer.content == gzip.decompress(scene.metal.profile)


async def test_a_request_of_the_cf_cli(scene: Scene) -> None:
    """Its keys in its order, its User-Agent, 90 s of patience, one attempt."""
    await scene.metal.sight(sighting(namespaces=(CLASS,)))
    async with httpx.AsyncClient(timeout=90) as cli:
        answer = await cli.post(
            f"{scene.base}/client/v4{PROFILE}",
            headers={
                "Authorization": f"Bearer {scene.token}",
                "User-Agent": "cf-cli/0.3.0",
                "Content-Type": "application/json",
            },
            content=b'{"actor_id":null,"duration_ms":1000,"namespace_id":null,"profile_type":"cpu"}',
        )
    assert answer.status_code == 200
    assert answer.content == gzip.decompress(scene.metal.profile)


async def test_a_refusal_is_retried_twice_and_starts_nothing_thrice(
    scene: Scene, client: AsyncCloudflare
) -> None:
    """Case 22: three POSTs against a 429 take three sessions, and not one capture."""
    scene.metal.go.clear()
    holding = asyncio.create_task(scene.profile(duration_ms=50_000))
    order = await asyncio.wait_for(scene.metal.orders.get(), 10)
    await scene.session_until(order.key.session_id, "capturing")
    with pytest.raises(cloudflare.RateLimitError) as refused:
        await client.with_options(max_retries=0).post(
            PROFILE, cast_to=httpx.Response, body={"duration_ms": 1000}
        )
    assert int(refused.value.response.headers["retry-after"]) > 40
    assert scene.metal.orders.empty()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


async def test_its_retries_honour_what_the_answers_say() -> None:
    """Its own rules, tried on the answers ours give: a short Retry-After, and the word to stop."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        asked.append(kind)
        if kind == "again" and asked.count("again") < 3:
            return web.json_response({}, status=503, headers={"Retry-After": "0"})
        if kind == "stop":
            return web.json_response({}, status=409, headers={"x-should-retry": "false"})
        return web.json_response({"success": True, "errors": [], "messages": [], "result": {}})

    app = web.Application()
    app.router.add_post("/client/v4/{kind}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with client_of(f"http://127.0.0.1:{runner.addresses[0][1]}", "x") as client:
            await client.post("/again", cast_to=httpx.Response, body={})
            with pytest.raises(cloudflare.ConflictError):
                await client.post("/stop", cast_to=httpx.Response, body={})
    finally:
        await runner.cleanup()
    assert asked == ["again", "again", "again", "stop"]
