"""Run one capture: order, hold, sample, build, upload, report."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault, Reason
from contract.messages import Accepted, CaptureReport, CaptureState
from edge_agent import choice, taken
from edge_agent.endings import Endings
from edge_agent.hold import busy
from edge_agent.journal import Entry
from edge_agent.sampler import SampleOrder, sample

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from contract.messages import CaptureKey, Order
    from edge_agent.activity import Activity
    from edge_agent.builder import Build
    from edge_agent.hold import Hold, Holds
    from edge_agent.journal import Journal
    from edge_agent.loaded import Loaded
    from edge_agent.runtime import Clock, Target
    from edge_agent.sampler import Limits, Sampled
    from edge_agent.taken import Site
    from edge_agent.uplink import Uplink

# Of a hold beyond the sampled time: the session's opening, start and stop.
AROUND_MS = 500
# Beyond the holds, captures may wait for their upload; more of them would be memory without bound.
UNFINISHED_PER_HOLD = 4
PROGRESS_S = 1.0
STOP_WAIT_S = 1.0
CLOSE_S = 5.0

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class _Capture:
    order: Order
    target: Target
    hold: Hold
    report: CaptureReport
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    discard: bool = False
    task: asyncio.Task[None] | None = None


class Captures:
    """Captures of this metal: those running, and how the latest that ended did.

    Args:
        builder: opens what builds one profile.
        changed: told when an isolate was taken or freed.
        make_way: has the agent's own profiles leave these isolates; bounded in time.
    """

    def __init__(
        self,
        site: Site,
        *,
        loaded: Loaded,
        activity: Activity,
        holds: Holds,
        journal: Journal,
        uplink: Uplink,
        builder: Callable[[], AbstractAsyncContextManager[Build]],
        clock: Clock,
        limits: Limits,
        changed: Callable[[], None],
        make_way: Callable[[Iterable[Target]], Awaitable[None]],
    ) -> None:
        self._site = site
        self._loaded = loaded
        self._activity = activity
        self._holds = holds
        self._journal = journal
        self._uplink = uplink
        self._builder = builder
        self._clock = clock
        self._limits = limits
        self._changed = changed
        self._make_way = make_way
        self._endings = Endings(uplink, journal)
        self._accepting: dict[CaptureKey, tuple[Order, asyncio.Task[Accepted]]] = {}
        self._live: dict[CaptureKey, _Capture] = {}
        self._closing = False

    def keys(self) -> tuple[CaptureKey, ...]:
        """Captures the control plane must not think lost: running, or ended and not told yet."""
        return (*self._live, *(key for key in self._endings.untold if key not in self._live))

    async def start(self, order: Order) -> Accepted:
        """Take a hold on an isolate and begin. The same order again answers as the first time.

        Answers once the hold is taken and on disk, without waiting for the profiler.

        Raises:
            Fault: as ``choice.choose``; request_invalid for another order under a known key;
                capture_stopped when it was stopped before it came.
        """
        known = self._known(order)
        if known is not None:
            return known
        if self._closing:
            raise Fault(Reason.AGENT_RESTARTED, "The agent is stopping.")
        accepting = self._accepting.get(order.key)
        if accepting is None:
            task = asyncio.create_task(self._accept(order))
            self._accepting[order.key] = (order, task)
            task.add_done_callback(lambda done: self._accepted(order.key, done))
        else:
            _same(accepting[0], order)
            task = accepting[1]
        # Shielded: a caller that gave up may ask again, and must find what it began.
        return await asyncio.shield(task)

    async def stop(self, key: CaptureKey, *, discard: bool) -> CaptureReport:
        """End a capture early, keeping or dropping what was sampled; its isolate is free on return.

        Raises:
            Fault: capture_unknown; should its order still come, it will be refused.
        """
        capture = self._live.get(key)
        if capture is None:
            if self._endings.of(key) is None:
                stopped = self._report(key, CaptureState.STOPPED, "", *_STOPPED)
                self._endings.remember(None, stopped)
                raise _unknown()
            return self.show(key)
        capture.discard = capture.discard or discard
        capture.stop.set()
        if capture.freed.is_set() and capture.discard and capture.task is not None:
            capture.task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_WAIT_S):
                await capture.freed.wait()
        return self.show(key)

    def show(self, key: CaptureKey) -> CaptureReport:
        """How a capture stands, or how it ended.

        Raises:
            Fault: capture_unknown.
        """
        capture = self._live.get(key)
        if capture is not None:
            return capture.report
        ended = self._endings.of(key)
        if ended is None:
            raise _unknown()
        return ended.report

    def lost(self, entry: Entry) -> None:
        """Tell of a capture an earlier run of this agent left open."""
        report = self._report(
            entry.key,
            CaptureState.FAILED,
            entry.isolate_id,
            Reason.AGENT_RESTARTED,
            "The agent restarted during the capture.",
        )
        self._end(None, report)

    async def close(self) -> None:
        """End every capture, leave every isolate clean, tell the control plane; bounded."""
        self._closing = True
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await _all([task for _, task in self._accepting.values()])
                tasks = [one.task for one in self._live.values() if one.task is not None]
                for task in tasks:
                    task.cancel()
                await _all(tasks)
                await self._endings.told()
        await self._endings.close()

    async def _accept(self, order: Order) -> Accepted:
        if len(self._live) >= self._site.max_captures * UNFINISHED_PER_HOLD:
            raise busy("This metal has too many unfinished captures.", int(STOP_WAIT_S * 1000))
        targets = await self._loaded.look()
        await self._make_way(one for one in targets if one.version_id == order.version_id)
        known = self._known(order)
        if known is not None:
            return known
        now_ms = self._now_ms()
        target = choice.choose(
            order,
            targets,
            self._activity,
            self._holds,
            now_ms,
            had=self._endings.isolates_of(order.key.session_id),
        )
        hold = self._holds.take(target.isolate_id, now_ms, order.duration_ms + AROUND_MS)
        capture = _Capture(
            order=order,
            target=target,
            hold=hold,
            report=self._report(order.key, CaptureState.ORDERED, target.isolate_id),
        )
        self._live[order.key] = capture
        self._changed()
        entry = Entry(
            key=order.key,
            isolate_id=target.isolate_id,
            accepted_at_ns=self._clock.time_ns(),
        )
        try:
            await asyncio.to_thread(self._journal.open, entry)
        except OSError as error:
            self._free(capture)
            del self._live[order.key]
            raise Fault(Reason.INTERNAL, f"the journal can't be written: {error}") from None
        capture.task = asyncio.create_task(self._run(capture))
        return Accepted(key=order.key, isolate_id=target.isolate_id)

    def _accepted(self, key: CaptureKey, task: asyncio.Task[Accepted]) -> None:
        self._accepting.pop(key, None)
        # Read it: the one who asked may have gone.
        if not task.cancelled():
            task.exception()

    def _known(self, order: Order) -> Accepted | None:
        capture = self._live.get(order.key)
        if capture is not None:
            _same(capture.order, order)
            return Accepted(key=order.key, isolate_id=capture.target.isolate_id)
        ended = self._endings.of(order.key)
        if ended is None:
            return None
        if ended.order is None:
            raise Fault(ended.report.reason or Reason.CAPTURE_STOPPED, ended.report.message)
        _same(ended.order, order)
        return Accepted(key=order.key, isolate_id=ended.report.isolate_id)

    async def _run(self, capture: _Capture) -> None:
        """All of it; whatever happens, one terminal report comes out."""
        order = capture.order
        state, message = CaptureState.FAILED, "The agent failed."
        reason: Reason | None = Reason.INTERNAL
        progress = asyncio.create_task(self._tell_progress(capture))
        with structlog.contextvars.bound_contextvars(
            session_id=order.key.session_id, capture=order.key.capture, metal=self._site.metal_id
        ):
            try:
                async with asyncio.timeout(order.deadline_ms / 1000):
                    await self._take(capture)
                state, reason, message = CaptureState.UPLOADED, None, ""
            except TimeoutError:
                reason, message = Reason.DEADLINE_PASSED, "The capture took longer than it may."
            except Fault as fault:
                reason, message = fault.reason, fault.message
                if fault.reason in {Reason.CAPTURE_STOPPED, Reason.SESSION_CANCELLED}:
                    state = CaptureState.STOPPED
            except asyncio.CancelledError:
                if capture.discard:
                    state, reason, message = CaptureState.STOPPED, *_STOPPED
                else:
                    reason, message = Reason.AGENT_RESTARTED, "The agent is stopping."
            except Exception:
                log.exception("capture_failed")
            finally:
                self._free(capture)
                progress.cancel()
            # Nothing is awaited from here on: a cancellation would leave it live for ever.
            report = replace(capture.report, state=state, reason=reason, message=message[:1000])
            log.info("capture_ended", state=state, reason=reason, isolate=report.isolate_id)
            self._end(order, report, progress)

    async def _take(self, capture: _Capture) -> None:
        async with self._builder() as build:
            try:
                sampled = await self._sample(capture)
            finally:
                self._free(capture)
            if capture.discard:
                raise Fault(*_STOPPED)
            order, target = capture.order, capture.target
            built = await build(taken.build_order(order, target, sampled, self._site))
            manifest = taken.manifest(order, target, sampled, built, self._site)
            await self._uplink.upload(manifest, built.data, for_s=order.deadline_ms / 1000)

    async def _sample(self, capture: _Capture) -> Sampled:
        order = capture.order

        def progress(sampled_ms: int) -> None:
            capture.report = replace(
                capture.report,
                state=CaptureState.SAMPLING,
                sampled_ms=min(sampled_ms, order.duration_ms),
            )

        runtime = self._loaded.runtime(capture.target)
        async with runtime.probe(capture.target) as probe:
            if capture.stop.is_set() and capture.discard:
                raise Fault(*_STOPPED)
            return await sample(
                probe,
                SampleOrder(
                    profile_type=order.profile_type,
                    duration_ms=order.duration_ms,
                    sampling_interval_us=order.sampling_interval_us,
                ),
                self._limits,
                self._clock,
                capture.stop,
                progress,
            )

    async def _tell_progress(self, capture: _Capture) -> None:
        """Best effort, one at a time: what is not told now is told by the next or by the end."""
        told = capture.report
        while True:
            await self._clock.sleep(PROGRESS_S)
            left_ms = capture.order.duration_ms - capture.report.sampled_ms
            # About to end: the profile is the better news, and must not wait for this to be read.
            if capture.report != told and left_ms > PROGRESS_S * 500:
                told = capture.report
                with suppress(Fault):
                    await self._uplink.report_capture(told, for_s=0)

    def _free(self, capture: _Capture) -> None:
        if not capture.freed.is_set():
            self._holds.release(capture.hold)
            capture.report = replace(capture.report, freed=True)
            capture.freed.set()
            self._changed()

    def _end(self, order: Order | None, report: CaptureReport, *before: asyncio.Task[None]) -> None:
        self._endings.add(order, report, before)
        # Known as ended before it stops being known as live: there is no moment in between.
        self._live.pop(report.key, None)

    def _report(
        self,
        key: CaptureKey,
        state: CaptureState,
        isolate_id: str,
        reason: Reason | None = None,
        message: str = "",
    ) -> CaptureReport:
        return CaptureReport(
            key=key,
            metal_id=self._site.metal_id,
            state=state,
            isolate_id=isolate_id,
            sampled_ms=0,
            reason=reason,
            message=message,
        )

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000


_STOPPED = (Reason.CAPTURE_STOPPED, "The capture was stopped.")


def _same(before: Order, order: Order) -> None:
    if before != order:
        raise Fault(Reason.REQUEST_INVALID, "Another order was given under this key.")


def _unknown() -> Fault:
    return Fault(Reason.CAPTURE_UNKNOWN, "This agent does not know the capture.")


async def _all(tasks: list[asyncio.Task[None]] | list[asyncio.Task[Accepted]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
