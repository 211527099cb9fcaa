"""Tokens of accounts and of operators: the text stands in the answer that makes one alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from control_plane import access
from control_plane.admin import asked
from control_plane.admin.acting import acting, document
from control_plane.api import envelope, schema
from control_plane.api.parts import PARTS
from control_plane.api.session_view import timestamp
from control_plane.store import accounts, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from control_plane.store.tokens import Stored


async def list_of_account(request: web.Request) -> web.Response:
    """Answer an account's tokens, ended ones included."""
    account_id = asked.path_name(request, "account_id")
    query = schema.query(asked.ListQuery, request.query)
    async with request.app[PARTS].db.read() as conn:
        asked.known(await accounts.show(conn, account_id), "account", account_id)
        found = await tokens.of_account(conn, account_id, limit=query.limit + 1, after=query.cursor)
    return _page(found, query.limit)


async def create_for_account(request: web.Request) -> web.Response:
    """Make a token for an account; its text is shown in this answer alone."""
    account_id = asked.path_name(request, "account_id")
    body = schema.body(asked.TokenBody, await document(request))
    wanted = frozenset(body.permissions)
    details = {"name": body.name, "permissions": sorted(wanted), "expires_in_s": body.expires_in_s}
    parts = request.app[PARTS]
    async with acting(request, "tokens.create", account_id, **details) as conn:
        asked.known(await accounts.show(conn, account_id), "account", account_id)
        made = await access.mint_for_account(
            conn,
            parts.token_key,
            account_id,
            name=body.name,
            permissions=wanted,
            lifetime=body.lifetime,
        )
    return envelope.ok(token_view(made.stored) | {"token": made.text}, status=201)


async def revoke_of_account(request: web.Request) -> web.Response:
    """End an account's token at once. Idempotent."""
    account_id = asked.path_name(request, "account_id")
    token_id = asked.path_name(request, "token_id")
    async with acting(request, "tokens.revoke", f"{account_id}/{token_id}") as conn:
        ended = await tokens.revoke_of_account(conn, account_id, token_id)
        found = asked.known(ended, "token", token_id)
    return envelope.ok(token_view(found))


async def list_of_operators(request: web.Request) -> web.Response:
    """Answer operators' tokens, ended ones included."""
    query = schema.query(asked.ListQuery, request.query)
    async with request.app[PARTS].db.read() as conn:
        found = await tokens.of_operators(conn, limit=query.limit + 1, after=query.cursor)
    return _page(found, query.limit)


async def create_for_operator(request: web.Request) -> web.Response:
    """Make an operator's token; its text is shown in this answer alone."""
    body = schema.body(asked.OperatorTokenBody, await document(request))
    parts = request.app[PARTS]
    async with acting(
        request, "operator-tokens.create", body.name, expires_in_s=body.expires_in_s
    ) as conn:
        made = await access.mint_for_operator(
            conn, parts.token_key, name=body.name, lifetime=body.lifetime
        )
    return envelope.ok(token_view(made.stored) | {"token": made.text}, status=201)


async def revoke_of_operator(request: web.Request) -> web.Response:
    """End an operator's token at once, the caller's own if it is so asked. Idempotent."""
    token_id = asked.path_name(request, "token_id")
    async with acting(request, "operator-tokens.revoke", token_id) as conn:
        found = asked.known(await tokens.revoke_of_operator(conn, token_id), "token", token_id)
    return envelope.ok(token_view(found))


def token_view(token: Stored) -> dict[str, Any]:
    """Build a token's JSON: all but what opens anything."""
    view: dict[str, Any] = {
        "id": token.token_id,
        "name": token.name,
        "created_at": timestamp(token.created_at),
        "expires_at": timestamp(token.expires_at),
        "revoked_at": timestamp(token.revoked_at),
        "last_used_at": timestamp(token.used_at),
    }
    if token.account_id:
        view |= {"account": token.account_id, "permissions": sorted(token.permissions)}
    return view


def _page(found: Sequence[Stored], limit: int) -> web.Response:
    shown = found[:limit]
    more = len(found) > limit
    return envelope.cursor(
        [token_view(one) for one in shown], after=shown[-1].token_id if more else None
    )
