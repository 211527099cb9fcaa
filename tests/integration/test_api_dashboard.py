"""The dashboard's pages over HTTP: who may frame them, what they may load, what is not there."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from control_plane.api import dashboard
from control_plane.api.edge import edge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ACCOUNT = "a" * 32
SCRIPT = b"console.log('x');\n" * 50


@pytest.fixture
async def built(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "speedscope").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>isoprof</title>")
    (tmp_path / "assets" / "index-1a2b.js").write_bytes(SCRIPT)
    (tmp_path / "assets" / "index-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT))
    (tmp_path / "speedscope" / "index.html").write_text("<!doctype html><title>speedscope</title>")
    (tmp_path.parent / "secret.txt").write_text("not for anybody")
    return tmp_path


@pytest.fixture
async def client(built: Path) -> AsyncIterator[aiohttp.ClientSession]:
    app = web.Application(middlewares=[edge])
    app[dashboard.DASHBOARD] = built
    app.add_routes(dashboard.routes())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session
    await runner.cleanup()


@pytest.mark.parametrize(
    "path", ["/", f"/{ACCOUNT}", f"/{ACCOUNT}/workers", f"/{ACCOUNT}/sessions/x?q=%3Cb%3E"]
)
async def test_every_view_is_the_one_page(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as answer:
        assert answer.status == 200
        assert "isoprof" in await answer.text()
        assert answer.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", "/assets/index-1a2b.js", "/speedscope/"])
async def test_nothing_inline_nothing_from_elsewhere_and_no_frame(
    client: aiohttp.ClientSession, path: str
) -> None:
    async with client.get(path) as answer:
        policy = dict(
            part.strip().split(" ", 1)
            for part in answer.headers["Content-Security-Policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] == "no-referrer"


async def test_assets_are_kept_for_ever_and_come_packed(client: aiohttp.ClientSession) -> None:
    async with client.get("/assets/index-1a2b.js") as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert "immutable" in answer.headers["Cache-Control"]
        assert answer.content_type.endswith("/javascript")
        assert await answer.read() == SCRIPT
    async with client.get("/assets/index-1a2b.js", headers={"Accept-Encoding": ""}) as answer:
        assert "Content-Encoding" not in answer.headers
        assert await answer.read() == SCRIPT


@pytest.mark.parametrize(
    "path",
    [
        "/assets/gone.js",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/%2e%2e",
        "/assets/.hidden",
        "/speedscope/..%2findex.html",
        "/speedscope/%00",
    ],
)
async def test_nothing_outside_its_folders_is_handed_out(
    client: aiohttp.ClientSession, path: str
) -> None:
    base = client._base_url
    assert base is not None
    async with client.get(URL(f"{base.origin()}{path}", encoded=True)) as answer:
        assert answer.status == 404
        assert "not for anybody" not in await answer.text()


async def test_a_missing_build_says_how_to_build(
    client: aiohttp.ClientSession, built: Path
) -> None:
    (built / "index.html").unlink()
    async with client.get("/") as answer:
        assert answer.status == 503
        assert "setup/bootstrap.py run" in await answer.text()
