"""Signing in, asking for profiles, and what the page says when one cannot be had."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from services.devfleet.fleet import CHECKOUT, HARBOUR, LOOP, METRICS, REPLACER

if TYPE_CHECKING:
    from services.devfleet.system import Fleet
    from tests.browser.screen import Screen
    from tests.e2e.client import Client

LONG_MS = 30_000


async def test_a_person_signs_in_and_stays_as_chosen(stranger: Screen, fleet: Fleet) -> None:
    page = stranger.page
    await page.goto(stranger.base)
    await page.get_by_label("Account id").fill(HARBOUR.account_id)
    await page.get_by_label("API token").fill("isop_" + "x" * 43)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("Authentication error")
    await stranger.shoot("sign-in-refused")
    await page.get_by_label("API token").fill(fleet.token(HARBOUR))
    await page.get_by_label("Stay signed in").uncheck()
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Workers")).to_be_visible()
    # In memory alone: nothing of the token is left anywhere a reload could find it.
    assert fleet.token(HARBOUR) not in await page.evaluate(
        "JSON.stringify(sessionStorage) + JSON.stringify(localStorage) + document.cookie"
    )
    await page.reload()
    await page.get_by_label("API token").fill(fleet.token(HARBOUR))
    # The address named the account.
    assert await page.get_by_label("Account id").input_value() == HARBOUR.account_id
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("link", name="replacer", exact=True)).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("link", name="replacer", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert fleet.token(HARBOUR) not in await page.evaluate("JSON.stringify(sessionStorage)")


async def test_capture_from_worker_to_flame_graph(screen: Screen) -> None:
    page = screen.page
    before = REPLACER.version("before").version_id
    await screen.go("/workers")
    await page.get_by_role("link", name="replacer", exact=True).click()
    await page.get_by_role("link", name=f"Capture a profile of version {before[:8]}").click()
    await page.get_by_role("button", name="5 s", exact=True).click()
    await page.get_by_label("Duration, in milliseconds").fill("2000")
    await page.get_by_role("button", name="Capture profile").click()
    await expect(page.get_by_role("heading", name="Capturing…")).to_be_visible()
    await screen.shoot("live")
    await expect(page.get_by_role("button", name="Download profile")).to_be_visible(timeout=30_000)
    await expect(page.get_by_role("tree")).to_be_visible()
    await expect(page.locator(".functions tbody tr").first).to_contain_text("maskSecrets")


async def test_heap_is_captured_and_shown_in_bytes(screen: Screen) -> None:
    page = screen.page
    before = METRICS.version("before").version_id
    await screen.go(f"/capture?worker=metrics&version={before}&type=heap&duration=2000")
    await page.get_by_role("button", name="Capture profile").click()
    await expect(page.get_by_text("Allocated", exact=True)).to_be_visible(timeout=30_000)
    assert "iB" in await screen.text(".summary dd >> nth=0")
    await expect(page.locator(".functions")).to_contain_text("iB")


async def test_leaving_and_coming_back_finds_the_capture(screen: Screen) -> None:
    page = screen.page
    await screen.go(f"/capture?worker=loop&duration={LONG_MS}")
    await page.get_by_role("button", name="Capture profile").click()
    await expect(page.get_by_text("Sampling", exact=True)).to_be_visible()
    address = page.url
    await page.goto("about:blank")
    await page.goto(address)
    stop = page.get_by_role("button", name="Stop and keep what there is")
    await expect(stop).to_be_enabled(timeout=20_000)
    await expect(page.locator(".step-done")).not_to_have_count(0)
    # Progress comes with the agent's reports.
    await expect(page.get_by_role("progressbar")).to_have_attribute(
        "value", re.compile(r"^0\.0*[1-9]"), timeout=20_000
    )
    await stop.click()
    await expect(page.get_by_role("button", name="Download profile")).to_be_visible(timeout=20_000)


async def test_a_cancelled_capture_says_so_and_can_be_asked_for_again(screen: Screen) -> None:
    page = screen.page
    await screen.go(f"/capture?worker=loop&duration={LONG_MS}")
    await page.get_by_role("button", name="Capture profile").click()
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await expect(page.get_by_role("heading", name="The capture was cancelled")).to_be_visible()
    await page.get_by_role("link", name="Capture again").click()
    assert await page.get_by_label("Worker", exact=True).input_value() == "loop"
    assert await page.get_by_label("Duration, in milliseconds").input_value() == str(LONG_MS)


async def test_no_traffic_says_to_send_some(screen: Screen) -> None:
    page = screen.page
    second = CHECKOUT.version("second").version_id
    await screen.go(f"/capture?worker=checkout&version={second}&duration=1000")
    await page.get_by_role("button", name="Capture profile").click()
    await expect(page.get_by_role("heading", name="The capture failed")).to_be_visible(
        timeout=20_000
    )
    await expect(page.get_by_text("No traffic: send requests to this version")).to_be_visible()
    await screen.shoot("no-traffic")


async def test_a_busy_isolate_says_to_wait(screen: Screen, client: Client) -> None:
    page = screen.page
    body = {"worker": LOOP.name, "version": "latest", "duration_ms": LONG_MS}
    made = await client.call("POST", HARBOUR, "profile-sessions", body=body)
    first = made.body["result"]["id"]
    try:
        await client.until_sampling(HARBOUR, first)
        await screen.go("/capture?worker=loop&duration=1000")
        await page.get_by_role("button", name="Capture profile").click()
        await expect(page.get_by_role("heading", name="The capture failed")).to_be_visible(
            timeout=20_000
        )
        await expect(page.get_by_text("Wait until one is free")).to_be_visible()
    finally:
        await client.call("DELETE", HARBOUR, f"profile-sessions/{first}")


async def test_every_wrong_field_is_told_beside_it(screen: Screen) -> None:
    page = screen.page
    await screen.go("/capture?worker=replacer&duration=1e9&namespace=zz")
    await page.get_by_role("button", name="Capture profile").click()
    duration = page.locator(".field", has_text="Duration")
    await expect(duration.get_by_role("alert")).to_contain_text("whole number")
    namespace = page.locator(".field", has_text="Namespace id")
    await expect(namespace.get_by_role("alert")).to_contain_text("Must match")
    await screen.shoot("wrong-fields")


async def test_unknown_session_worker_and_page(screen: Screen) -> None:
    page = screen.page
    await screen.go("/sessions/11111111-2222-4222-8222-222222222222")
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("code 10402")
    await expect(alert).to_contain_text("HTTP 404")
    await screen.shoot("unknown-session")
    await screen.go("/workers/nobody")
    await expect(alert).to_contain_text("code 10007")
    await screen.go("/kitchen")
    await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()


async def test_a_quota_or_a_silent_control_plane_says_what_next(screen: Screen) -> None:
    page = screen.page
    error = {"code": 10399, "message": "The account has 4 sessions under way, its limit."}
    failure = {"success": False, "errors": [error], "messages": [], "result": None}
    headers = {"Retry-After": "30", "X-Request-Id": "abc"}
    await page.route(
        "**/profile-sessions",
        lambda route: route.fulfill(status=429, json=failure, headers=headers),
    )
    await screen.go("/capture?worker=replacer")
    await page.get_by_role("button", name="Capture profile").click()
    notice = page.get_by_role("alert")
    await expect(notice).to_contain_text("4 sessions under way")
    await expect(notice).to_contain_text("Wait, or ask an operator")
    await page.unroute_all()
    await page.route("**/client/v4/**", lambda route: route.abort())
    await page.get_by_role("button", name="Capture profile").click()
    await expect(notice).to_contain_text("does not answer")
    await expect(notice).to_contain_text("Check that the control plane runs")
