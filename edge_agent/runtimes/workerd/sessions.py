"""Sessions with one process's isolates: one at a time per isolate, never too soon, none left dirty.

The profiler belongs to the isolate and outlives the session that started it. So a session that ends
without knowing the profiler stopped leaves its isolate on a list, and the list is worked off until
each answers or is gone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from edge_agent.runtimes.workerd import cdp, targets
from edge_agent.runtimes.workerd.inspector import Inspector, Patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    import aiohttp

    from edge_agent.runtime import Clock

# A session opened on the heels of one's own last one can kill both; from 5 ms on none was seen to.
SETTLE_S = 0.02
# After a session was cut, the runtime may still believe in it.
SETTLE_AFTER_CUT_S = 0.1
CLEAR_ATTEMPTS = 3
CLEAR_AGAIN_S = 1.0
CLEAR_FOR_S = 600.0
LIST_S = 1.0


class Sessions:
    """Opens sessions with the isolates of one process.

    Args:
        back_off_s: how long an isolate is left alone after somebody else's session cut ours.
        max_reply_bytes: largest reply read into memory.
    """

    def __init__(
        self,
        inspector: str,
        clock: Clock,
        *,
        patience: Patience,
        back_off_s: float,
        max_reply_bytes: int,
    ) -> None:
        targets.loopback(inspector)
        self._inspector = inspector
        self._clock = clock
        self._patience = patience
        self._back_off_s = back_off_s
        self._max_reply_bytes = max_reply_bytes
        self._http: aiohttp.ClientSession | None = None
        self._process = asyncio.Lock()
        self._isolates: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._not_before_ns: dict[str, int] = {}
        self._away_until_ns: dict[str, int] = {}
        self._work: set[asyncio.Task[None]] = set()

    def busy(self, service: str) -> bool:
        """Whether a session with this isolate is open, or somebody else's is thought to be."""
        return self._isolates[service].locked() or self._away_s(service) > 0

    async def cleaned(self) -> None:
        """Return when no isolate is left that may have a profiler running nobody waits for."""
        while self._work:
            await asyncio.wait(tuple(self._work))

    async def listed(self) -> frozenset[str] | None:
        """The services loaded now, or None when the process is gone or says nothing sensible."""
        return await targets.listed(self._client(), self._inspector, LIST_S)

    @asynccontextmanager
    async def open(self, service: str) -> AsyncIterator[Inspector]:
        """A session of one's own with this isolate. On exit its profiler is stopped, then it ends.

        Raises:
            Fault: ``inspector_lost`` with ``retry_after_s`` while another client is thought to be
                attached; else as ``cdp.connect`` does.
        """
        away_s = self._away_s(service)
        if away_s > 0:
            raise Fault(
                Reason.INSPECTOR_LOST,
                "another inspector client seems to be attached to this isolate",
                retry_after_s=away_s,
            )
        async with self._isolates[service]:
            session = await self._connect(service)
            probe = Inspector(session, self._process, self._patience, lambda: self._gone(service))
            try:
                yield probe
            finally:
                await self._finish(self._leave(service, session, probe))

    async def clear(self, service: str) -> bool:
        """Stop a profiler left running by a session that is no more. True if one was.

        Raises:
            Fault: it could not be done.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                async with self._isolates[service]:
                    return await self._cleared(service)
            except Fault as fault:
                if fault.reason is not Reason.INSPECTOR_LOST or attempt == CLEAR_ATTEMPTS:
                    raise
            # The session it was left by may still be ending, and takes a new one with it.
            await self._clock.sleep(SETTLE_AFTER_CUT_S)

    async def close(self) -> None:
        """End all work of its own and the connections."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        if self._http is not None:
            await self._http.close()
            self._http = None

    def _client(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = cdp.client()
        return self._http

    def _away_s(self, service: str) -> float:
        return (self._away_until_ns.get(service, 0) - self._clock.monotonic_ns()) / 1e9

    async def _connect(self, service: str) -> cdp.Cdp:
        wait_ns = self._not_before_ns.get(service, 0) - self._clock.monotonic_ns()
        if wait_ns > 0:
            await self._clock.sleep(wait_ns / 1e9)
        async with self._process:
            try:
                return await cdp.connect(
                    self._client(),
                    self._inspector,
                    service,
                    clock=self._clock,
                    timeout_s=self._patience.connect_s,
                    max_reply_bytes=self._max_reply_bytes,
                )
            except BaseException:
                # Half a session may still come to life there, and would take the next one with it.
                self._settle(service, SETTLE_AFTER_CUT_S)
                raise

    def _settle(self, service: str, seconds: float) -> None:
        self._not_before_ns[service] = self._clock.monotonic_ns() + int(seconds * 1e9)

    async def _gone(self, service: str) -> bool:
        """Whether a session was cut because its isolate is no more."""
        loaded = await self.listed()
        return loaded is None or service not in loaded

    async def _leave(self, service: str, session: cdp.Cdp, probe: Inspector) -> None:
        try:
            with suppress(Fault):
                await probe.leave()
            cut = session.cut
            settle_s = SETTLE_S if cut is None else SETTLE_AFTER_CUT_S
            if cut is not None and cut.reason is Reason.INSPECTOR_LOST and not probe.unclean:
                await self._back_off(service)
        finally:
            await session.close()
        self._settle(service, settle_s)
        if probe.unclean:
            _ = self._begin(self._clear_later(service))

    async def _back_off(self, service: str) -> None:
        """Cut while nothing of ours ran: somebody attached DevTools, and two clients collide."""
        if not await self._gone(service):
            self._away_until_ns[service] = self._clock.monotonic_ns() + int(self._back_off_s * 1e9)

    async def _cleared(self, service: str) -> bool:
        session = await self._connect(service)
        probe = Inspector(session, self._process, self._patience, lambda: self._gone(service))
        try:
            return await probe.clear()
        finally:
            await session.close()
            self._settle(service, SETTLE_S)

    async def _clear_later(self, service: str) -> None:
        """Go on trying to clear an isolate for as long as it may still be there."""
        until_ns = self._clock.monotonic_ns() + int(CLEAR_FOR_S * 1e9)
        while self._clock.monotonic_ns() < until_ns:
            try:
                await self.clear(service)
            except Fault as fault:
                if fault.reason in {Reason.TARGET_EXITED, Reason.NOT_LOADED}:
                    return
            else:
                return
            await self._clock.sleep(CLEAR_AGAIN_S)

    def _begin(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def _finish(self, work: Coroutine[object, object, None]) -> None:
        """Do this to its end even when its waiter is cancelled; its own timeouts bound it."""
        task = self._begin(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait((task,))
            raise
