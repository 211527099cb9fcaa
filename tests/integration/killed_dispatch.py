"""A dispatch that kills its own process while it writes a session's captures.

Words: where the database is; and before which of its statements, or at the commit, or after it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys

import obstore.store
from sqlalchemy import event

from control_plane.blobs import Blobs
from control_plane.dispatch import Dispatch
from control_plane.settings import Settings
from control_plane.store.database import Database
from control_plane.store.notices import Notices
from tests.integration.planes import ScriptedAgents


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, at: str) -> None:
    async with Database.open(url) as db, Notices.open(db) as notices:
        dispatch = Dispatch(
            db,
            notices,
            ScriptedAgents(),
            Blobs(obstore.store.MemoryStore()),
            Settings(),
            replica="killed",
            rng=random.Random(1),
        )
        seen = 0

        def count(*_: object) -> None:
            nonlocal seen
            seen += 1
            if str(seen) == at:
                die()

        engine = db._engine.sync_engine
        event.listen(engine, "before_cursor_execute", count)
        if at == "commit":
            event.listen(engine, "commit", die)
        await dispatch._order()
        if at == "committed":
            die()


asyncio.run(main(*sys.argv[1:]))
