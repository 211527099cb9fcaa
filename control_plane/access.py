"""Who calls: tokens made, and the bearer of one recognised; and who was turned away."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault, Reason
from control_plane import credentials
from control_plane.credentials import TokenKind
from control_plane.store import audit, token_keys, tokens
from control_plane.store.accounts import Permission
from control_plane.store.audit import Deed

if TYPE_CHECKING:
    from datetime import timedelta

    from control_plane.store.database import Connection, Database
    from control_plane.store.tokens import Stored

# What is written of refusals is bounded: so many different ones in so long, the rest as one.
REFUSALS_AT_ONCE = 20
REFUSALS_EVERY_S = 10.0
_ID_BYTES = 16

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whose token a request carries. ``account_id`` is empty for an operator."""

    account_id: str
    token_id: str
    permissions: frozenset[str]


class Refused(Fault):
    """A refusal that knows whose token it refused."""

    def __init__(self, reason: Reason, message: str, *, actor: str) -> None:
        super().__init__(reason, message)
        self.actor = actor


@dataclass(frozen=True, kw_only=True)
class Minted:
    """A token just made. ``text`` is shown once and kept nowhere."""

    text: str
    stored: Stored


class TokenKeyWrong(Exception):  # noqa: N818 - a statement about the settings
    """The key's file is not the one this database's tokens were made with."""


async def settle_key(db: Database, key: bytes) -> None:
    """Make sure that this replica's key is every replica's.

    Raises:
        TokenKeyWrong: with it, every token would be refused.
        Fault: store_unavailable.
    """
    async with db.begin() as conn:
        if not await token_keys.settle(conn, credentials.fingerprint(key)):
            raise TokenKeyWrong(
                "The token key is not the one the tokens of this database were made with: put its "
                "file back, or name it in ISOPROF_TOKEN_KEY_FILE."
            )


async def mint_for_account(
    conn: Connection,
    key: bytes,
    account_id: str,
    *,
    name: str = "",
    permissions: frozenset[str] = frozenset({Permission.WORKERS_SCRIPTS_READ}),
    lifetime: timedelta | None = None,
) -> Minted:
    """Make a token for an account."""
    text = credentials.compose(TokenKind.ACCOUNT, secrets.token_bytes(credentials.SECRET_BYTES))
    stored = await tokens.add_of_account(
        conn,
        account_id,
        secrets.token_hex(_ID_BYTES),
        credentials.keyed(key, credentials.plain_hash(text)),
        name=name,
        permissions=permissions,
        lifetime=lifetime,
    )
    return Minted(text=text, stored=stored)


async def mint_for_operator(
    conn: Connection, key: bytes, *, name: str, lifetime: timedelta | None = None
) -> Minted:
    """Make an operator's token."""
    text = credentials.compose(TokenKind.OPERATOR, secrets.token_bytes(credentials.SECRET_BYTES))
    stored = await tokens.add_of_operator(
        conn,
        secrets.token_hex(_ID_BYTES),
        credentials.keyed(key, credentials.plain_hash(text)),
        name=name,
        lifetime=lifetime,
    )
    return Minted(text=text, stored=stored)


async def authenticate(
    db: Database, key: bytes, token_text: str, account_id: str, needs: frozenset[Permission]
) -> Caller:
    """Resolve a bearer token for the account a request names.

    Args:
        needs: one of these is enough; the first in the order of ``Permission`` is named when none
            is there.

    Raises:
        Fault: unauthenticated; permission_missing when the token is another account's, or carries
            none of what is needed.
    """
    kind = credentials.kind_of(token_text)
    if kind is TokenKind.OPERATOR:
        token = await _operator(db, key, token_text)
        raise _lacking(needs, f"operator:{token.token_id}")
    if kind is None:
        raise _unknown()
    plain = credentials.plain_hash(token_text)
    keyed = credentials.keyed(key, plain)
    async with db.read() as conn:
        token_or_none = await tokens.of_account_by_hash(conn, keyed, plain)
    token = _compared(token_or_none, keyed, plain)
    if token.account_id != account_id or not needs & token.permissions:
        raise _lacking(needs, f"token:{token.token_id}")
    await _note_use(db, token)
    return Caller(
        account_id=token.account_id, token_id=token.token_id, permissions=token.permissions
    )


async def authenticate_operator(db: Database, key: bytes, token_text: str) -> Caller:
    """Resolve a bearer token of an operator.

    Raises:
        Fault: unauthenticated; permission_missing for an account's token.
    """
    kind = credentials.kind_of(token_text)
    if kind is None:
        raise _unknown()
    if kind is TokenKind.ACCOUNT:
        plain = credentials.plain_hash(token_text)
        keyed = credentials.keyed(key, plain)
        async with db.read() as conn:
            found = await tokens.of_account_by_hash(conn, keyed, plain)
        account_token = _compared(found, keyed, plain)
        raise Refused(
            Reason.PERMISSION_MISSING,
            "This listener takes operator tokens only.",
            actor=f"token:{account_token.token_id}",
        )
    token = await _operator(db, key, token_text)
    await _note_use(db, token)
    return Caller(account_id="", token_id=token.token_id, permissions=frozenset())


async def _operator(db: Database, key: bytes, token_text: str) -> Stored:
    plain = credentials.plain_hash(token_text)
    keyed = credentials.keyed(key, plain)
    async with db.read() as conn:
        found = await tokens.of_operator_by_hash(conn, keyed)
    return _compared(found, keyed, keyed)


def _compared(found: Stored | None, keyed: bytes, plain: bytes) -> Stored:
    if found is None:
        raise _unknown()
    # Found by an index, whose time tells nothing of a keyed hash; compared all the same.
    if not hmac.compare_digest(found.hash, keyed) and not hmac.compare_digest(found.hash, plain):
        raise _unknown()
    return found


async def _note_use(db: Database, token: Stored) -> None:
    if not token.use_is_old:
        return
    # Where nothing can be written, reading still works.
    with suppress(Fault):
        async with db.begin() as conn:
            await tokens.used(conn, token)


def _unknown() -> Fault:
    return Fault(Reason.UNAUTHENTICATED, "Authentication error")


def _lacking(needs: frozenset[Permission], actor: str) -> Fault:
    named = next(permission for permission in Permission if permission in needs)
    return Refused(
        Reason.PERMISSION_MISSING,
        f"The token lacks the permission {named.value} for this account.",
        actor=actor,
    )


class Refusals:
    """Refusals on their way to the audit table, like ones counted together, bounded."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[tuple[str, str, str, str], tuple[int, str]] = {}
        self._beyond = 0
        self._told = asyncio.Event()

    def add(self, *, actor: str, address: str, request_id: str, action: str, why: str) -> None:
        """Count a refusal; ``request_id`` of the first of its like is kept."""
        key = (actor, address, action, why)
        times, first = self._waiting.get(key, (0, request_id))
        if times or len(self._waiting) < REFUSALS_AT_ONCE:
            self._waiting[key] = (times + 1, first)
        else:
            self._beyond += 1
        self._told.set()

    async def run(self) -> None:
        """Write what waits until cancelled, then once more."""
        try:
            while True:
                await self._told.wait()
                try:
                    await self.flush()
                except Fault as fault:
                    log.warning("refusals_wait", reason=fault.reason)
                await asyncio.sleep(REFUSALS_EVERY_S)
        finally:
            with suppress(Fault, TimeoutError):
                async with asyncio.timeout(1):
                    await self.flush()

    async def flush(self) -> None:
        """Write what waits now.

        Raises:
            Fault: store_unavailable; what waits then still does.
        """
        deeds = [
            Deed(
                actor=actor,
                address=address,
                request_id=request_id,
                action=action,
                target="",
                outcome=audit.Outcome.REFUSED,
                times=times,
                details={"reason": why},
            )
            for (actor, address, action, why), (times, request_id) in self._waiting.items()
        ]
        if self._beyond:
            deeds.append(
                Deed(
                    actor="unknown",
                    address="",
                    request_id="",
                    action="others",
                    target="",
                    outcome=audit.Outcome.REFUSED,
                    times=self._beyond,
                )
            )
        if not deeds:
            return
        waiting, beyond = self._waiting, self._beyond
        self._waiting, self._beyond = {}, 0
        self._told.clear()
        try:
            async with self._db.begin() as conn:
                await audit.record(conn, *deeds)
        except BaseException:
            # What came meanwhile is counted as beyond: the bound holds.
            self._beyond += beyond + sum(times for times, _ in self._waiting.values())
            self._waiting = waiting
            self._told.set()
            raise
