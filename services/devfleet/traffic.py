"""Bounded traffic: every place gets its version's rate of requests, one at a time, all counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.devfleet.fleet import Plan
    from services.devfleet.ports import Addresses

REQUEST_TIMEOUT_S = 10.0
GENTLE_AFTER_S = 1800.0
GENTLE_FACTOR = 0.25
KEPT_ANSWERS = 4000


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One request as its sender saw it, ended ``at_s``; ``status`` 0: there was no answer."""

    at_s: float
    took_s: float
    status: int


class Stream:
    """Requests to one version in one place, one at a time: a slow Worker is asked less often."""

    def __init__(
        self,
        *,
        worker: str,
        tag: str,
        metal_id: str,
        address: str,
        rate: float,
        requests: int | None,
        paths: tuple[str, ...],
    ) -> None:
        self.worker = worker
        self.tag = tag
        self.metal_id = metal_id
        self.rate = rate
        self.answered = 0
        self.failed = 0
        self.recent: deque[Answer] = deque(maxlen=KEPT_ANSWERS)
        self._url = f"http://{address}"
        self._requests = requests
        self._paths = paths
        self._sent = 0

    async def ask(self, http: aiohttp.ClientSession) -> None:
        """Send one request and count its answer."""
        path = self._paths[self._sent % len(self._paths)]
        self._sent += 1
        began, status = time.monotonic(), 0
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with http.get(self._url + path) as answer:
                await answer.read()
                status = answer.status
        ended = time.monotonic()
        self.recent.append(Answer(at_s=ended, took_s=ended - began, status=status))
        if status == 200:
            self.answered += 1
        else:
            self.failed += 1

    async def flow(self, http: aiohttp.ClientSession, began_s: float) -> None:
        """Ask at the stream's rate until cancelled; a missed moment is not caught up with."""
        while self._requests is None or self._sent < self._requests:
            rate = self.rate
            if time.monotonic() - began_s > GENTLE_AFTER_S:
                rate *= GENTLE_FACTOR
            pause_until = time.monotonic() + 1 / rate
            await self.ask(http)
            await asyncio.sleep(max(0.0, pause_until - time.monotonic()))


class Traffic:
    """All streams of the fleet. Gentle after half an hour: a demo left open should cost little."""

    def __init__(self, plan: Plan, addresses: Addresses) -> None:
        self.streams = tuple(
            Stream(
                worker=place.worker.name,
                tag=place.version.tag,
                metal_id=metal.metal_id,
                address=addresses.metals[metal.metal_id]
                .processes[process.runtime_id]
                .workers[place.service],
                rate=place.version.rate,
                requests=place.version.requests,
                paths=place.version.paths,
            )
            for metal in plan.metals
            for process in metal.processes
            for place in process.places
            if place.version.rate > 0
        )
        self.began_s = 0.0
        self._http: aiohttp.ClientSession | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to send. Must be called in a running event loop."""
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            connector=aiohttp.TCPConnector(limit=0),
        )
        self.began_s = time.monotonic()
        self._tasks = [
            asyncio.create_task(stream.flow(self._http, self.began_s)) for stream in self.streams
        ]

    async def stop(self) -> None:
        """Send no more; requests under way are dropped."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._http is not None:
            await self._http.close()
            self._http = None

    def of(self, worker: str, tag: str) -> tuple[Stream, ...]:
        """Find the streams of one version, one per place."""
        return tuple(s for s in self.streams if (s.worker, s.tag) == (worker, tag))

    def answered(self, worker: str, tag: str) -> int:
        """Count the requests of one version that were answered with 200 so far."""
        return sum(stream.answered for stream in self.of(worker, tag))

    @contextlib.contextmanager
    def at_rate(self, worker: str, tag: str, rate: float) -> Iterator[None]:
        """Another rate for one version for a while."""
        streams = self.of(worker, tag)
        before = [stream.rate for stream in streams]
        for stream in streams:
            stream.rate = rate
        try:
            yield
        finally:
            for stream, was in zip(streams, before, strict=True):
                stream.rate = was
