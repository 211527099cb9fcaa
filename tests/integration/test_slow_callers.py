"""Callers that take their time, and a pool that has none left."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from control_plane.api import edge
from tests.integration.admin_scene import admin_scene
from tests.integration.planes import ACCOUNT, manifest, profile_bytes

if TYPE_CHECKING:
    import pytest


async def test_a_body_that_does_not_come_is_refused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "BODY_S", 0.05)
    async with admin_scene(database_url) as scene:
        port = int(scene.api_url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"POST /client/v4/accounts/{ACCOUNT}/profile-sessions HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {scene.token}\r\nContent-Length: 100\r\n\r\n{{"
        )
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        # Nothing of it is left in the way of others.
        assert (await scene.ask("GET", "profile-sessions")).status == 200


async def test_headers_beyond_the_limit_are_refused(database_url: str) -> None:
    async with admin_scene(database_url) as scene:
        answer = await scene.call("GET", "agents", headers={"X": "x" * 9000})
        assert answer.status == 400
        assert (await scene.call("GET", "agents")).status == 200


async def test_without_a_free_connection_the_answer_is_503(database_url: str) -> None:
    async with admin_scene(database_url, pool_size=2, pool_wait_ms=20) as scene:
        await scene.ask("GET", "profile-sessions")
        async with scene.plane.db.read(), scene.plane.db.read():
            refused = await scene.ask("GET", "profile-sessions")
            assert refused.code == (503, 10500)
            assert int(refused.headers["Retry-After"]) >= 1
            assert (await scene.call("GET", "/readyz", token="")).status == 503
            assert (await scene.call("GET", "/healthz", token="")).status == 200
        assert (await scene.ask("GET", "profile-sessions")).status == 200


async def test_one_account_that_fires_much_is_told_when_to_come_back(database_url: str) -> None:
    async with admin_scene(database_url, max_concurrent_sessions=3) as scene:
        asked = {"worker": "replacer", "duration_ms": 1000}
        answers = await asyncio.gather(
            *(scene.ask("POST", "profile-sessions", json=asked) for _ in range(15))
        )
        statuses = [answer.status for answer in answers]
        assert statuses.count(202) == 3
        assert statuses.count(429) == 12
        assert all("Retry-After" in one.headers for one in answers if one.status == 429)


async def test_what_was_held_and_uploaded_is_counted(database_url: str) -> None:
    async with admin_scene(database_url) as scene:
        p = scene.plane
        _, capture = await p.sampling()
        data = profile_bytes()
        upload = await p.intake.open_upload(manifest(capture, data))
        await upload.write(0, data)
        await upload.finish()
        told = p.metrics.registry.get_sample_value
        assert told("isoprof_uploads_total", {"outcome": "stored"}) == 1
        assert told("isoprof_uploaded_bytes_total") == len(data)
        assert told("isoprof_order_seconds_count", {"outcome": "accepted"}) == 1
