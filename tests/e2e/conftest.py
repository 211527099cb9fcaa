"""The whole system, started once for all end-to-end tests: nothing in it is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from services.devfleet.system import Fleet, running
from tests.e2e.agent_log import warm_ups_over
from tests.e2e.bare import running_profilers
from tests.e2e.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups, or every worker gets a fleet
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of this directory share one process and the event loop their fleet lives in."""
    for item in items:
        if HERE in item.path.parents and not item.path.name.startswith("test_inspector_"):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.xdist_group("e2e"))
    # Last whatever needs the shared fleet: it stays, and is a load on all that comes after it.
    items.sort(key=_needs_the_fleet)


def _needs_the_fleet(item: pytest.Item) -> bool:
    return HERE in item.path.parents and "fleet" in getattr(item, "fixturenames", ())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with running(tmp_path_factory.mktemp("fleet")) as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client(fleet: Fleet, http: aiohttp.ClientSession) -> Client:
    return Client(fleet, http)


@pytest_asyncio.fixture(loop_scope="session")
async def left_clean(fleet: Fleet) -> AsyncIterator[None]:
    """After the test, no profiler runs in any isolate (I3)."""
    yield
    await warm_ups_over(fleet)
    assert await running_profilers(fleet) == []
