"""Profiles that came out wrong elsewhere, with the value that is right."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from services.devfleet import fleet as plan
from tests.e2e.agent_log import profiled_before
from tests.e2e.reading import Reading, read

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from services.devfleet.fleet import Worker
    from services.devfleet.system import Fleet
    from tests.e2e.client import Client

MS = 1_000_000


async def _cpu(client: Client, worker: Worker, duration_ms: int) -> Reading:
    answer = await client.profile(worker, "live", duration_ms=duration_ms)
    assert answer.status == 200, answer
    return read(answer.data)


class Patience:
    """A Worker that takes a minute to answer, and somebody who waits for it."""

    def __init__(self, fleet: Fleet, client: Client) -> None:
        self._http = client.http
        self._url = (
            f"http://{fleet.addresses.metals['ams1-m2'].processes['wd2'].workers['patient-live']}"
        )
        self.long = asyncio.create_task(self.ask("/?ms=60000"))

    async def ask(self, path: str) -> tuple[int, str]:
        patience = aiohttp.ClientTimeout(total=90)
        async with self._http.get(self._url + path, timeout=patience) as answer:
            return answer.status, await answer.text()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def patience(fleet: Fleet, client: Client) -> AsyncIterator[Patience]:
    """The minute begins with the first test that needs it; others may use it meanwhile."""
    patience = Patience(fleet, client)
    yield patience
    patience.long.cancel()


async def test_heap_capture_ends_on_time_while_a_long_request_is_in_flight(
    client: Client, patience: Patience
) -> None:
    heap = await client.profile(plan.PATIENT, "live", duration_ms=5000, profile_type="heap")
    assert heap.status == 200, heap
    assert not patience.long.done()
    assert await patience.ask("/") == (200, "waited 0")


@pytest.mark.slow
async def test_quiet_worker_is_not_billed_for_idle_time(client: Client) -> None:
    profile = await _cpu(client, plan.QUIET, 10_000)
    assert 5 * MS <= profile.total <= 40 * MS
    assert max(cost.self_value for cost in profile.functions.values()) <= 25 * MS
    assert int(profile.comments["idle_ns"]) > 9_000 * MS


@pytest.mark.slow
async def test_native_key_derivation_under_load(fleet: Fleet, client: Client) -> None:
    stream = fleet.traffic.of("pbkdf2", "live")[0]
    began = time.monotonic()
    with fleet.traffic.at_rate("pbkdf2", "live", 25):
        profile = await _cpu(client, plan.PBKDF2, 5000)
    # The time is native work of the derivation: a frame that says so, or the line that asks for it.
    shares = {function.name: cost.self_value for function, cost in profile.functions.items()}
    native = sum(
        value
        for name, value in shares.items()
        if name in ("derive", "deriveBits", "(program)", "(native)")
    )
    assert native > 0.7 * profile.total
    assert shares.get("(program)", 0) < 0.3 * profile.total
    assert shares.get("hex", 0) < 0.1 * profile.total
    during = [answer for answer in stream.recent if answer.at_s >= began]
    assert len(during) > 25
    assert {answer.status for answer in during} == {200}


@pytest.mark.slow
async def test_pure_loop_under_load(fleet: Fleet, client: Client) -> None:
    with fleet.traffic.at_rate("loop", "live", 30):
        await profiled_before(fleet, "loop-live")
        profile = await _cpu(client, plan.LOOP, 5000)
    shares = {one.name: cost.self_value / profile.total for one, cost in profile.functions.items()}
    assert shares.get("collatz", 0) > 0.9, shares


async def test_arrow_functions_kept_in_constants_have_names(fleet: Fleet, client: Client) -> None:
    with fleet.traffic.at_rate("arrows", "live", 30):
        await profiled_before(fleet, "arrows-live")
        profile = await _cpu(client, plan.ARROWS, 3000)
    assert {"appendDigits", "appendWords"} <= {function.name for function in profile.functions}


@pytest.mark.slow
async def test_long_request_that_was_profiled_ends_well(patience: Patience) -> None:
    assert await patience.long == (200, "waited 600")
    assert await patience.ask("/") == (200, "waited 0")
