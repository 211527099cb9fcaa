"""Both listeners over one plane, and who calls them."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from control_plane.admin import app as admin
from control_plane.api import app as api
from control_plane.api import edge
from tests.integration.planes import ACCOUNT, Plane, account_token, operator_token, parts_of, plane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from control_plane.api.parts import Parts


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]

    @property
    def result(self) -> Any:
        assert self.status in range(200, 300), self.body
        return self.body["result"]

    @property
    def code(self) -> tuple[int, int]:
        """HTTP status and the first error's code."""
        return self.status, self.body["errors"][0]["code"]

    @property
    def pointers(self) -> list[str]:
        return [error["source"]["pointer"] for error in self.body["errors"]]


@dataclass
class AdminScene:
    """``call`` asks the operators' listener, ``ask`` the accounts'."""

    plane: Plane
    parts: Parts
    app: web.Application
    admin_url: str
    api_url: str
    http: aiohttp.ClientSession
    operator: str
    token: str

    async def call(
        self, method: str, path: str, *, token: str | None = None, **sent: Any
    ) -> Answer:
        url = f"{self.admin_url}{path if path.startswith('/') else f'/admin/v1/{path}'}"
        return await self._send(method, url, self.operator if token is None else token, sent)

    async def ask(self, method: str, path: str, *, token: str | None = None, **sent: Any) -> Answer:
        url = f"{self.api_url}/client/v4/accounts/{ACCOUNT}/{path}"
        return await self._send(method, url, self.token if token is None else token, sent)

    async def _send(self, method: str, url: str, token: str, sent: dict[str, Any]) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= sent.pop("headers", {})
        async with self.http.request(method, url, headers=headers, **sent) as answer:
            data = await answer.read()
            told = answer.headers.get("Content-Type", "").startswith("application/json")
            return Answer(
                status=answer.status,
                body=json.loads(data) if told else data,
                headers=dict(answer.headers),
            )

    async def audited(self, **only: str) -> list[dict[str, Any]]:
        """The audit log as operators read it, newest first."""
        await self.parts.refusals.flush()
        entries: list[dict[str, Any]] = (await self.call("GET", "audit", params=only)).result
        return entries


@contextlib.asynccontextmanager
async def admin_scene(database_url: str, **changes: Any) -> AsyncIterator[AdminScene]:
    async with contextlib.AsyncExitStack() as stack:
        made = await stack.enter_async_context(plane(database_url, **changes))
        parts = parts_of(made.db, made.notices, made.blobs, made.settings)
        app = admin.make_app(parts)
        addresses = [await _listen(stack, one) for one in (app, api.make_app(parts, drain_s=0))]
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield AdminScene(
            plane=made,
            parts=parts,
            app=app,
            admin_url=addresses[0],
            api_url=addresses[1],
            http=http,
            operator=await operator_token(made.db),
            token=await account_token(made.db, ACCOUNT),
        )


async def _listen(stack: contextlib.AsyncExitStack, app: web.Application) -> str:
    runner = edge.make_runner(app, drain_s=0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return f"http://127.0.0.1:{runner.addresses[0][1]}"
