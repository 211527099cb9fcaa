"""Every certificate of a running fleet, and the authority, replaced under a capture."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from services.certificates import add_authority, drop_authorities, make
from services.devfleet.fleet import LOOP, REPLACER
from tests.e2e.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from services.devfleet.system import Fleet
    from tests.e2e.client import Client

SOON_S = 60
pytestmark = pytest.mark.usefixtures("left_clean")


def renewals(fleet: Fleet) -> list[int]:
    """How often each process took new files in, by its log."""
    return [
        one.log.read_text(encoding="utf-8").count('"event": "certificates_renewed"')
        for one in (fleet.control_plane, *fleet.agents.values())
    ]


async def step(fleet: Fleet, change: Callable[[], object]) -> None:
    """Change files, and wait until every process uses them."""
    before = renewals(fleet)
    change()
    async with asyncio.timeout(SOON_S):
        while any(  # noqa: ASYNC110 - asked of files
            now <= was for now, was in zip(renewals(fleet), before, strict=True)
        ):
            await asyncio.sleep(0.2)


async def test_a_capture_outlives_all_certificates_it_began_with(client: Client) -> None:
    fleet = client.fleet
    directory, metals = fleet.certificates, tuple(fleet.agents)
    capture = asyncio.create_task(client.profile(REPLACER, "before", duration_ms=10_000))
    await step(fleet, lambda: add_authority(directory, now=datetime.now(UTC)))
    await step(fleet, lambda: make(directory, metals, now=datetime.now(UTC), anew=True))
    await step(fleet, lambda: drop_authorities(directory, now=datetime.now(UTC)))
    answer = await capture
    assert answer.status == 200, answer
    assert read(answer.data).samples > 0
    # And by the new ones alone: order, progress and upload are new calls.
    for worker, tag in ((REPLACER, "before"), (LOOP, "live")):
        answer = await client.profile(worker, tag, duration_ms=1000)
        assert answer.status == 200, answer
