"""What ran, where and when: counts in a sliding window, last times per isolate and actor. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edge_agent.runtime import Execution

BUCKETS = 60
MOST_ACTORS = 50_000


@dataclass(frozen=True, kw_only=True)
class SeenActor:
    """One actor that ran in an isolate. ``entrypoint``: its class, where the runtime tells."""

    isolate_id: str
    actor_id: str
    entrypoint: str | None
    idle_ms: int


@dataclass(kw_only=True)
class _Isolate:
    last_ms: int
    total: int = 0
    buckets: deque[tuple[int, int]] = field(default_factory=deque)


class Activity:
    """Fed with executions, asked by time. Bounded: buckets per isolate, and actors in all.

    Args:
        window_ms: how far back executions count.
        most_actors: beyond this the actor that ran longest ago is forgotten.
    """

    def __init__(self, window_ms: int, most_actors: int = MOST_ACTORS) -> None:
        self._window_ms = window_ms
        self._bucket_ms = max(1, window_ms // BUCKETS)
        self._most_actors = most_actors
        self._isolates: dict[str, _Isolate] = {}
        # (isolate, actor) -> (last ran, class); least recently run first.
        self._actors: OrderedDict[tuple[str, str], tuple[int, str | None]] = OrderedDict()

    def record(self, execution: Execution, now_ms: int) -> bool:
        """Count what ran. True when it is the first the isolate was ever seen to run."""
        if execution.count < 1:
            return False
        known = self._isolates.get(execution.isolate_id)
        isolate = known or _Isolate(last_ms=now_ms)
        self._isolates[execution.isolate_id] = isolate
        isolate.last_ms = max(isolate.last_ms, now_ms)
        isolate.total += execution.count
        bucket = now_ms // self._bucket_ms
        buckets = isolate.buckets
        if buckets and buckets[-1][0] >= bucket:
            buckets[-1] = (buckets[-1][0], buckets[-1][1] + execution.count)
        else:
            buckets.append((bucket, execution.count))
            self._trim(buckets, now_ms)
        if execution.actor_id is not None:
            key = (execution.isolate_id, execution.actor_id)
            self._actors[key] = (now_ms, execution.entrypoint)
            self._actors.move_to_end(key)
            if len(self._actors) > self._most_actors:
                self._actors.popitem(last=False)
        return known is None

    def executions(self, isolate_id: str, now_ms: int) -> int:
        """How often the isolate ran something in the window."""
        isolate = self._isolates.get(isolate_id)
        if isolate is None:
            return 0
        self._trim(isolate.buckets, now_ms)
        return sum(count for _, count in isolate.buckets)

    def total(self, isolate_id: str) -> int:
        """How often it ran something since it was first seen; only grows until it is forgotten."""
        isolate = self._isolates.get(isolate_id)
        return isolate.total if isolate else 0

    def idle_ms(self, isolate_id: str, now_ms: int) -> int | None:
        """Since it last ran anything; None when it never did."""
        isolate = self._isolates.get(isolate_id)
        return None if isolate is None else max(0, now_ms - isolate.last_ms)

    def actor(self, isolate_id: str, actor_id: str, now_ms: int) -> SeenActor | None:
        """An actor that ran in this isolate within the window."""
        seen = self._actors.get((isolate_id, actor_id))
        if seen is None or now_ms - seen[0] > self._window_ms:
            return None
        return SeenActor(
            isolate_id=isolate_id,
            actor_id=actor_id,
            entrypoint=seen[1],
            idle_ms=max(0, now_ms - seen[0]),
        )

    def actors(self, now_ms: int, within_ms: int, most: int) -> tuple[SeenActor, ...]:
        """Actors that ran within this time, latest first, no more than ``most``."""
        found: list[SeenActor] = []
        for (isolate_id, actor_id), (last_ms, entrypoint) in reversed(self._actors.items()):
            idle_ms = max(0, now_ms - last_ms)
            if idle_ms > min(within_ms, self._window_ms) or len(found) >= most:
                break
            found.append(
                SeenActor(
                    isolate_id=isolate_id,
                    actor_id=actor_id,
                    entrypoint=entrypoint,
                    idle_ms=idle_ms,
                )
            )
        return tuple(found)

    def busiest(self, isolate_ids: Iterable[str], now_ms: int) -> list[str]:
        """Those that ran anything ever, the one with most executions in the window first."""
        ran = [(one, self.idle_ms(one, now_ms)) for one in isolate_ids]
        return [
            one
            for one, _ in sorted(
                ((one, idle) for one, idle in ran if idle is not None),
                key=lambda pair: (-self.executions(pair[0], now_ms), pair[1], pair[0]),
            )
        ]

    def forget(self, isolate_id: str) -> None:
        """The isolate is gone: what comes back under its name is a new one."""
        self._isolates.pop(isolate_id, None)
        for key in [key for key in self._actors if key[0] == isolate_id]:
            del self._actors[key]

    def _trim(self, buckets: deque[tuple[int, int]], now_ms: int) -> None:
        oldest = (now_ms - self._window_ms) // self._bucket_ms
        while buckets and buckets[0][0] <= oldest:
            buckets.popleft()
