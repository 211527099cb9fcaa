"""What a reader waits for: the dashboard beside speedscope's static app, one profile, one browser.

``python -m bench.dashboard [--stacks 6000] [--depth 120] [--rounds 5] [--chromium PATH]``

Both pages are served by the same process and opened in turn, each time with a cold cache. Painted:
from the start of the navigation to the second frame after the picture is there. Zoom: from a click
on a frame to the first frame that shows it. Hover: frames a second while the pointer moves. Heap:
JavaScript's, after a forced collection. Goals: docs of the dashboard's design.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import shutil
import statistics
import uuid
from typing import TYPE_CHECKING, Any

from aiohttp import web
from playwright.async_api import async_playwright

from control_plane.api import dashboard
from pprof import codec
from pprof.flame import document, flame
from pprof.model import (
    CPU_PERIOD,
    CPU_TYPES,
    Function,
    Line,
    Location,
    Mapping,
    Profile,
    Sample,
)

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

ACCOUNT = "0" * 32
SESSION = str(uuid.UUID(int=7))
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
GOALS = {"painted": 0.25, "zoom_ms": 150.0, "fps": 55.0, "heap_mb": 15.0, "code_kb": 150.0}

# Runs before either page's own code: marks the second frame after the picture is there.
WATCH = """
(() => {
  const there = () => performance.getEntriesByName('isoprof:painted').length > 0 ||
    (document.querySelectorAll('canvas').length > 0 && document.body.innerText.includes('Time Order'));
  const look = () => there()
    ? requestAnimationFrame(() => requestAnimationFrame(() => { window.__painted = performance.now(); }))
    : requestAnimationFrame(look);
  requestAnimationFrame(look);
})();
"""
# A click or a double click where a frame is, and the time to the first frame after it.
ZOOM = """
async ({ selector, x, y, kind }) => {
  const one = [...document.querySelectorAll(selector)].at(-1);
  const box = one.getBoundingClientRect();
  const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true, button: 0 };
  const began = performance.now();
  if (kind === 'pointer') {
    one.dispatchEvent(new PointerEvent('pointerdown', at));
    one.dispatchEvent(new PointerEvent('pointerup', at));
  } else {
    one.dispatchEvent(new MouseEvent('mousedown', at));
    one.dispatchEvent(new MouseEvent('mouseup', at));
    one.dispatchEvent(new MouseEvent('dblclick', at));
  }
  await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
  return performance.now() - began;
}
"""
HOVER = """
async ({ selector, kind, frames }) => {
  const one = [...document.querySelectorAll(selector)].at(-1);
  const box = one.getBoundingClientRect();
  const began = performance.now();
  for (let frame = 0; frame < frames; frame++) {
    const at = { clientX: box.left + 20 + (frame * 37) % (box.width - 40),
      clientY: box.top + 30 + (frame * 13) % Math.min(300, box.height - 40), bubbles: true };
    one.dispatchEvent(kind === 'pointer' ? new PointerEvent('pointermove', at)
      : new MouseEvent('mousemove', at));
    await new Promise((next) => requestAnimationFrame(next));
  }
  return frames / ((performance.now() - began) / 1000);
}
"""


def stress(stacks: int, depth: int) -> Profile:
    """One CPU profile, always the same: long shared prefixes, as in life, down to ``depth``."""
    rng = random.Random(11)
    functions = tuple(
        Function(
            id=number,
            name=f"handler{number}" if number % 3 else f"module{number % 97}.step{number}",
            system_name="",
            filename=f"src/part{number % 61}.ts"
            if number % 4
            else f"node_modules/lib{number % 19}/index.js",
            start_line=1 + number % 400,
        )
        for number in range(1, 2_001)
    )
    locations = tuple(
        Location(id=one.id, mapping_id=1, lines=(Line(function_id=one.id, line=one.start_line),))
        for one in functions
    )
    kept: list[list[int]] = [[1]]
    samples = []
    for _ in range(stacks):
        above = rng.choice(kept)
        stack = above[: rng.randint(1, len(above))]
        stack += [rng.randint(1, 2_000) for _ in range(rng.randint(4, 18))]
        stack = stack[:depth]
        kept.append(stack)
        samples.append(
            Sample(location_ids=tuple(reversed(stack)), values=(8, rng.randint(1, 12) * 1_090_000))
        )
    return Profile(
        sample_types=CPU_TYPES,
        samples=tuple(samples),
        locations=locations,
        functions=functions,
        mappings=(Mapping(id=1, filename="worker.js"),),
        time_ns=0,
        duration_ns=50_000_000_000,
        period_type=CPU_PERIOD,
        period=1_000_000,
    )


def serving(profile: Profile) -> tuple[web.Application, int]:
    """Both pages and one session of an account, and how many nodes its picture has."""
    drawn = flame(profile)
    columns = gzip.compress(json.dumps(document(profile, drawn)).encode(), 6)
    stored = codec.encode(profile)
    session: dict[str, Any] = {
        "id": SESSION,
        "state": "ready",
        "reason": None,
        "message": "",
        "worker": {"id": "w", "name": "stress"},
        "version": str(uuid.UUID(int=1)),
        "profile_type": "cpu",
        "duration_ms": 50_000,
        "labels": {},
        "actor_id": None,
        "actor_name": None,
        "namespace_id": None,
        "datacenters": [],
        "isolates": {"asked": 1, "taken": 1, "live": 0, "lost": 0, "fewer": ""},
        "created_at": "2026-01-01T00:00:00Z",
        "ended_at": "2026-01-01T00:01:00Z",
        "retry_at": None,
        "captures": [],
        "profile": {"size": len(stored), "sha256": "", "samples": 50_000, "window_ms": 50_000},
    }

    async def show(_request: web.Request) -> web.Response:
        return web.json_response({"success": True, "errors": [], "messages": [], "result": session})

    async def profile_of(_request: web.Request) -> web.Response:
        return web.Response(
            body=columns,
            content_type="application/json",
            headers={"Content-Encoding": "gzip"},
        )

    async def raw(_request: web.Request) -> web.Response:
        return web.Response(body=stored, content_type="application/octet-stream")

    app = web.Application()
    app[dashboard.DASHBOARD] = dashboard.BUILT
    place = f"/client/v4/accounts/{ACCOUNT}/profile-sessions/{SESSION}"
    app.add_routes([web.get(place, show), web.get(f"{place}/profile", profile_of)])
    app.add_routes([web.get("/stress.pprof", raw), *dashboard.routes()])
    return app, len(drawn.levels)


async def measured(browser: Browser, url: str, how: dict[str, Any]) -> dict[str, float]:
    """Open a page in a context of its own and use it."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    await context.add_init_script(WATCH)
    kept = json.dumps({"account": ACCOUNT, "token": "bench"})
    await context.add_init_script(
        f"sessionStorage.setItem('isoprof.credentials', {json.dumps(kept)})"
    )
    page = await context.new_page()
    await page.goto(url)
    for _ in range(600):
        painted = await page.evaluate("window.__painted")
        if painted:
            break
        await asyncio.sleep(0.1)
    else:
        raise SystemExit(f"nothing was painted at {url}")
    await asyncio.sleep(1)
    heap_mb = await heap(page)
    fps = await page.evaluate(HOVER, {**how["hover"], "frames": 90})
    zoom_ms = await page.evaluate(ZOOM, how["zoom"])
    await context.close()
    return {"painted_ms": painted, "zoom_ms": zoom_ms, "fps": fps, "heap_mb": heap_mb}


async def heap(page: Page) -> float:
    """JavaScript's heap after a collection, in MB, what is outside of it (arrays) included."""
    cdp = await page.context.new_cdp_session(page)
    await cdp.send("HeapProfiler.collectGarbage")
    usage = await cdp.send("Runtime.getHeapUsage")
    await cdp.detach()
    return float(usage["usedSize"] + usage.get("backingStorageSize", 0)) / 1e6


async def run(stacks: int, depth: int, rounds: int, chromium: str) -> int:
    app, nodes = serving(stress(stacks, depth))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    pages = {
        "dashboard": (
            f"{base}/{ACCOUNT}/sessions/{SESSION}",
            {
                "hover": {"selector": ".flame", "kind": "pointer"},
                "zoom": {"selector": ".flame", "kind": "pointer", "x": 40, "y": 90},
            },
        ),
        "speedscope": (
            f"{base}/speedscope/#profileURL={base}/stress.pprof",
            {
                "hover": {"selector": "canvas", "kind": "mouse"},
                "zoom": {"selector": "canvas", "kind": "mouse", "x": 300, "y": 90},
            },
        ),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in pages}
    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for _ in range(rounds):
            for name, (url, how) in pages.items():
                found[name].append(await measured(browser, url, how))
        await browser.close()
    await runner.cleanup()
    return report(found, nodes)


def report(found: dict[str, list[dict[str, float]]], nodes: int) -> int:
    """Print medians beside each other, and each goal; 1 when one is missed."""
    medians = {
        name: {key: statistics.median(one[key] for one in all_) for key in all_[0]}
        for name, all_ in found.items()
    }
    ours, theirs = medians["dashboard"], medians["speedscope"]
    code_kb = sum(path.stat().st_size for path in (dashboard.BUILT / "assets").glob("*.gz")) / 1e3
    print(f"{nodes} nodes; medians of {len(found['dashboard'])} rounds, dashboard / speedscope")
    for key in ours:
        ratio = ours[key] / theirs[key] if theirs[key] else float("nan")
        print(f"  {key:11} {ours[key]:9.1f} {theirs[key]:9.1f}   ratio {ratio:.2f}")
    told = {
        "painted": (ours["painted_ms"] / theirs["painted_ms"], "<="),
        "zoom_ms": (ours["zoom_ms"], "<="),
        "fps": (ours["fps"], ">="),
        "heap_mb": (ours["heap_mb"], "<="),
        "code_kb": (code_kb, "<="),
    }
    missed = 0
    for key, (value, sign) in told.items():
        held = value <= GOALS[key] if sign == "<=" else value >= GOALS[key]
        missed += not held
        print(f"  {'holds ' if held else 'MISSED'} {key} {value:.2f} {sign} {GOALS[key]}")
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stacks", type=int, default=6_000)
    parser.add_argument("--depth", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    asked = parser.parse_args()
    return asyncio.run(run(asked.stacks, asked.depth, asked.rounds, asked.chromium))


if __name__ == "__main__":
    raise SystemExit(main())
