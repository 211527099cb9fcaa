"""A session's events as the command reads them: a stream, taken up again where it was cut."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cli import api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TERMINAL = frozenset({"ready", "failed", "cancelled", "expired"})
# A replica that stops costs a moment; an API that stays away, this many of them in a row.
MAX_TRIES = 8
PAUSE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event. ``id`` is empty for progress, from which nothing can be resumed."""

    id: str
    kind: str
    data: dict[str, Any]

    @property
    def ends(self) -> bool:
        """Whether the session has ended with it."""
        return self.kind == "session" and self.data.get("state") in TERMINAL


class Parser:
    """Reads Server-Sent Events line by line; what it does not know it passes over."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def line(self, text: str) -> Event | None:
        """Take a line without its end; an event when this empty one ends one."""
        if text:
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if name == "data" and "data" in self._fields:
                value = f"{self._fields['data']}\n{value}"
            self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        try:
            data = json.loads(fields.get("data", ""))
        except ValueError:
            return None
        if not isinstance(data, dict):
            return None
        return Event(id=fields.get("id", ""), kind=fields.get("event", "message"), data=data)


async def follow(client: api.Api, session_id: str) -> AsyncIterator[Event]:
    """Yield a session's events until it has ended, over as many streams as that takes.

    Raises:
        ApiError: the API refused, or could not be reached several times in a row.
    """
    last_id, tries = "", 0
    while True:
        tries += 1
        lost = api.unreached("the events of the session broke off")
        try:
            parser = Parser()
            path = ("profile-sessions", session_id, "events")
            async for text in client.lines(*path, last_id=last_id):
                event = parser.line(text)
                if event is None:
                    continue
                tries = 0
                last_id = event.id or last_id
                yield event
                if event.ends:
                    return
        except api.ApiError as error:
            if not _passes(error):
                raise
            lost = error
        if tries >= MAX_TRIES:
            raise lost
        await asyncio.sleep(max(PAUSE_S, lost.retry_after_s or 0))


def _passes(error: api.ApiError) -> bool:
    # No answer, too many readers, or a server in trouble; any other refusal stays what it is.
    return error.status in {0, 429} or error.status >= 500
