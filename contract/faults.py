"""Every error of the product: one closed set of kinds, each reason belonging to exactly one kind.

A fault is raised with a reason and a message a caller may read. It is mapped once per edge: to
HTTP in ``control_plane.api.problems``, to gRPC in ``contract.rpc``, to what dispatch does next in
``control_plane.retry``. Each of those tables is total over :class:`Reason`, by test.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Kind(StrEnum):
    """What sort of trouble it is; decides whether trying again can help."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    OVER_QUOTA = "over_quota"
    BUSY = "busy"
    UNAVAILABLE = "unavailable"
    TIMED_OUT = "timed_out"
    INTERNAL = "internal"


@unique
class Reason(StrEnum):
    """The exact cause; what the REST error codes, history rows and metrics are keyed by."""

    REQUEST_INVALID = "request_invalid"
    VERSION_AMBIGUOUS = "version_ambiguous"
    RUNTIME_UNSUPPORTED = "runtime_unsupported"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    PROFILE_INVALID = "profile_invalid"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_MISSING = "permission_missing"
    PROFILING_DISABLED = "profiling_disabled"
    PEER_FORBIDDEN = "peer_forbidden"
    ROUTE_UNKNOWN = "route_unknown"
    WORKER_UNKNOWN = "worker_unknown"
    VERSION_UNKNOWN = "version_unknown"
    SESSION_UNKNOWN = "session_unknown"
    CAPTURE_UNKNOWN = "capture_unknown"
    RECORD_UNKNOWN = "record_unknown"
    NO_RECENT_EXECUTION = "no_recent_execution"
    NOT_LOADED = "not_loaded"
    ACTOR_INACTIVE = "actor_inactive"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    RECORD_EXISTS = "record_exists"
    SESSION_NOT_READY = "session_not_ready"
    SESSION_CANCELLED = "session_cancelled"
    CAPTURE_STOPPED = "capture_stopped"
    BODY_TOO_LARGE = "body_too_large"
    PROFILE_TOO_LARGE = "profile_too_large"
    ACCOUNT_QUOTA = "account_quota"
    ISOLATES_BUSY = "isolates_busy"
    STREAMS_FULL = "streams_full"
    DISPATCH_OFF = "dispatch_off"
    VERSION_SUSPENDED = "version_suspended"
    STORE_UNAVAILABLE = "store_unavailable"
    AGENT_UNREACHABLE = "agent_unreachable"
    AGENT_RESTARTED = "agent_restarted"
    TARGET_EXITED = "target_exited"
    INSPECTOR_LOST = "inspector_lost"
    DEADLINE_PASSED = "deadline_passed"
    RUNTIME_TIMEOUT = "runtime_timeout"
    CAPTURE_LOST = "capture_lost"
    RUNTIME_START_FAILED = "runtime_start_failed"
    INTERNAL = "internal"


KIND_OF: dict[Reason, Kind] = {
    Reason.REQUEST_INVALID: Kind.INVALID,
    Reason.VERSION_AMBIGUOUS: Kind.INVALID,
    Reason.RUNTIME_UNSUPPORTED: Kind.INVALID,
    Reason.METHOD_NOT_ALLOWED: Kind.INVALID,
    Reason.PROFILE_INVALID: Kind.INVALID,
    Reason.UNAUTHENTICATED: Kind.UNAUTHENTICATED,
    Reason.PERMISSION_MISSING: Kind.FORBIDDEN,
    Reason.PROFILING_DISABLED: Kind.FORBIDDEN,
    Reason.PEER_FORBIDDEN: Kind.FORBIDDEN,
    Reason.ROUTE_UNKNOWN: Kind.NOT_FOUND,
    Reason.WORKER_UNKNOWN: Kind.NOT_FOUND,
    Reason.VERSION_UNKNOWN: Kind.NOT_FOUND,
    Reason.SESSION_UNKNOWN: Kind.NOT_FOUND,
    Reason.CAPTURE_UNKNOWN: Kind.NOT_FOUND,
    Reason.RECORD_UNKNOWN: Kind.NOT_FOUND,
    Reason.NO_RECENT_EXECUTION: Kind.NOT_FOUND,
    Reason.NOT_LOADED: Kind.NOT_FOUND,
    Reason.ACTOR_INACTIVE: Kind.NOT_FOUND,
    Reason.IDEMPOTENCY_KEY_REUSED: Kind.CONFLICT,
    Reason.RECORD_EXISTS: Kind.CONFLICT,
    Reason.SESSION_NOT_READY: Kind.CONFLICT,
    Reason.SESSION_CANCELLED: Kind.CONFLICT,
    Reason.CAPTURE_STOPPED: Kind.CONFLICT,
    Reason.BODY_TOO_LARGE: Kind.TOO_LARGE,
    Reason.PROFILE_TOO_LARGE: Kind.TOO_LARGE,
    Reason.ACCOUNT_QUOTA: Kind.OVER_QUOTA,
    Reason.ISOLATES_BUSY: Kind.BUSY,
    Reason.STREAMS_FULL: Kind.BUSY,
    Reason.DISPATCH_OFF: Kind.UNAVAILABLE,
    Reason.VERSION_SUSPENDED: Kind.UNAVAILABLE,
    Reason.STORE_UNAVAILABLE: Kind.UNAVAILABLE,
    Reason.AGENT_UNREACHABLE: Kind.UNAVAILABLE,
    Reason.AGENT_RESTARTED: Kind.UNAVAILABLE,
    Reason.TARGET_EXITED: Kind.UNAVAILABLE,
    Reason.INSPECTOR_LOST: Kind.UNAVAILABLE,
    Reason.DEADLINE_PASSED: Kind.TIMED_OUT,
    Reason.RUNTIME_TIMEOUT: Kind.TIMED_OUT,
    Reason.CAPTURE_LOST: Kind.TIMED_OUT,
    Reason.RUNTIME_START_FAILED: Kind.INTERNAL,
    Reason.INTERNAL: Kind.INTERNAL,
}


@dataclass(frozen=True, kw_only=True)
class FieldError:
    """One thing wrong with a request.

    Args:
        pointer: JSON pointer into the body (``/duration_ms``), or ``path/version``, ``query/page``.
        message: what is wrong and what would be right; safe to show.
    """

    pointer: str
    message: str


class Fault(Exception):  # noqa: N818 - the product's word for an error
    """An error with a reason from the closed set.

    Args:
        reason: what happened.
        message: for the caller to read; never holds another account's data or a stack trace.
        retry_after_s: when trying again can help, for over_quota, busy and unavailable.
        fields: for invalid requests, one entry per thing wrong.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        retry_after_s: float | None = None,
        fields: tuple[FieldError, ...] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        self.fields = fields

    @property
    def kind(self) -> Kind:
        """The kind this fault's reason belongs to."""
        return KIND_OF[self.reason]

    def __repr__(self) -> str:
        return f"Fault({self.reason.value!r}, {self.message!r})"
