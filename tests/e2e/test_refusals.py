"""What is refused, through the whole system, with the code the contract gives it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from services.devfleet import fleet as plan

if TYPE_CHECKING:
    from services.devfleet.system import Fleet
    from tests.e2e.client import Client


async def test_loaded_but_never_run_is_no_recent_execution(client: Client) -> None:
    answer = await client.profile(plan.CHECKOUT, "second", duration_ms=1000)
    assert (answer.status, answer.code) == (404, 10393)


@pytest.mark.slow
async def test_traffic_that_ended_is_no_recent_execution(client: Client) -> None:
    # It had a few requests when the fleet started; after a minute they are no longer recent.
    answer = await client.profile(plan.CHECKOUT, "retired", duration_ms=1000)
    for _ in range(70):
        if answer.status != 200:
            break
        answer = await client.profile(plan.CHECKOUT, "retired", duration_ms=1000)
    assert (answer.status, answer.code) == (404, 10393)


async def test_prefix_of_a_version_stands_for_it(client: Client) -> None:
    answer = await client.call(
        "POST",
        plan.HARBOUR,
        f"workers/workers/{plan.CHECKOUT.worker_id}/versions/"
        f"{plan.CHECKOUT.version('second').version_id[:8]}/profile",
        body={"duration_ms": 1000},
    )
    assert (answer.status, answer.code) == (404, 10393)


async def test_unknown_version_and_worker_are_told_apart(client: Client) -> None:
    base = f"workers/workers/{plan.CHECKOUT.worker_id}/versions"
    unknown = await client.call(
        "POST", plan.HARBOUR, f"{base}/{uuid.uuid4()}/profile", body={"duration_ms": 1000}
    )
    assert (unknown.status, unknown.code) == (404, 10391)
    nobody = await client.call(
        "POST",
        plan.HARBOUR,
        f"workers/workers/{'0' * 32}/versions/latest/profile",
        body={"duration_ms": 1000},
    )
    assert (nobody.status, nobody.code) == (404, 10007)


async def test_other_accounts_token_and_worker(fleet: Fleet, client: Client) -> None:
    foreign = await client.profile(
        plan.REPLACER, "before", duration_ms=1000, token=fleet.token(plan.ORCHARD)
    )
    assert (foreign.status, foreign.code) == (403, 9109)
    # Its own token, somebody else's Worker: as if it did not exist.
    stranger = await client.profile(plan.REPLACER, "before", duration_ms=1000, account=plan.ORCHARD)
    assert (stranger.status, stranger.code) == (404, 10007)


async def test_bad_and_missing_tokens(fleet: Fleet, client: Client) -> None:
    bad = await client.profile(plan.REPLACER, "before", duration_ms=1000, token="no-such-token")
    assert (bad.status, bad.code) == (401, 10000)
    async with client.http.get(
        f"{fleet.api_url}/accounts/{plan.HARBOUR.account_id}/workers/workers"
    ) as answer:
        assert answer.status == 401
        assert set(await answer.json()) == {"success", "errors", "messages", "result"}


async def test_isolate_shared_between_accounts_is_never_profiled(client: Client) -> None:
    answer = await client.profile(plan.COMMONS, "live", duration_ms=1000)
    assert (answer.status, answer.code) == (404, 10394)
    assert plan.ORCHARD.account_id not in answer.data.decode()


async def test_every_wrong_field_is_named(client: Client) -> None:
    answer = await client.call(
        "POST",
        plan.HARBOUR,
        f"workers/workers/{plan.REPLACER.worker_id}/versions/latest/profile",
        body={"duration_ms": 50001, "profile_type": "memory", "actor_id": "zz", "extra": 1},
    )
    assert answer.status == 400
    errors = answer.body["errors"]
    assert {error["code"] for error in errors} == {10021}
    pointers = {error["source"]["pointer"] for error in errors}
    assert {"/duration_ms", "/profile_type", "/actor_id", "/extra"} <= pointers


async def test_second_account_profiles_its_own(client: Client) -> None:
    answer = await client.profile(plan.LEDGER, "live", duration_ms=1000)
    assert answer.status == 200, answer
