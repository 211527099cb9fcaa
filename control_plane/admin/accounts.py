"""Accounts: made, switched on and off, limited."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from contract.faults import Fault, Reason
from control_plane.admin import asked
from control_plane.admin.acting import acting, document
from control_plane.api import envelope, schema
from control_plane.api.parts import PARTS
from control_plane.api.session_view import timestamp
from control_plane.store import accounts
from control_plane.store.accounts import Account

if TYPE_CHECKING:
    from aiohttp import web

    from control_plane.store.accounts import Owned


async def list_accounts(request: web.Request) -> web.Response:
    """Answer accounts, by id."""
    query = schema.query(asked.ListQuery, request.query)
    async with request.app[PARTS].db.read() as conn:
        found = await accounts.page(conn, limit=query.limit + 1, after=query.cursor)
    shown = found[: query.limit]
    more = len(found) > query.limit
    return envelope.cursor(
        [account_view(one) for one in shown],
        after=shown[-1].account.account_id if more else None,
    )


async def show_account(request: web.Request) -> web.Response:
    """Answer one account."""
    account_id = asked.path_name(request, "account_id")
    async with request.app[PARTS].db.read() as conn:
        found = await accounts.show(conn, account_id)
    return envelope.ok(account_view(asked.known(found, "account", account_id)))


async def create_account(request: web.Request) -> web.Response:
    """Make an account."""
    body = schema.body(asked.AccountBody, await document(request))
    account_id = body.id or uuid.uuid4().hex
    limits = body.limits.model_dump(exclude_unset=True)
    async with acting(
        request,
        "accounts.create",
        account_id,
        name=body.name,
        profiling_enabled=body.profiling_enabled,
        limits=limits,
    ) as conn:
        account = Account(
            account_id=account_id, name=body.name, profiling_enabled=body.profiling_enabled
        )
        if await accounts.add(conn, account) is None:
            raise Fault(Reason.RECORD_EXISTS, f"There is an account {account_id} already.")
        made = await accounts.change(conn, account_id, limits)
    return envelope.ok(account_view(asked.known(made, "account", account_id)), status=201)


async def change_account(request: web.Request) -> web.Response:
    """Change an account's name, switch or limits; every replica obeys at once."""
    account_id = asked.path_name(request, "account_id")
    body = schema.body(asked.AccountChanges, await document(request))
    changes = body.columns()
    async with acting(request, "accounts.change", account_id, **changes) as conn:
        changed = await accounts.change(conn, account_id, changes)
        found = asked.known(changed, "account", account_id)
    return envelope.ok(account_view(found))


def account_view(owned: Owned) -> dict[str, Any]:
    """Build an account's JSON; a limit that is null is the default of the settings."""
    return {
        "id": owned.account.account_id,
        "name": owned.account.name,
        "profiling_enabled": owned.account.profiling_enabled,
        "created_at": timestamp(owned.created_at),
        "limits": asdict(owned.limits),
    }
