"""Reading a profile: finding the hot function, focusing, comparing numbers with the API's own."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from playwright.async_api import expect

from services.devfleet.fleet import HARBOUR

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

    from tests.browser.screen import Screen
    from tests.e2e.client import Client

HOT = "maskSecrets"


async def test_search_finds_the_hot_function_with_its_share(
    screen: Screen, taken: dict[str, str]
) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}")
    await page.get_by_role("tree").wait_for()
    await page.keyboard.press("/")
    await page.keyboard.type("masksec")
    found = await screen.text("#found")
    match = re.match(r"1 function, .*, ([\d.]+)\s%", found)
    assert match is not None, found
    assert float(match[1]) > 50
    rows = page.locator(".functions tbody tr[data-index]")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text(HOT)
    await screen.shoot("search")
    await page.get_by_label("Search functions and files").fill("no such thing")
    await expect(page.locator("#found")).to_have_text("nothing found")


async def test_the_table_is_in_the_order_of_the_api(
    screen: Screen, taken: dict[str, str], client: Client
) -> None:
    for name in ("before", "heap"):
        place = f"profile-sessions/{taken[name]}/profile?format=top"
        answer = await client.call("GET", HARBOUR, place)
        wanted = [row["name"] for row in answer.body["result"]["rows"]]
        await screen.go(f"/sessions/{taken[name]}?view=table")
        await screen.page.locator(".functions").wait_for()
        assert await all_rows(screen.page) == wanted


async def all_rows(page: Page) -> list[str]:
    """Names in the table's order, the rows that are not drawn scrolled to."""
    found: dict[int, str] = {}
    for _ in range(200):
        drawn: list[Any] = await page.evaluate(
            """() => [...document.querySelectorAll('.functions tbody tr[data-index]')]
                .map((row) => [Number(row.dataset.index),
                    row.querySelector('.fn-name').textContent])"""
        )
        found.update(drawn)
        more = await page.evaluate(
            """() => { const box = document.querySelector('.table-scroll');
                const before = box.scrollTop; box.scrollTop += box.clientHeight / 2;
                return box.scrollTop !== before; }"""
        )
        await page.evaluate("() => new Promise((next) => requestAnimationFrame(() => next()))")
        if not more:
            break
    return [found[index] for index in sorted(found)]


async def test_sorting_is_told_to_those_who_hear_it(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}?view=table")
    total = page.get_by_role("columnheader", name="Total")
    self_ = page.get_by_role("columnheader", name="Self")
    await expect(self_).to_have_attribute("aria-sort", "descending")
    await total.get_by_role("button").click()
    await expect(total).to_have_attribute("aria-sort", "descending")
    await expect(self_).to_have_attribute("aria-sort", "none")
    await expect(page.locator(".functions tbody .fn-name").first).to_have_text("fetch")
    await total.get_by_role("button").click()
    await expect(total).to_have_attribute("aria-sort", "ascending")
    assert "sort=total" in page.url
    assert "dir=asc" in page.url


async def test_focus_shows_the_way_and_leads_back(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}?view=flame")
    flame = page.get_by_role("tree")
    box = await flame.bounding_box()
    assert box is not None
    # The second row holds what nothing called, widest first; the third what that called.
    await flame.click(position={"x": 30, "y": 50})
    crumbs = page.get_by_role("navigation", name="Focus")
    await expect(crumbs.get_by_role("button")).to_have_text(
        ["All frames", "fetch", "auditReplacer"]
    )
    await screen.shoot("focus")
    focused = page.url
    await crumbs.get_by_role("button", name="fetch").click()
    await expect(crumbs.get_by_role("button")).to_have_text(["All frames", "fetch"])
    await page.go_back()
    assert page.url == focused
    await page.reload()
    await expect(crumbs.get_by_role("button")).to_have_text(
        ["All frames", "fetch", "auditReplacer"]
    )
    await crumbs.get_by_role("button", name="All frames").click()
    await expect(crumbs.get_by_role("button")).to_have_text(["All frames"])
    assert "focus=" not in page.url


async def test_hover_tells_the_frame(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}?view=flame")
    flame = page.get_by_role("tree")
    await flame.hover(position={"x": 30, "y": 70})
    tip = page.locator(".tip")
    await expect(tip).to_contain_text(HOT)
    await expect(tip).to_contain_text("worker.js:")
    await expect(tip).to_contain_text("of the profile")
    await expect(tip).to_contain_text("Self")
    await page.mouse.move(5, 5)
    await expect(tip).to_be_hidden()


async def test_everything_looked_at_is_in_the_address(
    screen: Screen, taken: dict[str, str]
) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}")
    await page.get_by_role("button", name="Flame graph", exact=True).click()
    await page.get_by_label("Search functions and files").fill(HOT)
    await page.get_by_text("Options").click()
    await page.get_by_label("Collapse calls of itself").check()
    await page.get_by_label("garbage collection").check()
    await page.get_by_label("kind of code").check()
    await screen.shoot("options")
    await page.reload()
    await page.get_by_text("Options").click()
    await expect(page.get_by_label("Collapse calls of itself")).to_be_checked()
    await expect(page.get_by_label("garbage collection")).to_be_checked()
    await expect(page.get_by_label("kind of code")).to_be_checked()
    await expect(page.get_by_label("Search functions and files")).to_have_value(HOT)
    flame = page.get_by_role("button", name="Flame graph", exact=True)
    await expect(flame).to_have_attribute("aria-pressed", "true")


async def test_the_download_is_the_stored_bytes(
    screen: Screen, taken: dict[str, str], client: Client, tmp_path: Path
) -> None:
    page = screen.page
    session = await client.session(HARBOUR, taken["before"])
    # Whatever is focused, searched or hidden.
    await screen.go(f"/sessions/{taken['before']}?q=fetch&hide=gc,runtime&collapse=1&view=flame")
    await page.get_by_role("tree").click(position={"x": 30, "y": 30})
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="Download profile").click()
    download = await coming.value
    path = tmp_path / "got"
    await download.save_as(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == session["profile"]["sha256"]
    assert re.fullmatch(r"replacer-[0-9a-f]{8}-cpu-\w+\.pprof\.gz", download.suggested_filename)


async def test_speedscope_opens_with_the_profile(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}")
    async with page.context.expect_page() as coming:
        await page.get_by_role("button", name="Open in speedscope").click()
    other = await coming.value
    await other.wait_for_url("**/speedscope/**")
    # It draws on a canvas once it has read the profile, and says so in words when it could not.
    await other.locator("canvas").first.wait_for()
    text = await other.inner_text("body")
    assert "Something went wrong" not in text
    assert "Time Order" in text


async def test_sandwich_shows_callers_and_calls(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}?view=sandwich")
    await expect(page.get_by_role("heading", name="Choose a function")).to_be_visible()
    await page.locator(".functions").get_by_role("button", name="auditReplacer").click()
    callers = page.get_by_role("tree", name="Callers of auditReplacer")
    calls = page.get_by_role("tree", name="What auditReplacer calls")
    await expect(callers).to_be_visible()
    await expect(calls).to_be_visible()
    await screen.shoot("sandwich")
    await callers.focus()
    await page.keyboard.press("Home")
    await expect(callers.get_by_role("treeitem")).to_contain_text("auditReplacer")
    await page.keyboard.press("ArrowUp")
    await expect(callers.get_by_role("treeitem")).to_contain_text("fetch")
    await calls.focus()
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowDown")
    await expect(calls.get_by_role("treeitem")).to_contain_text(HOT)


async def test_a_walk_by_keyboard_alone(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}?view=flame")
    flame = page.get_by_role("tree")
    await flame.wait_for()
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await flame.evaluate("(one) => one === document.activeElement"):
            break
    here = flame.get_by_role("treeitem")
    await page.keyboard.press("ArrowDown")
    await expect(here).to_contain_text("all")
    await page.keyboard.press("ArrowDown")
    await expect(here).to_contain_text("fetch")
    await page.keyboard.press("ArrowRight")
    await expect(here).not_to_contain_text("fetch")
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowDown")
    await expect(here).to_contain_text("auditReplacer")
    await page.keyboard.press("Enter")
    crumbs = page.get_by_role("navigation", name="Focus")
    await expect(crumbs.get_by_role("button")).to_have_text(
        ["All frames", "fetch", "auditReplacer"]
    )
    await screen.shoot("keyboard")
    await page.keyboard.press("Escape")
    await expect(crumbs.get_by_role("button")).to_have_text(["All frames"])
    # And through the table.
    await page.goto(page.url.split("?")[0] + "?view=table")
    first = page.locator(".functions tbody").get_by_role("button").first
    await first.focus()
    await page.keyboard.press("ArrowDown")
    second = page.locator('.functions [data-index="1"]').get_by_role("button")
    await expect(second).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(second).to_have_attribute("aria-pressed", "true")


async def test_compare_shows_what_the_change_of_the_replacer_did(
    screen: Screen, taken: dict[str, str]
) -> None:
    page = screen.page
    await screen.go(f"/sessions/{taken['before']}")
    await page.get_by_role("link", name="Compare…").click()
    await page.get_by_label("After", exact=True).select_option(value=taken["after"])
    await expect(page.get_by_role("tree")).to_be_visible()
    # Before, a function walked the tree again for every part of it; after, nothing does.
    hot = page.locator(".functions tbody tr", has_text=HOT).first
    await expect(hot).to_contain_text("-")
    await expect(hot.locator(".change-less").first).to_be_visible()
    assert "gone" in await screen.text(".summary")
    await screen.shoot("compare")
    await page.get_by_role("button", name="Width before").click()
    await page.get_by_role("tree").hover(position={"x": 30, "y": 70})
    await expect(page.locator(".tip")).to_contain_text("Before")
    # Everything is in the address; swapped, what was gone is new.
    await page.reload()
    width = page.get_by_role("button", name="Width before")
    await expect(width).to_have_attribute("aria-pressed", "true")
    await page.get_by_role("button", name="Swap before and after").click()
    await expect(page.locator(".functions tbody tr", has_text=HOT).first).to_contain_text("+")


async def test_two_types_are_not_compared(screen: Screen, taken: dict[str, str]) -> None:
    page = screen.page
    await screen.go(f"/compare?base={taken['before']}&new={taken['heap']}")
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("could not be compared")
    await expect(alert).to_contain_text("HTTP 4")
    await screen.go(f"/compare?base={taken['before']}&new={taken['before']}")
    await expect(page.get_by_role("heading", name="These are one profile")).to_be_visible()
