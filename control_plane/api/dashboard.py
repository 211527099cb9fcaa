"""The dashboard's files: built pages that speak to this API from the reader's browser.

They hold nothing of any account, so they need no token; what they show they ask the API for.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from aiohttp import web

from contract.faults import Fault, Reason

BUILT = Path(__file__).resolve().parents[2] / "dashboard" / "dist"
DASHBOARD: web.AppKey[Path] = web.AppKey("dashboard", Path)

_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,120}")
# Assets carry a hash of what they hold in their name.
_FOR_EVER = "public, max-age=31536000, immutable"
# Everything else is asked for anew each time; unchanged, it costs one small answer.
_ASK_AGAIN = "no-cache"

# Nothing inline, nothing from elsewhere, no frame around it: a name in a profile can't become code.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# speedscope writes its styles at run time, and reads the profile from the tab that opened it.
SPEEDSCOPE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_GUARDS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}

_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>isoprof</title>
<h1>The dashboard is not built</h1>
<p>Build it with <code>python3 setup/bootstrap.py run</code> (<code>make demo</code> and
<code>make test</code> do), or set <code>ISOPROF_DASHBOARD_DIR</code> to where it is.
The REST API and the command line work without it.</p>
</html>
"""


def routes() -> list[web.RouteDef]:
    """Every path of the dashboard: its files, and the addresses it makes up itself."""
    return [
        web.get("/", page),
        web.get(r"/{account:[0-9a-f]{32}}", page),
        web.get(r"/{account:[0-9a-f]{32}}/{view:.*}", page),
        web.get("/mark.svg", mark),
        web.get("/assets/{name}", asset),
        web.get("/speedscope", to_speedscope),
        web.get("/speedscope/", speedscope),
        web.get("/speedscope/{name}", speedscope),
    ]


async def page(request: web.Request) -> web.StreamResponse:
    """Answer the one page, whatever the view: its own code reads the address."""
    headers = _guarded(POLICY, _ASK_AGAIN)
    found = await _found(request, "index.html")
    if found is None:
        return web.Response(status=503, text=_NOT_BUILT, content_type="text/html", headers=headers)
    return web.FileResponse(found, headers=headers)


async def mark(request: web.Request) -> web.StreamResponse:
    """Answer the icon."""
    return await _file(request, "mark.svg", POLICY, _ASK_AGAIN)


async def asset(request: web.Request) -> web.StreamResponse:
    """Answer a script or a style, packed for those who accept it."""
    return await _file(request, f"assets/{_name(request)}", POLICY, _FOR_EVER)


async def to_speedscope(_request: web.Request) -> web.StreamResponse:
    """Lead to where its relative addresses hold."""
    return web.Response(status=308, headers={"Location": "/speedscope/"})


async def speedscope(request: web.Request) -> web.StreamResponse:
    """Answer a file of speedscope's static app."""
    name = _name(request) if "name" in request.match_info else "index.html"
    return await _file(request, f"speedscope/{name}", SPEEDSCOPE_POLICY, _ASK_AGAIN)


async def _file(request: web.Request, name: str, policy: str, caching: str) -> web.StreamResponse:
    found = await _found(request, name)
    if found is None:
        raise Fault(Reason.ROUTE_UNKNOWN, "The dashboard has no such file.")
    return web.FileResponse(found, headers=_guarded(policy, caching))


async def _found(request: web.Request, name: str) -> Path | None:
    path = request.app[DASHBOARD] / name
    return path if await asyncio.to_thread(path.is_file) else None


def _name(request: web.Request) -> str:
    # One part of a path that can't lead out of its folder.
    name = request.match_info["name"]
    if not _FILE.fullmatch(name):
        raise Fault(Reason.ROUTE_UNKNOWN, "The dashboard has no such file.")
    return name


def _guarded(policy: str, caching: str) -> dict[str, str]:
    return {**_GUARDS, "Content-Security-Policy": policy, "Cache-Control": caching}
