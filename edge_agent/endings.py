"""How the latest captures of this metal ended, and telling the control plane so."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault
from contract.messages import CaptureState

if TYPE_CHECKING:
    from contract.messages import CaptureKey, CaptureReport, Order
    from edge_agent.journal import Journal
    from edge_agent.uplink import Uplink

MOST_KEPT = 1_000
TELL_S = 60.0

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A capture that is over. ``order``: None when it was not given to this run of the agent."""

    order: Order | None
    report: CaptureReport


class Endings:
    """Remembers ends, so that a message that comes twice finds the same, and tells each once."""

    def __init__(self, uplink: Uplink, journal: Journal) -> None:
        self._uplink = uplink
        self._journal = journal
        self._kept: OrderedDict[CaptureKey, Ended] = OrderedDict()
        self._telling: dict[CaptureKey, asyncio.Task[None]] = {}

    @property
    def untold(self) -> tuple[CaptureKey, ...]:
        """Captures whose end is not told yet."""
        return tuple(self._telling)

    def of(self, key: CaptureKey) -> Ended | None:
        """How a capture ended; None when that is not known, or not any more."""
        return self._kept.get(key)

    def isolates_of(self, session_id: str) -> set[str]:
        """Isolates in which captures of a session ended; empty when none is remembered."""
        return {
            ended.report.isolate_id
            for key, ended in self._kept.items()
            if key.session_id == session_id and ended.report.isolate_id
        }

    def remember(self, order: Order | None, report: CaptureReport) -> None:
        """Keep an end that nobody need be told."""
        self._kept[report.key] = Ended(order=order, report=report)
        self._kept.move_to_end(report.key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def add(
        self,
        order: Order | None,
        report: CaptureReport,
        before: tuple[asyncio.Task[None], ...] = (),
    ) -> None:
        """Keep an end and tell it.

        Args:
            before: what is still being told of the same capture; the end is told last.
        """
        self.remember(order, report)
        self._telling[report.key] = asyncio.create_task(self._tell(report, before))

    async def told(self) -> None:
        """Return when all there is to tell now was told, or can't be."""
        await asyncio.gather(*self._telling.values(), return_exceptions=True)

    async def close(self) -> None:
        """Give up on what is not told yet: the journal has it, for the next run of the agent."""
        for task in self._telling.values():
            task.cancel()
        await self.told()

    async def _tell(self, report: CaptureReport, before: tuple[asyncio.Task[None], ...]) -> None:
        try:
            await asyncio.gather(*before, return_exceptions=True)
            # An upload that was taken has told already.
            if report.state is not CaptureState.UPLOADED:
                await self._report(report)
            # Only now: killed before, the next run of the agent tells it.
            await asyncio.to_thread(self._journal.close, report.key)
        finally:
            # Last, so that an agent that closes waits for the journal too.
            self._telling.pop(report.key, None)

    async def _report(self, report: CaptureReport) -> None:
        try:
            await self._uplink.report_capture(report, for_s=TELL_S)
        except Fault as fault:
            log.warning("capture_end_untold", reason=fault.reason, session_id=report.key.session_id)
