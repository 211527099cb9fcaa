"""The life of a session and of a capture: which event leads from which state to which.

The store writes a state only by compare-and-set along this table, with a history row in the same
transaction. ``docs/states.md`` shows it and is tested against it.
"""

from __future__ import annotations

from enum import StrEnum, unique

from contract.messages import CaptureState

MAX_ISOLATES = 64
"""How many isolates one session may ask for."""


@unique
class SessionState(StrEnum):
    """Where a session stands; the last four are for good."""

    QUEUED = "queued"
    CAPTURING = "capturing"
    FINISHING = "finishing"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


LIVE_STATES = frozenset({SessionState.QUEUED, SessionState.CAPTURING, SessionState.FINISHING})


@unique
class SessionEvent(StrEnum):
    """What can happen to a session."""

    ACCEPTED = "accepted"
    SAMPLED = "sampled"
    STORED = "stored"
    GAVE_UP = "gave_up"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


@unique
class CaptureEvent(StrEnum):
    """What can happen to a capture."""

    ACCEPTED = "accepted"
    STORED = "stored"
    REFUSED = "refused"
    FAILED = "failed"
    LOST = "lost"
    STOPPED = "stopped"


_ENDINGS = {
    SessionEvent.STORED: SessionState.READY,
    SessionEvent.GAVE_UP: SessionState.FAILED,
    SessionEvent.CANCELLED: SessionState.CANCELLED,
    SessionEvent.EXPIRED: SessionState.EXPIRED,
}

# A capture after a failed one is accepted while the session is past that point already: what a
# caller sees never goes backwards, so the state stays where it is.
SESSION_TABLE: dict[SessionState, dict[SessionEvent, SessionState]] = {
    SessionState.QUEUED: {
        SessionEvent.ACCEPTED: SessionState.CAPTURING,
        SessionEvent.SAMPLED: SessionState.FINISHING,
        **_ENDINGS,
    },
    SessionState.CAPTURING: {
        SessionEvent.ACCEPTED: SessionState.CAPTURING,
        SessionEvent.SAMPLED: SessionState.FINISHING,
        **_ENDINGS,
    },
    SessionState.FINISHING: {
        SessionEvent.ACCEPTED: SessionState.FINISHING,
        SessionEvent.SAMPLED: SessionState.FINISHING,
        **_ENDINGS,
    },
    SessionState.READY: {},
    SessionState.FAILED: {},
    SessionState.CANCELLED: {},
    SessionState.EXPIRED: {},
}

_CAPTURE_ENDINGS = {
    CaptureEvent.STORED: CaptureState.UPLOADED,
    CaptureEvent.FAILED: CaptureState.FAILED,
    CaptureEvent.LOST: CaptureState.LOST,
    CaptureEvent.STOPPED: CaptureState.STOPPED,
}

CAPTURE_TABLE: dict[CaptureState, dict[CaptureEvent, CaptureState]] = {
    CaptureState.ORDERED: {
        CaptureEvent.ACCEPTED: CaptureState.SAMPLING,
        CaptureEvent.REFUSED: CaptureState.REFUSED,
        **_CAPTURE_ENDINGS,
    },
    CaptureState.SAMPLING: _CAPTURE_ENDINGS,
    CaptureState.UPLOADED: {},
    CaptureState.REFUSED: {},
    CaptureState.FAILED: {},
    CaptureState.LOST: {},
    CaptureState.STOPPED: {},
}


def advance(state: SessionState, event: SessionEvent) -> SessionState | None:
    """Return the state after an event; None when the event comes too late to matter."""
    return SESSION_TABLE[state].get(event)


def advance_capture(state: CaptureState, event: CaptureEvent) -> CaptureState | None:
    """Return a capture's state after an event; None for a duplicate or a late one."""
    return CAPTURE_TABLE[state].get(event)


def lifetime_ms(duration_ms: int, slack_ms: int) -> int:
    """Return how long a session may live: its window, most of a second try, and the slack.

    The second try is cut at 25 s so that the longest window, 50 s, ends within the 90 s the
    published client waits.
    """
    return duration_ms + min(duration_ms, 25_000) + slack_ms
