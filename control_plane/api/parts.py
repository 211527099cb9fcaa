"""What the handlers work with, under typed keys of the application."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from control_plane.api.streams import Streams

if TYPE_CHECKING:
    from control_plane.access import Refusals
    from control_plane.blobs import Blobs
    from control_plane.metrics import Metrics
    from control_plane.settings import Settings
    from control_plane.store.database import Database
    from control_plane.store.notices import Notices


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The stores one replica's REST edges read and write.

    Args:
        token_key: what stored tokens are hashed with.
        refusals: told who was turned away.
        metrics: what this replica counts.
    """

    db: Database
    notices: Notices
    blobs: Blobs
    settings: Settings
    token_key: bytes = field(repr=False)
    refusals: Refusals
    metrics: Metrics


PARTS: web.AppKey[Parts] = web.AppKey("parts")
# Set as soon as this replica stops: what others can go on with is ended.
STOPPING: web.AppKey[asyncio.Event] = web.AppKey("stopping", asyncio.Event)
# Set when this replica stops waiting for sessions; they go on without it.
DRAINING: web.AppKey[asyncio.Event] = web.AppKey("draining", asyncio.Event)
STREAMS: web.AppKey[Streams] = web.AppKey("streams", Streams)
# Clean-up of callers that hung up: kept here so that it outlives the request it belongs to.
HANG_UPS: web.AppKey[set[asyncio.Task[None]]] = web.AppKey("hang_ups")
