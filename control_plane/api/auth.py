"""Who calls: the bearer token of a request, resolved for the account its path names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from control_plane import admission
from control_plane.api.parts import PARTS

if TYPE_CHECKING:
    from aiohttp import web

MAX_TOKEN_CHARS = 512


async def account(request: web.Request) -> str:
    """Authenticate, and return the account id of the path once the token is known to be its.

    Raises:
        Fault: unauthenticated; permission_missing for a token of another account.
    """
    account_id = request.match_info["account_id"]
    await admission.authenticate(request.app[PARTS].db, bearer(request), account_id)
    return account_id


def bearer(request: web.Request) -> str:
    """Return the token of the Authorization header.

    Raises:
        Fault: unauthenticated, when there is none.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_CHARS:
        raise Fault(Reason.UNAUTHENTICATED, "Authentication error")
    return token
