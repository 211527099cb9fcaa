from __future__ import annotations

import asyncio

import pytest

from contract.faults import Fault, Reason
from contract.messages import Actor, NamespaceRef
from control_plane import access, admission
from control_plane.admission import ProfileRequest
from control_plane.api.auth import READS
from control_plane.credentials import TokenKind, compose, keyed, plain_hash
from control_plane.session import SessionState
from control_plane.store import accounts, tokens
from control_plane.store.accounts import Account
from control_plane.store.notices import DISPATCH
from tests.integration.planes import (
    ACCOUNT,
    OTHER_ACCOUNT,
    TOKEN_KEY,
    VERSION,
    WORKER,
    account_token,
    plane,
    report,
    sighting,
)

NEWER = "22222222-2222-4222-8222-222222222222"
NAMESPACE = "c" * 32


async def test_a_token_opens_its_own_account_and_no_other(database_url: str) -> None:
    async with plane(database_url) as p:
        token = await account_token(p.db, ACCOUNT)
        assert token.startswith("iso_acc_")
        caller = await access.authenticate(p.db, TOKEN_KEY, token, ACCOUNT, READS)
        assert caller.account_id == ACCOUNT
        with pytest.raises(Fault) as other:
            await access.authenticate(p.db, TOKEN_KEY, token, OTHER_ACCOUNT, READS)
        assert other.value.reason is Reason.PERMISSION_MISSING
        assert "Workers Scripts Read" in other.value.message
        for wrong in (
            "",
            "isop_",
            token + "x",
            token.upper(),
            compose(TokenKind.ACCOUNT, bytes(32)),
        ):
            with pytest.raises(Fault) as refused:
                await access.authenticate(p.db, TOKEN_KEY, wrong, ACCOUNT, READS)
            assert refused.value.reason is Reason.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("revoked_at = now()", Reason.UNAUTHENTICATED),
        ("expires_at = now() - interval '1 s'", Reason.UNAUTHENTICATED),
        ("permissions = '{}'", Reason.PERMISSION_MISSING),
    ],
)
async def test_a_token_that_opens_nothing_any_more(
    database_url: str, change: str, reason: Reason
) -> None:
    async with plane(database_url) as p:
        token = await account_token(p.db, ACCOUNT)
        await p.execute(f"UPDATE tokens SET {change}")
        with pytest.raises(Fault) as refused:
            await access.authenticate(p.db, TOKEN_KEY, token, ACCOUNT, READS)
        assert refused.value.reason is reason


async def test_the_token_is_nowhere_in_the_database(database_url: str) -> None:
    async with plane(database_url) as p:
        token = await account_token(p.db, ACCOUNT)
        async with p.db.read() as conn:
            plain = plain_hash(token)
            stored = await tokens.of_account_by_hash(conn, keyed(TOKEN_KEY, plain), plain)
        assert stored is not None
        assert token.encode() not in stored.hash
        assert stored.hash == keyed(TOKEN_KEY, plain) != plain


async def test_versions_are_found_by_uuid_by_prefix_and_as_latest(database_url: str) -> None:
    async with plane(database_url) as p:
        await p.intake.sightings(report(sightings=(sighting(), sighting(version_id=NEWER))))
        for asked in (VERSION, VERSION[:8], VERSION.upper()):
            assert (await p.admit(version=asked)).version_id == VERSION
        assert (await p.admit(version="latest")).version_id == NEWER
        assert (await p.admit(worker="replacer")).worker_id == WORKER


@pytest.mark.parametrize("asked", ["1111111", "33333333", "11111111%", "not-a-version"])
async def test_a_version_that_is_not_there(database_url: str, asked: str) -> None:
    async with plane(database_url) as p:
        with pytest.raises(Fault) as refused:
            await p.admit(version=asked)
        assert refused.value.reason is Reason.VERSION_UNKNOWN


async def test_an_ambiguous_prefix_names_up_to_five(database_url: str) -> None:
    alike = [f"11111111-1111-4111-8111-11111111111{n}" for n in range(7)]
    async with plane(database_url) as p:
        await p.intake.sightings(report(sightings=tuple(sighting(version_id=v) for v in alike)))
        with pytest.raises(Fault) as refused:
            await p.admit(version="11111111-1111")
        assert refused.value.reason is Reason.VERSION_AMBIGUOUS
        assert sum(v in refused.value.message for v in alike) == 5


async def test_refusals_before_a_session_exists(database_url: str) -> None:
    async with plane(database_url) as p:
        with pytest.raises(Fault) as unknown:
            await p.admit(worker="nobody")
        assert unknown.value.reason is Reason.WORKER_UNKNOWN
        actor = Actor(namespace_id=NAMESPACE, actor_id="d" * 64)
        with pytest.raises(Fault) as foreign:
            await p.admit(actor=actor)
        assert foreign.value.reason is Reason.ACTOR_INACTIVE
        off = Account(account_id=ACCOUNT, name="a", profiling_enabled=False)
        async with p.db.begin() as conn:
            await accounts.keep(conn, off)
        with pytest.raises(Fault) as disabled:
            await p.admit()
        assert disabled.value.reason is Reason.PROFILING_DISABLED


async def test_an_actor_of_the_workers_own_namespace_is_admitted(database_url: str) -> None:
    async with plane(database_url) as p:
        owned = sighting(namespaces=(NamespaceRef(namespace_id=NAMESPACE, class_name="Counter"),))
        await p.intake.sightings(report(metal=report().metal, sightings=(owned,)))
        other = sighting(version_id=NEWER, namespaces=owned.namespaces)
        await p.intake.sightings(report(sightings=(other,)))
        actor = Actor(namespace_id=NAMESPACE, actor_id="d" * 64)
        session = await p.admit(actor=actor)
        assert (await p.session(session.session_id)).actor == actor


async def test_admitted_is_queued_told_and_the_same_again(database_url: str) -> None:
    async with plane(database_url) as p:
        request = ProfileRequest(worker=WORKER, duration_ms=5000, labels={"why": "slow"})
        with p.notices.watch(DISPATCH) as watch:
            while await watch.wait(0.2):
                pass
            first = await admission.admit(p.db, ACCOUNT, request, "e" * 32, p.settings)
            assert await watch.wait(5)
        again = await admission.admit(p.db, ACCOUNT, request, "e" * 32, p.settings)
        assert again.session_id == first.session_id
        assert first.state is SessionState.QUEUED
        assert first.labels == {"why": "slow"}
        assert 20_000 < first.remaining_ms <= 25_000
        assert await p.events(first.session_id) == [(None, "admitted")]


async def test_a_lost_commit_is_tried_again_with_the_same_id(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit was made, its answer was cut off."""
    async with plane(database_url) as p:
        made = admission._admit
        cuts = [1]

        async def cut(*args: object) -> object:
            session = await made(*args)  # type: ignore[arg-type]
            if cuts:
                cuts.pop()
                raise Fault(Reason.STORE_UNAVAILABLE, "cut")
            return session

        monkeypatch.setattr(admission, "_admit", cut)
        session = await p.admit()
        assert await p.events(session.session_id) == [(None, "admitted")]


async def test_another_accounts_session_is_unknown(database_url: str) -> None:
    async with plane(database_url) as p:
        session = await p.admit()
        for call in (
            admission.show(p.db, OTHER_ACCOUNT, session.session_id),
            admission.cancel(p.db, OTHER_ACCOUNT, session.session_id, discard=True),
            admission.show(p.db, ACCOUNT, "0" * 32),
        ):
            with pytest.raises(Fault) as unknown:
                await call
            assert unknown.value.reason is Reason.SESSION_UNKNOWN


@pytest.mark.parametrize("discard", [True, False])
async def test_cancelling_a_queued_session_is_idempotent(database_url: str, discard: bool) -> None:
    async with plane(database_url) as p:
        session = await p.admit()
        first, second = await asyncio.gather(
            *(
                admission.cancel(p.db, ACCOUNT, session.session_id, discard=discard)
                for _ in range(2)
            )
        )
        assert first.state is second.state is SessionState.CANCELLED
        await p.turn()
        assert p.agents.orders == []
        events = [event for _, event in await p.events(session.session_id)]
        assert events == ["admitted", "cancelled"]


@pytest.mark.parametrize("discard", [True, False])
async def test_cancelling_reaches_the_agent(database_url: str, discard: bool) -> None:
    async with plane(database_url) as p:
        session, capture = await p.sampling()
        ended = await admission.cancel(p.db, ACCOUNT, session.session_id, discard=discard)
        assert ended.state is (SessionState.CANCELLED if discard else SessionState.CAPTURING)
        await p.turn()
        assert p.agents.stops == [(capture.address, capture.key, discard)]
        assert not (await p.captures(session.session_id))[-1].live
