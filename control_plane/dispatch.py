"""Orders to agents. Any replica does it, by lease; what one began another finishes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import structlog

from contract.faults import Fault, Reason
from contract.messages import Accepted, Order
from control_plane import ordering
from control_plane.merging import Merging
from control_plane.metrics import Metrics
from control_plane.session import CaptureEvent
from control_plane.store import captures, reports, sessions
from control_plane.store.captures import Stop
from control_plane.store.notices import DISPATCH, STOPS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from random import Random

    from contract.messages import CaptureKey, CaptureReport
    from control_plane.blobs import Blobs
    from control_plane.ordering import Ordered, Step
    from control_plane.settings import Settings
    from control_plane.store.captures import Capture
    from control_plane.store.database import Connection, Database
    from control_plane.store.notices import Notices
    from control_plane.store.sessions import Session

log = structlog.get_logger(__name__)


class Agents(Protocol):
    """The agents, by address: over gRPC, or scripted in tests. Each call is short."""

    async def start_capture(self, address: str, order: Order, *, metal_id: str) -> Accepted:
        """Order a capture; idempotent by its key.

        Raises:
            Fault: what the agent refused with; agent_unreachable when it gave no answer.
        """
        ...

    async def stop_capture(
        self, address: str, key: CaptureKey, *, metal_id: str, discard: bool
    ) -> CaptureReport:
        """End a capture early.

        Raises:
            Fault: capture_unknown; agent_unreachable.
        """
        ...

    async def show_capture(self, address: str, key: CaptureKey, *, metal_id: str) -> CaptureReport:
        """Ask how a capture stands.

        Raises:
            Fault: capture_unknown; agent_unreachable.
        """
        ...


class _Unknown(Exception):  # noqa: N818 - never leaves this module
    """The agent knows nothing of the capture."""


class Dispatch:
    """One replica's dispatch.

    Args:
        replica: names this replica in leases; unique among those that run.
        rng: decides among metals that are equally fit.
    """

    def __init__(
        self,
        db: Database,
        notices: Notices,
        agents: Agents,
        blobs: Blobs,
        settings: Settings,
        *,
        replica: str,
        rng: Random,
        metrics: Metrics | None = None,
    ) -> None:
        self._db = db
        self._metrics = metrics or Metrics()
        self._notices = notices
        self._agents = agents
        self._settings = settings
        self._replica = replica
        self._rng = rng
        self._merging = Merging(db, blobs, replica=replica, lease_ms=settings.lease_ms)
        self._slots = asyncio.Semaphore(settings.max_orders)
        self._calls = asyncio.Semaphore(settings.max_orders)
        self._stop_slots = asyncio.Semaphore(settings.max_orders)
        self._sending: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Dispatch until cancelled; orders under way are then let finish."""
        # Apart: orders that wait for agents which do not answer hold up no stop.
        loops = [
            asyncio.create_task(self._claim_all(notice, claim))
            for notice, claim in ((DISPATCH, self._claim_order), (STOPS, self._claim_stop))
        ]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await self._finish()

    async def _claim_all(self, notice: str, claim: Callable[[], Awaitable[bool]]) -> None:
        poll_s = self._settings.dispatch_poll_ms / 1000
        with self._notices.watch(notice) as watch:
            while True:
                try:
                    await _all_of(claim)
                except Fault as fault:
                    log.warning("dispatch_waits", reason=fault.reason, message=fault.message)
                    await asyncio.sleep(poll_s)
                await watch.wait(poll_s)

    async def turn(self) -> None:
        """Send all that is due now, side by side; ``finished`` waits for the answers.

        Raises:
            Fault: store_unavailable.
        """
        await _all_of(self._claim_order)
        await _all_of(self._claim_stop)

    async def finished(self) -> None:
        """Wait until nothing this replica sent is still under way."""
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def _finish(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.order_timeout_ms * 2 / 1000):
                await self.finished()
        for task in self._sending:
            task.cancel()

    def _send(self, work: Coroutine[object, object, None], slots: asyncio.Semaphore | None) -> None:
        task = asyncio.create_task(work)
        self._sending.add(task)
        task.add_done_callback(lambda done: self._sent(done, slots))

    def _sent(self, task: asyncio.Task[None], slots: asyncio.Semaphore | None) -> None:
        self._sending.discard(task)
        if slots is not None:
            slots.release()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Fault):
            # The lease lapses, and whoever claims the session then asks the agent how it stands.
            log.warning("order_unsettled", reason=error.reason, message=error.message)
        elif error is not None:
            log.error("order_failed", exc_info=error)

    async def _claim_order(self) -> bool:
        await self._slots.acquire()
        try:
            more, step = await self._order()
        except BaseException:
            self._slots.release()
            raise
        if step.merge is not None:
            # Orders do not wait for merges: their slots are their own.
            self._send(self._merging.merge(step.merge), None)
        if step.orders:
            self._send(self._start_all(step.orders), self._slots)
            # The orders go out before the next ones are looked for.
            await asyncio.sleep(0)
        else:
            self._slots.release()
        return more

    async def _order(self) -> tuple[bool, Step]:
        """Claim a due session; write its next captures, or its end. Sent after the commit.

        Returns:
            whether more sessions were due, and what is to be sent.
        """
        async with self._db.begin() as conn:
            claimed = await sessions.claim(
                conn,
                self._replica,
                lease_ms=self._settings.lease_ms,
                within_ms=self._settings.breaker_window_ms,
            )
            if claimed is None:
                return False, ordering.NOTHING
            step = await ordering.next_step(conn, claimed, self._settings, self._rng)
            return claimed.more, step

    async def _start_all(self, orders: Sequence[Ordered]) -> None:
        """Send a session's orders side by side; what one comes to is nothing to the others."""
        ended = await asyncio.gather(*map(self._start, orders), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    async def _start(self, ordered: Ordered) -> None:
        session, capture = ordered.session, ordered.capture
        order = Order(
            key=capture.key,
            account_id=session.account_id,
            worker_id=session.worker_id,
            version_id=session.version_id,
            profile_type=session.profile_type,
            duration_ms=session.duration_ms,
            sampling_interval_us=session.sampling_interval_us,
            deadline_ms=_deadline_ms(session, capture),
            actor=session.actor,
        )
        async with self._calls:
            began_s = asyncio.get_running_loop().time()
            answer = await self._ask(ordered, order)
            taken_s = asyncio.get_running_loop().time() - began_s
        outcome = answer.reason.value if isinstance(answer, Fault) else "accepted"
        self._metrics.orders.labels(outcome).observe(taken_s)
        if isinstance(answer, Fault):
            await self._refused(ordered, answer)
        elif isinstance(answer, Accepted):
            await self._accepted(ordered, answer.isolate_id)
        else:
            async with self._db.begin(in_turn=session.session_id) as conn:
                session, capture = await _again(conn, capture)
                await reports.take_in(conn, session, capture, answer)

    async def _ask(self, ordered: Ordered, order: Order) -> Accepted | CaptureReport | Fault:
        timeout_s = self._settings.order_timeout_ms / 1000
        try:
            if ordered.resumed:
                # Another replica may have sent the order: what the agent knows of it comes first.
                with suppress(_Unknown):
                    async with asyncio.timeout(timeout_s):
                        return await self._show(ordered)
            async with asyncio.timeout(timeout_s):
                return await self._agents.start_capture(
                    ordered.address, order, metal_id=ordered.capture.metal_id
                )
        except TimeoutError:
            return Fault(Reason.AGENT_UNREACHABLE, "The metal's agent did not answer in time.")
        except Fault as fault:
            return fault

    async def _show(self, ordered: Ordered) -> CaptureReport:
        try:
            capture = ordered.capture
            return await self._agents.show_capture(
                ordered.address, capture.key, metal_id=capture.metal_id
            )
        except Fault as fault:
            if fault.reason is Reason.CAPTURE_UNKNOWN:
                raise _Unknown from None
            raise

    async def _accepted(self, ordered: Ordered, isolate_id: str) -> None:
        async with self._db.begin(in_turn=ordered.session.session_id) as conn:
            session, capture = await _again(conn, ordered.capture)
            if capture.live:
                await reports.accept(conn, session, capture, isolate_id)
            if not session.live or capture.stop is not None or not capture.live:
                # Its end was written while the order was out, and may have reached the agent before
                # it.
                keep = session.live and capture.live and capture.stop is Stop.KEEP
                await captures.order_stop(conn, capture, Stop.KEEP if keep else Stop.DISCARD)
        log.info(
            "capture_accepted",
            session_id=capture.session_id,
            capture=capture.capture,
            metal=capture.metal_id,
        )

    async def _refused(self, ordered: Ordered, fault: Fault) -> None:
        unreachable = fault.reason is Reason.AGENT_UNREACHABLE
        async with self._db.begin(in_turn=ordered.session.session_id) as conn:
            session, capture = await _again(conn, ordered.capture)
            if not await sessions.holds_lease(conn, session, self._replica) and session.live:
                return
            ended = await reports.end(
                conn,
                session,
                capture,
                CaptureEvent.LOST if unreachable else CaptureEvent.REFUSED,
                fault.reason,
                fault.message,
                retry_after_s=fault.retry_after_s,
            )
            if ended and unreachable:
                # It may have accepted all the same.
                await captures.order_stop(conn, capture, Stop.DISCARD)
        log.info(
            "capture_refused",
            session_id=capture.session_id,
            capture=capture.capture,
            metal=capture.metal_id,
            reason=fault.reason,
        )

    async def _claim_stop(self) -> bool:
        await self._stop_slots.acquire()
        try:
            async with self._db.begin() as conn:
                capture = await captures.claim_stop(conn)
                address = (
                    await captures.current_address(conn, capture) if capture is not None else ""
                )
        except BaseException:
            self._stop_slots.release()
            raise
        if capture is None:
            self._stop_slots.release()
            return False
        self._send(self._stop(capture, address), self._stop_slots)
        return True

    async def _stop(self, capture: Capture, address: str) -> None:
        report: CaptureReport | None = None
        told = True
        try:
            async with asyncio.timeout(self._settings.order_timeout_ms / 1000):
                report = await self._agents.stop_capture(
                    address,
                    capture.key,
                    metal_id=capture.metal_id,
                    discard=capture.stop is not Stop.KEEP,
                )
        except TimeoutError:
            told = False
        except Fault as fault:
            told = fault.reason is Reason.CAPTURE_UNKNOWN
        async with self._db.begin(in_turn=capture.session_id) as conn:
            session, current = await _again(conn, capture)
            # A stop that became a discard meanwhile is still to be told.
            if current.stop is capture.stop:
                await captures.settle_stop(conn, current, told=told)
            if report is not None:
                await reports.take_in(conn, session, current, report)
            elif told:
                await reports.end(
                    conn,
                    session,
                    current,
                    CaptureEvent.STOPPED,
                    Reason.CAPTURE_STOPPED,
                    "stopped before it began",
                )


async def _all_of(claim: Callable[[], Awaitable[bool]]) -> None:
    while await claim():
        pass


async def _again(conn: Connection, capture: Capture) -> tuple[Session, Capture]:
    """Lock the session and read the capture as they are now."""
    found = await reports.lock(conn, capture.key)
    if found is None:
        raise LookupError(f"{capture.key} is gone")
    return found


def _deadline_ms(session: Session, capture: Capture) -> int:
    # The same whoever sends the order and whenever: agents tell orders of one key apart.
    left = session.deadline_at - capture.ordered_at
    return max(1, int(left.total_seconds() * 1000))
