"""Waits until the control plane has heard of everything that runs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import aiohttp

from control_plane.store import sightings
from control_plane.store.database import Database
from services.devfleet.faults import NotSighted, TokenRefused

if TYPE_CHECKING:
    from services.devfleet.fleet import Account, Place, Plan

POLL_S = 0.1
UNAUTHORIZED = 401


async def _listed(http: aiohttp.ClientSession, url: str, token: str) -> set[str]:
    async with http.get(url, headers={"Authorization": f"Bearer {token}"}) as answer:
        if answer.status == UNAUTHORIZED:
            raise TokenRefused("the control plane does not know a kept token")
        body = await answer.json()
    return {worker["name"] for worker in body["result"] or ()}


async def _all_listed(
    http: aiohttp.ClientSession, api_url: str, account: Account, wanted: set[str], token: str
) -> None:
    url = f"{api_url}/accounts/{account.account_id}/workers/workers?per_page=100"
    while not wanted <= await _listed(http, url, token):  # noqa: ASYNC110 - told elsewhere
        await asyncio.sleep(POLL_S)


async def _ran(db: Database, place: Place, metal_id: str, within_ms: float) -> bool:
    worker = place.worker
    async with db.read() as conn:
        found = await sightings.candidates(
            conn,
            worker.account.account_id,
            worker.worker_id,
            place.version.version_id,
            only_metal=metal_id,
        )
    return any(one.idle_ms is not None and one.idle_ms <= within_ms for one in found)


def _with_traffic(plan: Plan) -> list[tuple[str, Place]]:
    return [
        (metal.metal_id, place)
        for metal in plan.metals
        for process in metal.processes
        for place in process.places
        if place.version.rate > 0 and place.version.requests is None
    ]


async def all_sighted(
    api_url: str,
    database_url: str,
    plan: Plan,
    tokens: dict[str, str],
    *,
    since_s: float,
    within_s: float,
) -> None:
    """Return when every Worker with traffic is listed to its account and known to run everywhere.

    A list shows what is loaded. That it ran, and where, is in the sightings, which no route shows;
    what an earlier start left there does not count.

    Args:
        api_url: base of the REST contract.
        database_url: where the sightings are.
        plan: what stands where.
        tokens: account id -> token.
        since_s: when traffic began, on the monotonic clock.
        within_s: how long to wait.

    Raises:
        TokenRefused: a token is not, or no longer, known.
        NotSighted: some versions were not heard of in time.
    """
    missing = _with_traffic(plan)
    try:
        async with (
            asyncio.timeout(within_s),
            aiohttp.ClientSession() as http,
            Database.open(database_url, pool_size=1) as db,
        ):
            for account in plan.accounts:
                workers = {place.worker for _metal, place in missing}
                wanted = {worker.name for worker in workers if worker.account == account}
                await _all_listed(http, api_url, account, wanted, tokens[account.account_id])
            while missing:
                metal_id, place = missing[0]
                if await _ran(db, place, metal_id, (time.monotonic() - since_s) * 1000):
                    missing.pop(0)
                else:
                    await asyncio.sleep(POLL_S)
    except TimeoutError:
        names = ", ".join(f"{place.service} on {metal_id}" for metal_id, place in missing)
        raise NotSighted(f"not heard of after {within_s:.0f} s: {names}") from None
