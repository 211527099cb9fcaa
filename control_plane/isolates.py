"""Which of the isolates a session asked for it has, and which are still to be captured. Pure.

Each isolate asked for is a part, numbered from 1. A capture stands for one part; another of the
same part follows only one that came to nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from contract.messages import CaptureState
from control_plane import retry
from control_plane.placement import Standing
from control_plane.store.captures import Stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from control_plane.settings import Settings
    from control_plane.store.captures import Capture
    from control_plane.store.sessions import Session


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many isolates were asked for and what became of them; they add up.

    Args:
        taken: whose profile is here.
        live: that are being captured.
        waiting: for which dispatch has to decide whether another capture follows.
        reasons: why the lost ones are lost.
    """

    asked: int
    taken: int
    live: int
    waiting: int
    lost: int
    reasons: dict[Reason, int] = field(default_factory=dict)

    def said(self) -> str:
        """Tell what is missing, for people; empty when nothing is."""
        if not self.lost:
            return ""
        counted = ", ".join(f"{reason.value}: {n}" for reason, n in self.reasons.items())
        return f"{self.taken} of {self.asked} isolates were captured ({counted})."


def tally(session: Session, tried: Sequence[Capture], *, settled: bool = False) -> Tally:
    """Count a session's isolates.

    Args:
        settled: nothing more is ordered for it, though that is not written yet.
    """
    taken = live = waiting = 0
    lost: list[Reason] = []
    for captures in _parts(session, tried).values():
        last = captures[-1] if captures else None
        if last is not None and last.state is CaptureState.UPLOADED:
            taken += 1
        elif last is not None and last.live:
            live += 1
        elif session.due and not settled and (last is not None or session.fewer_reason is None):
            waiting += 1
        else:
            lost.append(_why(session, last))
    return Tally(
        asked=session.isolates,
        taken=taken,
        live=live,
        waiting=waiting,
        lost=len(lost),
        reasons=dict(Counter(lost).most_common()),
    )


def _why(session: Session, last: Capture | None) -> Reason:
    # What was never ordered is lost for the reason the session was, or that there were fewer.
    reason = last.reason if last is not None else session.fewer_reason or session.reason
    return reason or Reason.INTERNAL


def wanted(session: Session, tried: Sequence[Capture], settings: Settings) -> list[int]:
    """Return the parts another capture is to be ordered for."""
    if session.stopped:
        return []
    return [
        part
        for part, captures in _parts(session, tried).items()
        if (_follows(session, captures, settings) if captures else session.fewer_reason is None)
    ]


def _follows(session: Session, captures: Sequence[Capture], settings: Settings) -> bool:
    last = captures[-1]
    if last.live or last.state is CaptureState.UPLOADED or last.stop is Stop.KEEP:
        return False
    following = retry.after(
        last.reason or Reason.INTERNAL,
        attempts=len(captures),
        max_attempts=settings.max_attempts,
        remaining_ms=session.remaining_ms,
        needed_ms=session.duration_ms + settings.finish_margin_ms,
    )
    return following is retry.Next.ELSEWHERE


def failed_on(session: Session, tried: Iterable[Capture]) -> set[str]:
    """Return the metals a session does not go to again.

    One isolate that failed on a metal says little about its others: a session of several goes there
    again for them, last of all.
    """
    if session.isolates == 1:
        return {capture.metal_id for capture in tried}
    return {
        capture.metal_id
        for capture in tried
        if capture.state in {CaptureState.REFUSED, CaptureState.LOST}
        or capture.reason is Reason.AGENT_RESTARTED
    }


def standing(session: Session, tried: Iterable[Capture]) -> Mapping[str, Standing]:
    """Count what a session of several has on each metal."""
    if session.isolates == 1:
        return {}
    by_metal = groupby(sorted(tried, key=_metal), key=_metal)
    return {metal_id: _standing(list(captures)) for metal_id, captures in by_metal}


def _metal(capture: Capture) -> str:
    return capture.metal_id


def _standing(captures: Sequence[Capture]) -> Standing:
    live = sum(c.live and c.freed_at is None for c in captures)
    taken = sum(
        c.state is CaptureState.UPLOADED or (c.live and c.freed_at is not None) for c in captures
    )
    failed = sum(not c.live and c.state is not CaptureState.UPLOADED for c in captures)
    return Standing(live=live, taken=taken, failed=failed)


def goes_on(tried: Iterable[Capture]) -> bool:
    """Return whether something of the session is being captured, or is here."""
    return any(c.live or c.state is CaptureState.UPLOADED for c in tried)


def parts_tried(tried: Iterable[Capture]) -> set[int]:
    """Return the parts that had a capture."""
    return {capture.part for capture in tried}


def last_word(session: Session, tried: Sequence[Capture], said: Fault) -> Fault:
    """Return why a session failed whose captures all came to nothing: for the commonest reason.

    Args:
        said: why the last one did.
    """
    if session.isolates == 1 or not tried:
        return said
    counted = tally(session, tried, settled=True)
    reason = next(iter(counted.reasons))
    told = f"{counted.said()} Last: {said.message}".strip()
    return Fault(reason, told, retry_after_s=said.retry_after_s)


def _parts(session: Session, tried: Sequence[Capture]) -> dict[int, list[Capture]]:
    parts: dict[int, list[Capture]] = {part: [] for part in range(1, session.isolates + 1)}
    for capture in tried:
        parts[capture.part].append(capture)
    return parts
