"""One page of one browser, with what a test does to it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.devfleet.fleet import HARBOUR
from tests.repo.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, ConsoleMessage, Page

    from services.devfleet.system import Fleet

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SHOTS = Path(__file__).parent / "screenshots"
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
DESK, PHONE = (1280, 900), (390, 844)


class Screen:
    """A page of the dashboard.

    Args:
        complaints: what the page threw, and what its policy refused.
    """

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message: ConsoleMessage) -> None:
        # An answer that is no 2xx is told on the console too; those are for tests to look at.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        browser: Browser,
        fleet: Fleet,
        kept: str,
        *,
        size: tuple[int, int] = DESK,
        theme: Any = "light",
    ) -> AsyncIterator[Screen]:
        """Open a page with this in the tab's storage; at the end it must not have complained."""
        context = await browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            accept_downloads=True,
        )
        # Storage belongs to an origin, and is there before the page's first script.
        if kept != "null":
            await context.add_init_script(
                "if (origin !== 'null' && !sessionStorage.getItem('seen')) {"
                " sessionStorage.setItem('seen', '1');"
                f" sessionStorage.setItem('isoprof.credentials', {json.dumps(kept)}); }}"
            )
        screen = cls(await context.new_page(), f"http://{fleet.addresses.http}")
        try:
            yield screen
        finally:
            await context.close()
        assert screen.complaints == []

    async def go(self, path: str) -> None:
        """Go to a path below the account."""
        await self.page.goto(f"{self.base}/{HARBOUR.account_id}{path}")

    async def text(self, selector: str) -> str:
        """Return the text of the one element a selector finds, once it is there."""
        return await self.page.locator(selector).inner_text()

    async def answers(self, document: object) -> None:
        """Let the API answer this as the flame graph of every session."""
        await self.page.route(
            "**/profile?format=flamegraph",
            lambda route: route.fulfill(json=document),
        )

    async def broken_rules(self) -> list[str]:
        """Return what axe finds that is serious or worse, each with the elements it is about."""
        await self.page.evaluate(AXE.read_text())
        found = await self.page.evaluate("axe.run({ resultTypes: ['violations'] })")
        return [
            f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
            for one in found["violations"]
            if one["impact"] in {"serious", "critical"}
        ]

    async def shoot(self, name: str) -> None:
        """Write a picture of the page for people to look at; git ignores the folder."""
        SHOTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)
