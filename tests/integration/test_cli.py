"""The command as a process: signals, terminals and cut answers, against a small server."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

ROOT = Path(__file__).resolve().parents[2]
PPROF = "application/vnd.google.protobuf"
PROFILE = ("workers", "versions", "profile", "latest", "--worker-id", "w", "--duration-ms", "2000")


class Api:
    """Answers the profile route ``whole``, ``never``, or ``cut`` half-way."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.answer = "whole"

    async def profile(self, request: web.Request) -> web.StreamResponse:
        self.asked.set()
        if self.answer == "never":
            try:
                await asyncio.Event().wait()
            finally:
                self.hung_up.set()
        response = web.StreamResponse(headers={"Content-Type": PPROF, "Content-Length": "4"})
        await response.prepare(request)
        await response.write(b"\x0a\xff" if self.answer == "cut" else b"\x0a\xff\x00\x01")
        if self.answer == "cut" and request.transport is not None:
            request.transport.close()
        return response


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, str]]:
    made = Api()
    app = web.Application()
    app.router.add_post("/client/v4/accounts/{tail:.*}", made.profile)
    server = TestServer(app)
    await server.start_server()
    yield made, str(server.make_url("/client/v4"))
    await server.close()


async def isoprof(url: str, *words: str, stdout: int, stderr: int) -> Process:
    env = {
        **os.environ,
        "ISOPROF_API_BASE_URL": url,
        "ISOPROF_API_TOKEN": "t",
        "ISOPROF_ACCOUNT_ID": "a" * 32,
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", *words),
        cwd=ROOT,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        # A run started in the background hands down an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


async def test_ctrl_c_aborts_the_request_and_ends_with_130(api: tuple[Api, str]) -> None:
    server, url = api
    server.answer = "never"
    pipe = asyncio.subprocess.PIPE
    process = await isoprof(url, *PROFILE, stdout=pipe, stderr=pipe)
    await server.asked.wait()
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    await server.hung_up.wait()
    assert process.returncode == 130, err
    assert out == b""
    assert b"interrupted" in err
    assert b"Traceback" not in err


async def test_a_cut_answer_is_no_profile(api: tuple[Api, str], tmp_path: Path) -> None:
    server, url = api
    server.answer = "cut"
    pipe = asyncio.subprocess.PIPE
    process = await isoprof(url, *PROFILE, "-o", str(tmp_path / "x"), stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode == 1, err
    assert out == b""
    assert os.listdir(tmp_path) == []


async def test_a_terminal_is_refused_before_anything_is_asked(api: tuple[Api, str]) -> None:
    server, url = api
    near, far = pty.openpty()
    process = await isoprof(url, *PROFILE, stdout=far, stderr=asyncio.subprocess.PIPE)
    _, err = await process.communicate()
    os.close(far)
    os.close(near)
    assert process.returncode == 2
    assert b"--output" in err
    assert not server.asked.is_set()


async def test_the_bar_is_on_the_terminal_and_the_bytes_in_the_pipe(api: tuple[Api, str]) -> None:
    _, url = api
    near, far = pty.openpty()
    process = await isoprof(url, *PROFILE, stdout=asyncio.subprocess.PIPE, stderr=far)
    out, _ = await process.communicate()
    os.close(far)
    shown = b""
    # Linux says EIO, not an empty read, when the other side of a terminal is gone.
    try:
        while data := os.read(near, 65536):
            shown += data
    except OSError:
        pass
    os.close(near)
    assert process.returncode == 0, shown
    assert out == b"\x0a\xff\x00\x01"
    assert b"4 bytes of pprof" in shown
    assert b"\x1b[" in shown


async def test_ctrl_c_discards_the_session_it_follows(tmp_path: Path) -> None:
    following, discarded = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/events"):
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b'id: 1\nevent: session\ndata: {"state": "queued"}\n\n')
            following.set()
            await discarded.wait()
            return response
        if request.method == "DELETE":
            discarded.set()
        return web.json_response({"success": True, "result": {"id": "s1"}})

    app = web.Application()
    app.router.add_route("*", "/client/v4/{tail:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    pipe = asyncio.subprocess.PIPE
    words = ("sessions", "create", "--worker-id", "w", "--duration-ms", "2000")
    url = str(server.make_url("/client/v4"))
    process = await isoprof(url, *words, "-o", str(tmp_path / "x"), stdout=pipe, stderr=pipe)
    await following.wait()
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    await discarded.wait()
    await server.close()
    assert process.returncode == 130, err
    assert os.listdir(tmp_path) == []
