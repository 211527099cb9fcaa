"""One capture per isolate: two callers at once, and a caller that hangs up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest

from services.devfleet import fleet as plan
from tests.e2e.reading import read

if TYPE_CHECKING:
    from tests.e2e.client import Client

pytestmark = pytest.mark.usefixtures("left_clean")


async def test_two_at_once_on_one_isolate(client: Client) -> None:
    first, second = await asyncio.gather(
        client.profile(plan.LOOP, "live", duration_ms=2000),
        client.profile(plan.LOOP, "live", duration_ms=2000),
    )
    taken, refused = sorted((first, second), key=lambda answer: answer.status)
    assert (taken.status, refused.status) == (200, 429), (first, second)
    assert refused.code == 10398
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert read(taken.data).samples > 0


async def test_two_at_once_on_two_isolates(client: Client) -> None:
    answers = await asyncio.gather(
        client.profile(plan.CHECKOUT, "first", duration_ms=2000),
        client.profile(plan.CHECKOUT, "first", duration_ms=2000),
    )
    assert [answer.status for answer in answers] == [200, 200]
    assert len({answer.headers["x-isoprof-metal"] for answer in answers}) == 2


async def test_hang_up_frees_the_isolate(client: Client) -> None:
    worker = plan.PBKDF2
    with pytest.raises(TimeoutError):
        await client.call(
            "POST",
            worker.account,
            f"workers/workers/{worker.worker_id}/versions/{worker.version('live').version_id}/profile",
            body={"duration_ms": 30_000},
            timeout_s=2.0,
        )
    async with asyncio.timeout(5):
        while True:
            answer = await client.profile(worker, "live", duration_ms=1000)
            if answer.status != 429:
                break
            await asyncio.sleep(0.1)
    assert answer.status == 200, answer
    assert aiohttp.hdrs.RETRY_AFTER.lower() not in answer.headers
