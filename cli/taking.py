"""A capture asked for as a session and followed to its end: with progress that is the server's."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cli import api, events, progress

if TYPE_CHECKING:
    from cli.api import Api, Profile

ROOT = "profile-sessions"


async def profile(client: Api, body: dict[str, Any], what: str) -> Profile:
    """Create a session, follow it, and fetch its profile. Interrupted, the session is discarded.

    Raises:
        ApiError: it was refused, or ended without a profile.
    """
    made = await client.call("POST", ROOT, body=body)
    session_id = str(made["result"]["id"])
    check((await ended(client, session_id, what))["result"])
    return await client.profile("GET", ROOT, session_id, "profile")


async def ended(client: Api, session_id: str, what: str) -> dict[str, Any]:
    """Follow a session to its end and return it as it is then. Interrupted, it is discarded.

    Raises:
        ApiError: it could not be followed.
    """
    try:
        with progress.bar(what) as shown:
            async for event in events.follow(client, session_id):
                shown.tell(said(event))
                if event.kind == "progress":
                    shown.at(event.data["sampled_ms"], event.data["duration_ms"])
        return await client.call("GET", ROOT, session_id)
    except asyncio.CancelledError:
        with suppress(api.ApiError):
            await client.call("DELETE", ROOT, session_id)
        raise


def check(end: dict[str, Any]) -> None:
    """Raise unless a session, or the event that ended it, says that there is a profile.

    Raises:
        ApiError: why there is none.
    """
    if end["state"] == "ready":
        return
    why = ": ".join(str(one) for one in (end.get("reason"), end.get("message")) if one)
    raise api.ApiError(0, (api.Problem(code=0, message=f"the session is {end['state']}, {why}"),))


def said(event: events.Event) -> str:
    """Put an event in a line; empty for progress."""
    data = event.data
    if event.kind == "progress":
        return ""
    who = f"capture {data.get('capture')}" if event.kind == "capture" else "session"
    why = ": ".join(str(one) for one in (data.get("reason"), data.get("message")) if one)
    return f"{data.get('at', '')}  {who} {data.get('state', '')}" + (f"  {why}" if why else "")
