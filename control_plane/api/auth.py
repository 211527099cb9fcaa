"""Who calls: the bearer token of a request, resolved for the account its path names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from control_plane import access
from control_plane.api.edge import route
from control_plane.api.parts import PARTS
from control_plane.store.accounts import Permission

if TYPE_CHECKING:
    from aiohttp import web

MAX_TOKEN_CHARS = 512

_ACCOUNT = "/client/v4/accounts/{account_id}"
_WORKERS = f"{_ACCOUNT}/workers/workers"
_SCRIPTS = f"{_ACCOUNT}/workers/scripts"
_NAMESPACES = f"{_ACCOUNT}/workers/durable_objects/namespaces"
_SESSIONS = f"{_ACCOUNT}/profile-sessions"

READS = frozenset({Permission.WORKERS_SCRIPTS_READ, Permission.WORKERS_SCRIPTS_WRITE})
"""To see Workers; who may write them may see them."""
PROFILES = READS | {Permission.PROFILING}
"""To take profiles and to see them: published clients do it with a token that reads."""
WRITES = frozenset({Permission.WORKERS_SCRIPTS_WRITE})

NEEDS: dict[tuple[str, str], frozenset[Permission]] = {
    ("GET", _WORKERS): READS,
    ("GET", f"{_WORKERS}/{{worker}}"): READS,
    ("GET", f"{_WORKERS}/{{worker}}/versions"): READS,
    ("GET", f"{_WORKERS}/{{worker}}/versions/{{version}}"): READS,
    ("POST", f"{_WORKERS}/{{worker}}/versions/{{version}}/profile"): PROFILES,
    ("GET", f"{_WORKERS}/{{worker}}/versions/{{version}}/activity"): READS | PROFILES,
    ("GET", f"{_SCRIPTS}/{{worker}}/versions"): READS,
    ("GET", f"{_SCRIPTS}/{{worker}}/versions/{{version}}"): READS,
    ("GET", f"{_SCRIPTS}/{{worker}}/deployments"): READS,
    ("POST", f"{_SCRIPTS}/{{worker}}/deployments"): WRITES,
    ("GET", _NAMESPACES): READS,
    ("GET", f"{_NAMESPACES}/{{namespace_id}}/objects"): READS,
    ("POST", _SESSIONS): PROFILES,
    ("GET", _SESSIONS): PROFILES,
    ("GET", f"{_SESSIONS}/{{session_id}}"): PROFILES,
    ("DELETE", f"{_SESSIONS}/{{session_id}}"): PROFILES,
    ("GET", f"{_SESSIONS}/{{session_id}}/profile"): PROFILES,
    ("GET", f"{_SESSIONS}/{{session_id}}/captures/{{capture}}/profile"): PROFILES,
    ("POST", f"{_SESSIONS}/{{session_id}}/stop"): PROFILES,
    ("GET", f"{_SESSIONS}/{{session_id}}/events"): PROFILES,
    ("GET", f"{_SESSIONS}/{{session_id}}/diff/{{base_id}}"): PROFILES,
}
"""One of these permissions is enough, by method and route; total over the routes, by test."""


async def account(request: web.Request) -> str:
    """Authenticate, and return the account id of the path once the token is known to be its.

    Raises:
        Fault: unauthenticated; permission_missing for a token of another account, or of another
            purpose.
    """
    parts = request.app[PARTS]
    account_id = request.match_info["account_id"]
    method = "GET" if request.method == "HEAD" else request.method
    needs = NEEDS[method, route(request)]
    await access.authenticate(parts.db, parts.token_key, bearer(request), account_id, needs)
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
