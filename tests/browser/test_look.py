"""Every view at both widths, in both themes: readable by axe's rules, within the edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from tests.browser.conftest import kept
from tests.browser.screen import DESK, PHONE, Screen

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from services.devfleet.system import Fleet

WIDTHS = {"desk": DESK, "phone": PHONE}


def views(taken: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Name of each view, its path, and what is there once it is drawn."""
    before = f"/sessions/{taken['before']}"
    return {
        "workers": ("/workers", ".list"),
        "worker": ("/workers/replacer", ".list"),
        "capture": ("/capture?worker=counter&namespace=", ".capture"),
        "sessions": ("/sessions", ".list"),
        "profile": (before, ".flame-base"),
        "profile-search": (f"{before}?q=mask", ".flame-base"),
        "profile-table": (f"{before}?view=table", ".functions"),
        "profile-sandwich": (f"{before}?view=sandwich", ".sandwich-none"),
        "profile-heap": (f"/sessions/{taken['heap']}", ".flame-base"),
        "compare-none": ("/compare", ".state"),
        "compare": (f"/compare?base={taken['before']}&new={taken['after']}", ".flame-base"),
        "timeline": ("/timeline", ".state"),
        "memory": ("/memory", ".state"),
    }


@pytest.mark.parametrize("width", list(WIDTHS))
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_view_is_readable_and_fits(
    browser: Browser,
    fleet: Fleet,
    taken: dict[str, str],
    theme: Literal["light", "dark"],
    width: str,
) -> None:
    broken: dict[str, list[str]] = {}
    size = WIDTHS[width]
    async with Screen.open(browser, fleet, kept(fleet), size=size, theme=theme) as screen:
        for name, (path, there) in views(taken).items():
            await screen.go(path)
            await screen.page.locator(there).first.wait_for()
            await screen.shoot(f"{name}-{width}-{theme}")
            found = await screen.broken_rules()
            reach = await screen.page.evaluate("document.documentElement.scrollWidth")
            if reach > size[0]:
                found.append(f"reaches to {reach} px")
            if found:
                broken[name] = found
    assert broken == {}
