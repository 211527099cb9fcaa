"""A commit is applied and its answer never comes: nothing is made twice, and nothing is lost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane import admission
from control_plane.session import SessionState
from control_plane.store.idempotency import Key
from tests.integration.cutting_proxy import CuttingProxy
from tests.integration.planes import ACCOUNT, WORKER, Plane, manifest, plane, profile_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REQUEST = admission.ProfileRequest(worker=WORKER, duration_ms=1000)


@asynccontextmanager
async def _cut_plane(database_url: str) -> AsyncIterator[tuple[Plane, CuttingProxy]]:
    async with CuttingProxy(database_url).listening() as proxy, plane(proxy.url) as made:
        yield made, proxy


async def _count(p: Plane, table: str) -> int:
    async with p.db.read() as conn:
        found = await conn.execute(text(f"SELECT count(*) FROM {table}"))
        return int(found.scalar_one())


async def test_a_session_is_made_once(database_url: str) -> None:
    async with _cut_plane(database_url) as (p, proxy):
        proxy.cuts = 1
        session = await p.admit()
        assert proxy.cuts == 0
        assert await _count(p, "sessions") == 1
        assert await p.events(session.session_id) == [(None, "admitted")]


async def test_a_caller_told_to_come_again_finds_its_session(database_url: str) -> None:
    async with _cut_plane(database_url) as (p, proxy):
        key = Key(text="mine", body=b"one")
        # The first try, and the one made for it.
        proxy.cuts = 2
        with pytest.raises(Fault) as told:
            await admission.admit(p.db, ACCOUNT, REQUEST, "1" * 32, p.settings, key=key)
        assert told.value.reason is Reason.STORE_UNAVAILABLE
        assert told.value.retry_after_s
        again = await admission.admit(p.db, ACCOUNT, REQUEST, "2" * 32, p.settings, key=key)
        assert again.session_id == "1" * 32
        assert await _count(p, "sessions") == 1


async def test_an_order_is_written_once_and_sent_once(database_url: str) -> None:
    async with _cut_plane(database_url) as (p, proxy):
        session = await p.admit()
        proxy.cuts = 1
        with pytest.raises(Fault) as told:
            await p.dispatch("cut")._claim_order()
        assert told.value.reason is Reason.STORE_UNAVAILABLE
        assert p.agents.orders == []
        await p.execute("UPDATE sessions SET lease_until = now() - interval '1 s'")
        await p.turn(p.dispatch("next"))
        (capture,) = await p.captures(session.session_id)
        assert [order.key for _, order in p.agents.orders] == [capture.key]
        assert capture.state is CaptureState.SAMPLING


async def test_a_profile_is_kept_once_and_its_agent_told_so(database_url: str) -> None:
    async with _cut_plane(database_url) as (p, proxy):
        session, capture = await p.sampling()
        data = profile_bytes()
        upload = await p.intake.open_upload(manifest(capture, data))
        await upload.write(0, data)
        proxy.cuts = 1
        with pytest.raises(Fault) as told:
            await upload.finish()
        assert told.value.reason is Reason.STORE_UNAVAILABLE
        again = await p.intake.open_upload(manifest(capture, data))
        await again.write(again.offset, data[again.offset :])
        assert (await again.finish()).size_bytes == len(data)
        assert (await p.session(session.session_id)).state is SessionState.READY
        assert await _count(p, "profiles") == 1
        assert [event for _, event in await p.events(session.session_id)].count("stored") == 2
