"""What the handlers work with, under typed keys of the application."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from control_plane.blobs import Blobs
    from control_plane.settings import Settings
    from control_plane.store.database import Database
    from control_plane.store.notices import Notices


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The stores one replica's REST edge reads and writes."""

    db: Database
    notices: Notices
    blobs: Blobs
    settings: Settings


PARTS: web.AppKey[Parts] = web.AppKey("parts")
# Set when this replica stops waiting for sessions; they go on without it.
DRAINING: web.AppKey[asyncio.Event] = web.AppKey("draining", asyncio.Event)
# Clean-up of callers that hung up: kept here so that it outlives the request it belongs to.
HANG_UPS: web.AppKey[set[asyncio.Task[None]]] = web.AppKey("hang_ups")
