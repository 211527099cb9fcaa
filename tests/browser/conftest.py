"""The dashboard as a person meets it: the system's Chromium, and the real fleet behind the page."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import async_playwright

from services.devfleet.fleet import HARBOUR, METRICS, REPLACER
from services.devfleet.system import Fleet, running
from tests.browser.screen import FLAGS, Screen
from tests.e2e.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of this directory share one event loop, one fleet and one browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    found = os.environ.get("ISOPROF_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium here: looked for {', '.join(NAMES)} and ISOPROF_CHROMIUM")
    async with async_playwright() as play:
        started = await play.chromium.launch(executable_path=found, args=list(FLAGS))
        yield started
        await started.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def fleet(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with running(tmp_path_factory.mktemp("fleet")) as started:
        yield started


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client(fleet: Fleet) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as http:
        yield Client(fleet, http)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def taken(client: Client) -> dict[str, str]:
    """Ids of sessions that are ready: replacer before and after, and a heap profile."""
    asked = {
        "before": (REPLACER, "before", "cpu"),
        "after": (REPLACER, "after", "cpu"),
        "heap": (METRICS, "before", "heap"),
    }
    taken = {}
    for name, (worker, tag, kind) in asked.items():
        body = {
            "worker": worker.name,
            "version": worker.version(tag).version_id,
            "profile_type": kind,
            "duration_ms": 3_000,
        }
        made = await client.call("POST", HARBOUR, "profile-sessions", body=body)
        ended = await client.until_over(HARBOUR, made.body["result"]["id"], within_s=40)
        assert ended["state"] == "ready", ended
        taken[name] = ended["id"]
    return taken


@pytest_asyncio.fixture(loop_scope="session")
async def screen(browser: Browser, fleet: Fleet) -> AsyncIterator[Screen]:
    """A signed-in page, 1280 wide, in light; what it complains about fails the test."""
    async with Screen.open(browser, fleet, kept(fleet)) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def stranger(browser: Browser, fleet: Fleet) -> AsyncIterator[Screen]:
    """A page nobody is signed in on."""
    async with Screen.open(browser, fleet, "null") as opened:
        yield opened


def kept(fleet: Fleet) -> str:
    """What the dashboard keeps in the tab's storage."""
    return json.dumps({"account": HARBOUR.account_id, "token": fleet.token(HARBOUR)})
