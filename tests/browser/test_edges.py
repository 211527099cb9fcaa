"""Profiles that are strange: each has a right picture, and none freezes or breaks the page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.browser.documents import HOSTILE, document, hostile

if TYPE_CHECKING:
    from tests.browser.screen import Screen

MS = 1_000_000


async def test_hostile_names_are_text(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    await screen.answers(hostile())
    await screen.go(f"/sessions/{taken['before']}")
    names = page.locator(".functions tbody .fn-name")
    await expect(names).to_have_count(len(HOSTILE))
    shown = await names.all_text_contents()
    assert "<img src=x onerror=alert(1)>" in shown
    assert "</script><script>alert(2)</script>" in shown
    assert "😀👩‍👩‍👧‍👦🇳🇱" in shown
    assert all(len(name) <= 401 for name in shown)
    # What would turn the direction of the text around it, or break its line, is made visible.
    assert not any(set(name) & set("\u202e\u202d\n\0") for name in shown)
    assert await page.locator("img[src=x]").count() == 0
    for x in range(40, 700, 60):
        await page.get_by_role("tree").hover(position={"x": x, "y": 30})
    for index in range(len(HOSTILE)):
        await page.locator(f'.functions [data-index="{index}"] button').click()
    await page.get_by_label("Search functions and files").fill("<img")
    await expect(names).to_have_count(1)
    await screen.shoot("hostile")
    assert dialogs == []
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_one_sample(screen: Screen, taken: dict[str, str]) -> None:
    await screen.answers(document(["only"], [(0, 0, MS)]))
    await screen.go(f"/sessions/{taken['before']}")
    row = screen.page.locator(".functions tbody tr[data-index]")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("100\u202f%")
    await screen.shoot("one-sample")


async def test_no_sample_says_what_to_do(screen: Screen, taken: dict[str, str]) -> None:
    await screen.answers(document([], []))
    await screen.go(f"/sessions/{taken['before']}")
    nothing = screen.page.get_by_role("heading", name="Nothing was sampled in this window")
    await expect(nothing).to_be_visible()
    await expect(screen.page.get_by_text("Send requests meanwhile")).to_be_visible()
    await screen.shoot("no-sample")


async def test_two_thousand_calls_deep(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    names = [f"level{index}" for index in range(2_000)]
    nodes = [(index, index, MS if index == 1_999 else 0) for index in range(2_000)]
    await screen.answers(document(names, nodes))
    await screen.go(f"/sessions/{taken['before']}?view=flame")
    flame = page.get_by_role("tree")
    await flame.focus()
    await page.keyboard.press("End")
    await page.keyboard.press("End")
    await expect(flame.get_by_role("treeitem")).to_contain_text("level1999")
    assert await flame.evaluate("(box) => box.scrollTop") > 39_000
    await page.keyboard.press("Enter")
    crumbs = page.get_by_role("navigation", name="Focus")
    await expect(crumbs).to_contain_text("1992 more")
    await screen.shoot("deep")


async def test_values_below_zero_and_of_zero(screen: Screen, taken: dict[str, str]) -> None:
    nodes = [(0, 0, 0), (1, 1, -4 * MS), (1, 2, 10 * MS), (1, 3, 0)]
    await screen.answers(document(["root", "lost", "kept", "none"], nodes))
    await screen.go(f"/sessions/{taken['before']}")
    page = screen.page
    await expect(page.get_by_text("Values below zero")).to_be_visible()
    await expect(page.locator(".functions tbody tr", has_text="lost")).to_contain_text("-4.00")
    await screen.shoot("negative")


async def test_a_million_nodes_and_a_stated_cut(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    count = 1_000_000
    names = [f"f{index}" for index in range(1_000)]
    cut = {"nodes": 123_456, "value": 1, "samples": 1, "max_nodes": count}
    whole = document(names, [], cut=cut)
    whole["nodes"] = {
        "level": [index % 50 for index in range(count)],
        "fn": [index % 1_000 for index in range(count)],
        "self": [1_000] * count,
        "samples": [1] * count,
    }
    whole["total"] = 1_000 * count
    body = json.dumps(whole, separators=(",", ":"))
    await page.route(
        "**/profile?format=flamegraph",
        lambda route: route.fulfill(body=body, content_type="application/json"),
    )
    await screen.go(f"/sessions/{taken['before']}")
    await expect(page.locator(".functions tbody tr[data-index]").first).to_be_visible(
        timeout=60_000
    )
    await expect(page.get_by_text("123,456 smallest calls")).to_be_visible()
    flame = page.get_by_role("tree")
    await flame.hover(position={"x": 100, "y": 50})
    await expect(page.locator(".tip")).to_contain_text("of the profile")
    await flame.click(position={"x": 100, "y": 50})
    await expect(page.get_by_role("navigation", name="Focus")).to_contain_text("of the profile")
    await screen.shoot("million")


async def test_what_is_no_profile_is_said(screen: Screen, taken: dict[str, str]) -> None:
    broken = document(["a"], [(0, 0, 1)])
    broken["nodes"]["level"] = [3]
    await screen.answers(broken)
    await screen.go(f"/sessions/{taken['before']}")
    alert = screen.page.get_by_role("alert")
    await expect(alert).to_contain_text("cannot be read")
    await expect(alert).to_contain_text("level 3")
