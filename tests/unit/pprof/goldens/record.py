"""Record the golden captures from a real workerd: ``python record.py <workerd binary> [name ...]``.

Prints one line per capture. Each reply is written beside this file, as it came.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import tempfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

HERE = Path(__file__).parent
CONFIG = """
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "hot", worker = (
    modules = [(name = "hot.js", esModule = embed "hot.js")], compatibilityDate = "2026-01-01"))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "hot")]);
"""
HEAP = {
    "samplingInterval": 524288,
    "includeObjectsCollectedByMajorGC": True,
    "includeObjectsCollectedByMinorGC": True,
}


def fill(folder: Path) -> None:
    """Put the Worker and its configuration into a folder."""
    (folder / "hot.js").write_bytes((HERE / "hot.js").read_bytes())
    (folder / "config.capnp").write_text(CONFIG)


@asynccontextmanager
async def workerd(binary: str) -> AsyncIterator[tuple[str, str]]:
    """Run a workerd with hot.js; gives its base URL and the inspector's websocket URL."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        process = await asyncio.create_subprocess_exec(
            binary,
            "serve",
            "config.capnp",
            "--inspector-addr=127.0.0.1:0",
            "--control-fd=1",
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            ports: dict[str, int] = {}
            while len(ports) < 2:
                line = json.loads(await asyncio.wait_for(process.stdout.readline(), 30))
                ports[line.get("socket") or line["event"]] = line["port"]
            inspector = ports.get("inspector") or ports["listen-inspector"]
            yield f"http://127.0.0.1:{ports['http']}", f"ws://127.0.0.1:{inspector}/hot"
        finally:
            process.kill()
            await process.wait()


class Session:
    """One inspector session; a reply is kept as the bytes that came."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.ids = itertools.count(1)

    async def call(self, method: str, **params: object) -> bytes:
        """Send one command and wait for its reply."""
        wanted = next(self.ids)
        await self.socket.send_str(json.dumps({"id": wanted, "method": method, "params": params}))
        while True:
            # Events come in between; none of the commands used here causes many.
            message = await self.socket.receive(timeout=30)
            if json.loads(message.data).get("id") == wanted:
                return str(message.data).encode()


async def requests(http: aiohttp.ClientSession, url: str, count: int, pause_s: float) -> None:
    """Drive traffic: a fixed number of requests, one at a time."""
    for _ in range(count):
        async with http.get(url) as reply:
            await reply.read()
        await asyncio.sleep(pause_s)


async def cpu(
    http: aiohttp.ClientSession, base: str, session: Session, path: str, count: int, pause_s: float
) -> bytes:
    """One CPU slice at 1 ms."""
    await session.call("Profiler.stop")
    await session.call("Profiler.enable")
    await session.call("Profiler.setSamplingInterval", interval=1000)
    await session.call("Profiler.start")
    await requests(http, base + path, count, pause_s)
    return await session.call("Profiler.stop")


async def heap(
    http: aiohttp.ClientSession, base: str, session: Session, path: str, count: int
) -> bytes:
    """One sampling heap capture at 512 KiB."""
    await session.call("HeapProfiler.startSampling", **HEAP)
    await requests(http, base + path, count, 0)
    return await session.call("HeapProfiler.stopSampling")


async def main(binary: str, *names: str) -> None:
    """Record every capture, or those named."""
    wanted: dict[str, Callable[[aiohttp.ClientSession, str, Session], Awaitable[bytes]]] = {
        "cpu_runs": partial(cpu, path="/runs", count=100, pause_s=0.005),
        "cpu_callbacks": partial(cpu, path="/callbacks", count=60, pause_s=0),
        "cpu_quiet": partial(cpu, path="/tiny", count=8, pause_s=0.7),
        "cpu_none": partial(cpu, path="/tiny", count=0, pause_s=0),
        "heap_objects": partial(heap, path="/objects", count=20),
        "heap_small": partial(heap, path="/tiny", count=2),
        "heap_buffers": partial(heap, path="/buffer", count=50),
    }
    for name, record in wanted.items():
        if names and name not in names:
            continue
        async with (
            workerd(binary) as (base, inspector),
            aiohttp.ClientSession() as http,
            http.ws_connect(inspector, max_msg_size=0) as socket,
        ):
            await requests(http, base + "/tiny", 3, 0)
            reply = await record(http, base, Session(socket))
        (HERE / f"{name}.json").write_bytes(reply)
        print(name, len(reply), "bytes")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
