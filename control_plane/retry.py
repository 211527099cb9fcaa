"""What dispatch does after a capture that brought no profile: try elsewhere, or give up."""

from __future__ import annotations

from enum import StrEnum, unique

from contract.faults import Reason


@unique
class Next(StrEnum):
    """The two ways on."""

    ELSEWHERE = "elsewhere"
    GIVE_UP = "give_up"


# Total over Reason, by test. Elsewhere: another metal can fare better. Give up: it would be the
# same.
NEXT: dict[Reason, Next] = {
    Reason.REQUEST_INVALID: Next.GIVE_UP,
    Reason.VERSION_AMBIGUOUS: Next.GIVE_UP,
    Reason.RUNTIME_UNSUPPORTED: Next.ELSEWHERE,
    Reason.METHOD_NOT_ALLOWED: Next.GIVE_UP,
    Reason.PROFILE_INVALID: Next.ELSEWHERE,
    Reason.UNAUTHENTICATED: Next.ELSEWHERE,
    Reason.PERMISSION_MISSING: Next.ELSEWHERE,
    Reason.PROFILING_DISABLED: Next.GIVE_UP,
    Reason.PEER_FORBIDDEN: Next.ELSEWHERE,
    Reason.ROUTE_UNKNOWN: Next.ELSEWHERE,
    Reason.WORKER_UNKNOWN: Next.ELSEWHERE,
    Reason.VERSION_UNKNOWN: Next.ELSEWHERE,
    Reason.SESSION_UNKNOWN: Next.GIVE_UP,
    Reason.CAPTURE_UNKNOWN: Next.ELSEWHERE,
    Reason.RECORD_UNKNOWN: Next.GIVE_UP,
    Reason.NO_RECENT_EXECUTION: Next.ELSEWHERE,
    Reason.NOT_LOADED: Next.ELSEWHERE,
    Reason.ACTOR_INACTIVE: Next.ELSEWHERE,
    Reason.IDEMPOTENCY_KEY_REUSED: Next.GIVE_UP,
    Reason.RECORD_EXISTS: Next.GIVE_UP,
    Reason.SESSION_NOT_READY: Next.GIVE_UP,
    Reason.SESSION_CANCELLED: Next.GIVE_UP,
    Reason.CAPTURE_STOPPED: Next.GIVE_UP,
    Reason.BODY_TOO_LARGE: Next.GIVE_UP,
    Reason.PROFILE_TOO_LARGE: Next.GIVE_UP,
    Reason.ACCOUNT_QUOTA: Next.GIVE_UP,
    Reason.ISOLATES_BUSY: Next.ELSEWHERE,
    Reason.STREAMS_FULL: Next.GIVE_UP,
    Reason.DISPATCH_OFF: Next.ELSEWHERE,
    Reason.VERSION_SUSPENDED: Next.GIVE_UP,
    Reason.STORE_UNAVAILABLE: Next.ELSEWHERE,
    Reason.AGENT_UNREACHABLE: Next.ELSEWHERE,
    Reason.AGENT_RESTARTED: Next.ELSEWHERE,
    Reason.TARGET_EXITED: Next.ELSEWHERE,
    Reason.INSPECTOR_LOST: Next.ELSEWHERE,
    Reason.DEADLINE_PASSED: Next.GIVE_UP,
    Reason.RUNTIME_TIMEOUT: Next.ELSEWHERE,
    Reason.CAPTURE_LOST: Next.ELSEWHERE,
    Reason.RUNTIME_START_FAILED: Next.ELSEWHERE,
    Reason.INTERNAL: Next.ELSEWHERE,
}


def after(
    reason: Reason, *, attempts: int, max_attempts: int, remaining_ms: int, needed_ms: int
) -> Next:
    """Decide what follows a capture that ended for ``reason``.

    Args:
        attempts: captures ordered so far, this one included.
        remaining_ms: until the session's deadline.
        needed_ms: what one more capture takes at least, upload included.
    """
    if attempts >= max_attempts or remaining_ms < needed_ms:
        return Next.GIVE_UP
    return NEXT[reason]
