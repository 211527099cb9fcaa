"""The REST contract as a test calls it, over a running development fleet."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable

    from services.devfleet.fleet import Account, Worker
    from services.devfleet.system import Fleet

POLL_S = 0.05
TERMINAL = frozenset({"ready", "failed", "cancelled", "expired"})
SLACK_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back: JSON answers have their ``body`` parsed, profiles are in ``data``."""

    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def body(self) -> Any:
        assert self.headers["content-type"].startswith("application/json"), self.headers
        return json.loads(self.data)

    @property
    def code(self) -> int:
        """The first error's code."""
        return int(self.body["errors"][0]["code"])


class Client:
    """Calls as one account, by default the owner of most samples."""

    def __init__(self, fleet: Fleet, http: aiohttp.ClientSession) -> None:
        self.fleet = fleet
        self.http = http

    async def call(
        self,
        method: str,
        account: Account,
        path: str,
        *,
        body: object = None,
        token: str | None = None,
        timeout_s: float = SLACK_S,
    ) -> Answer:
        headers = {"Authorization": f"Bearer {token or self.fleet.token(account)}"}
        async with self.http.request(
            method,
            f"{self.fleet.api_url}/accounts/{account.account_id}/{path}",
            json=body,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as answer:
            data = await answer.read()
            named = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(status=answer.status, headers=named, data=data)

    async def profile(
        self,
        worker: Worker,
        tag: str,
        *,
        duration_ms: int,
        profile_type: str = "cpu",
        token: str | None = None,
        account: Account | None = None,
        **more: str,
    ) -> Answer:
        """Ask for a profile and wait for it."""
        version = worker.version(tag).version_id
        return await self.call(
            "POST",
            account or worker.account,
            f"workers/workers/{worker.worker_id}/versions/{version}/profile",
            body={"duration_ms": duration_ms, "profile_type": profile_type, **more},
            token=token,
            timeout_s=duration_ms / 1000 + SLACK_S,
        )

    async def ask_session(
        self,
        worker: Worker,
        tag: str,
        *,
        duration_ms: int,
        profile_type: str = "cpu",
        **more: object,
    ) -> Answer:
        """Ask for a session."""
        return await self.call(
            "POST",
            worker.account,
            "profile-sessions",
            body={
                "worker": worker.name,
                "version": worker.version(tag).version_id,
                "duration_ms": duration_ms,
                "profile_type": profile_type,
                **more,
            },
        )

    async def begin(
        self, worker: Worker, tag: str, *, duration_ms: int, profile_type: str = "cpu"
    ) -> str:
        """Create a session; returns its id."""
        answer = await self.ask_session(
            worker, tag, duration_ms=duration_ms, profile_type=profile_type
        )
        assert answer.status == 202, answer
        return str(answer.body["result"]["id"])

    async def captured_again(self, worker: Worker, tag: str, *, within_s: float) -> None:
        """Profile until it succeeds: a restarted process is first to be heard of."""
        answer = None
        try:
            async with asyncio.timeout(within_s):
                while True:
                    answer = await self.profile(worker, tag, duration_ms=1000)
                    if answer.status == 200:
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"not captured within {within_s} s; last: {answer}") from None

    async def session(self, account: Account, session_id: str) -> dict[str, Any]:
        answer = await self.call("GET", account, f"profile-sessions/{session_id}")
        assert answer.status == 200, answer
        result: dict[str, Any] = answer.body["result"]
        return result

    async def until(
        self,
        account: Account,
        session_id: str,
        reached: Callable[[dict[str, Any]], bool],
        *,
        within_s: float,
    ) -> dict[str, Any]:
        """Follow a session until it is as wanted; what was seen last goes into the error."""
        seen: dict[str, Any] = {}
        try:
            async with asyncio.timeout(within_s):
                while True:
                    seen = await self.session(account, session_id)
                    if reached(seen):
                        return seen
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"not reached within {within_s} s; last seen: {seen}") from None

    async def until_sampling(self, account: Account, session_id: str) -> dict[str, Any]:
        """Follow a session until its capture samples."""
        return await self.until(
            account,
            session_id,
            lambda seen: any(one["state"] == "sampling" for one in seen["captures"]),
            within_s=20,
        )

    async def until_over(
        self, account: Account, session_id: str, *, within_s: float
    ) -> dict[str, Any]:
        """Follow a session until its state is one that never changes again."""
        return await self.until(
            account, session_id, lambda seen: seen["state"] in TERMINAL, within_s=within_s
        )
