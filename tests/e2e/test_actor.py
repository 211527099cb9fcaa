"""A Durable Object is asked for by namespace and id, or by name; its isolate is profiled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from contract.ids import actor_id_of
from services.devfleet import fleet as plan
from tests.e2e.reading import read

if TYPE_CHECKING:
    import aiohttp

    from services.devfleet.system import Fleet
    from tests.e2e.client import Client

NAMESPACE = plan.COUNTER.namespaces[0]


def _id_of(name: str) -> str:
    return actor_id_of(NAMESPACE.unique_key, name)


async def _named_by_workerd(fleet: Fleet, http: aiohttp.ClientSession, name: str) -> str:
    """Ask the object of this name itself what its id is."""
    place = plan.Place(worker=plan.COUNTER, version=plan.COUNTER.version("live"))
    (address,) = (
        process.workers[place.service]
        for metal in fleet.addresses.metals.values()
        for process in metal.processes.values()
        if place.service in process.workers
    )
    async with http.get(f"http://{address}/{name}") as answer:
        return str((await answer.json())["id"])


async def _asked_by_name(client: Client, name: str) -> str:
    answer = await client.call(
        "POST",
        plan.HARBOUR,
        "profile-sessions",
        body={
            "worker": "counter",
            "version": plan.COUNTER.version("live").version_id,
            "duration_ms": 2000,
            "namespace_id": NAMESPACE.namespace_id,
            "actor_name": name,
        },
    )
    assert answer.status == 202, answer
    return str(answer.body["result"]["id"])


async def test_active_actor(client: Client) -> None:
    answer = await client.profile(
        plan.COUNTER,
        "live",
        duration_ms=3000,
        namespace_id=NAMESPACE.namespace_id,
        actor_id=_id_of("beta"),
    )
    assert answer.status == 200, answer
    assert answer.headers["x-isoprof-metal"] == "ams1-m2"
    profile = read(answer.data)
    assert {function.name for function in profile.top(3)} & {"increment", "mix"}


async def test_inactive_actor_and_wrong_namespace(client: Client) -> None:
    nobody = await client.profile(
        plan.COUNTER,
        "live",
        duration_ms=1000,
        namespace_id=NAMESPACE.namespace_id,
        actor_id=_id_of("nobody"),
    )
    assert (nobody.status, nobody.code) == (404, 10400)
    foreign = await client.profile(
        plan.COUNTER, "live", duration_ms=1000, namespace_id="0" * 32, actor_id=_id_of("beta")
    )
    assert (foreign.status, foreign.code) == (404, 10400)


@pytest.mark.parametrize("name", ["alpha", "beta"])
async def test_an_id_of_a_name_is_the_one_workerd_gives(
    fleet: Fleet, http: aiohttp.ClientSession, name: str
) -> None:
    assert await _named_by_workerd(fleet, http, name) == _id_of(name)


async def test_captured_by_name_and_followed_by_its_events(
    fleet: Fleet, client: Client, http: aiohttp.ClientSession
) -> None:
    session_id = await _asked_by_name(client, "gamma")
    told: list[tuple[str, dict[str, Any]]] = []
    kind = ""
    root = f"{fleet.api_url}/accounts/{plan.HARBOUR.account_id}/profile-sessions/{session_id}"
    headers = {"Authorization": f"Bearer {fleet.token(plan.HARBOUR)}"}
    async with http.get(f"{root}/events", headers=headers) as answer:
        assert answer.status == 200
        async for line in answer.content:
            name, _, value = line.decode().strip().partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                told.append((kind, json.loads(value)))
    states = [data["state"] for kind, data in told if kind == "session"]
    assert (states[0], states[-1]) == ("queued", "ready")
    assert sorted(states, key=["queued", "capturing", "finishing", "ready"].index) == states
    assert any(kind == "progress" and 0 < data["sampled_ms"] <= 2000 for kind, data in told)
    session = await client.session(plan.HARBOUR, session_id)
    assert session["actor_name"] == "gamma"
    assert session["actor_id"] == await _named_by_workerd(fleet, http, "gamma")
    profile = await client.call("GET", plan.HARBOUR, f"profile-sessions/{session_id}/profile")
    assert {function.name for function in read(profile.data).top(3)} & {"increment", "mix"}


async def test_a_wrong_name_is_not_active(client: Client) -> None:
    session_id = await _asked_by_name(client, "delta")
    session = await client.until_over(plan.HARBOUR, session_id, within_s=20)
    assert (session["state"], session["reason"]) == ("failed", "actor_inactive")
    assert "is not active" in session["message"]
    waited = await client.profile(
        plan.COUNTER,
        "live",
        duration_ms=1000,
        namespace_id=NAMESPACE.namespace_id,
        actor_id=_id_of("delta"),
    )
    assert (waited.status, waited.code) == (404, 10400)
