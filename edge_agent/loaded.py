"""Which isolates are loaded on this metal, as last seen; what is gone is forgotten."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edge_agent.activity import Activity
    from edge_agent.runtime import Runtime, Target

# Within the two seconds an order may take, with room for all the rest.
LOOK_S = 0.7


class Loaded:
    """The targets of all runtimes. A runtime too busy to answer keeps what it had."""

    def __init__(
        self, runtimes: Sequence[Runtime], activity: Activity, look_s: float = LOOK_S
    ) -> None:
        self._runtimes = {runtime.runtime_id: runtime for runtime in runtimes}
        self._activity = activity
        self._look_s = look_s
        self._seen: dict[str, tuple[Target, ...]] = dict.fromkeys(self._runtimes, ())

    @property
    def targets(self) -> tuple[Target, ...]:
        """As last seen."""
        return tuple(target for seen in self._seen.values() for target in seen)

    def runtime(self, target: Target) -> Runtime:
        """The process that hosts an isolate."""
        return self._runtimes[target.runtime_id]

    async def look(self) -> tuple[Target, ...]:
        """Ask every runtime at once; bounded in time."""
        await asyncio.gather(*(self._ask(runtime) for runtime in self._runtimes.values()))
        return self.targets

    async def _ask(self, runtime: Runtime) -> None:
        try:
            async with asyncio.timeout(self._look_s):
                found = await runtime.targets()
        except TimeoutError:
            return
        generations = {target.isolate_id: target.generation for target in found}
        for before in self._seen[runtime.runtime_id]:
            # Gone, or gone and back: a new heap that has run nothing yet.
            if generations.get(before.isolate_id) != before.generation:
                self._activity.forget(before.isolate_id)
        self._seen[runtime.runtime_id] = found
