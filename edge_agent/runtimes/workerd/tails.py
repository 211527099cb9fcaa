"""Receives what tail Workers count: one loopback listener for all runtimes of the metal."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from contract.ids import ACTOR_ID
from edge_agent.runtimes.workerd.targets import loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_BODY_BYTES = 4 << 20
MAX_NAME = 255
MAX_COUNT = 1_000_000_000
# Distinct things counted and not yet read; beyond it the newest are let go.
MAX_WAITING = 20_000


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What was counted: a service, and the actor and entrypoint where the runtime told one."""

    service: str
    actor_id: str | None
    entrypoint: str | None


class Tails:
    """The listener. ``start`` before anything posts, ``close`` at the end.

    Args:
        listen: loopback ``IP:port``; port 0 lets the system choose.
    """

    def __init__(self, listen: str) -> None:
        self._host, self._port = loopback(listen)
        self._waiting: dict[str, _Waiting] = {}
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listen. Returns the bound ``IP:port``."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/executions", self._receive)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def close(self) -> None:
        """Stop listening. May be called twice."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def register(self, runtime_id: str) -> None:
        """Accept what this runtime posts; what an unknown one posts is refused."""
        self._waiting.setdefault(runtime_id, _Waiting())

    async def ran(self, runtime_id: str) -> AsyncIterator[tuple[Ran, int]]:
        """What ran in a registered runtime, with counts, as it is posted. One reader a runtime."""
        waiting = self._waiting[runtime_id]
        while True:
            for one in (await waiting.take()).items():
                yield one

    async def _receive(self, request: web.Request) -> web.Response:
        try:
            body = await request.json()
            waiting = self._waiting.get(body["runtime"])
            executions = [_execution(entry) for entry in body["executions"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return web.json_response({"error": str(error)[:200]}, status=400)
        if waiting is None:
            return web.json_response({"error": "no such runtime here"}, status=404)
        waiting.add(executions)
        return web.Response(status=204)


class _Waiting:
    """Counts not yet read; as many as there are distinct things, however slow the reader."""

    def __init__(self) -> None:
        self._counts: dict[Ran, int] = {}
        self._some = asyncio.Event()

    def add(self, executions: list[tuple[Ran, int]]) -> None:
        for ran, count in executions:
            if ran in self._counts or len(self._counts) < MAX_WAITING:
                self._counts[ran] = self._counts.get(ran, 0) + count
        if self._counts:
            self._some.set()

    async def take(self) -> dict[Ran, int]:
        await self._some.wait()
        self._some.clear()
        counts, self._counts = self._counts, {}
        return counts


def _execution(entry: object) -> tuple[Ran, int]:
    if not isinstance(entry, dict):
        raise TypeError("an execution must be an object")
    service = _name(entry, "service")
    if service is None:
        raise ValueError("service is missing")
    actor_id = _name(entry, "objectId")
    if actor_id is not None and not ACTOR_ID.match(actor_id):
        raise ValueError("objectId must be 64 hexadecimal digits")
    count = entry.get("count")
    if type(count) is not int or not 1 <= count <= MAX_COUNT:
        raise ValueError(f"count must be a whole number from 1 to {MAX_COUNT}")
    ran = Ran(service=service, actor_id=actor_id, entrypoint=_name(entry, "entrypoint"))
    return ran, count


def _name(entry: dict[str, object], key: str) -> str | None:
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        raise ValueError(f"{key} must be text of 1 to {MAX_NAME} characters")
    return value
