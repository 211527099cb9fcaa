"""What the two halves tell each other, as plain frozen values (wire form: ``contract.convert``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contract.faults import Reason


@unique
class ProfileType(StrEnum):
    """What is sampled."""

    CPU = "cpu"
    HEAP = "heap"


@unique
class CaptureState(StrEnum):
    """The life of one capture; the agent reports all but ``ordered`` and ``lost``."""

    ORDERED = "ordered"
    SAMPLING = "sampling"
    UPLOADED = "uploaded"
    REFUSED = "refused"
    FAILED = "failed"
    LOST = "lost"
    STOPPED = "stopped"


LIVE_CAPTURE_STATES = frozenset({CaptureState.ORDERED, CaptureState.SAMPLING})


@dataclass(frozen=True, kw_only=True)
class CaptureKey:
    """Which capture of which session, counted from 1; orders and uploads are idempotent by it."""

    session_id: str
    capture: int


@dataclass(frozen=True, kw_only=True)
class Actor:
    """One Durable Object: its namespace (32 hex) and its id (64 hex)."""

    namespace_id: str
    actor_id: str


@dataclass(frozen=True, kw_only=True)
class Order:
    """What an agent is asked to do: sample one loaded isolate of this version for this long.

    Args:
        deadline_ms: how long the whole capture may take from acceptance, upload included.
        sampling_interval_us: for CPU, 100..100000.
    """

    key: CaptureKey
    account_id: str
    worker_id: str
    version_id: str
    profile_type: ProfileType
    duration_ms: int
    sampling_interval_us: int
    deadline_ms: int
    actor: Actor | None = None


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The agent holds this isolate and will sample it."""

    key: CaptureKey
    isolate_id: str


@dataclass(frozen=True, kw_only=True)
class SliceHolds:
    """One profiler start and stop within a capture, both critical sections timed.

    Args:
        start_hold_us: isolate lock held to start the profiler.
        stop_hold_us: isolate lock held to stop it and hand over its data.
        gap_us: from the previous slice's end of sampling to this slice's first; 0 for the first.
        sampled_us: from start to stop as the runtime's clock saw it.
    """

    start_hold_us: int
    stop_hold_us: int
    gap_us: int
    sampled_us: int
    samples: int
    nodes: int


@dataclass(frozen=True, kw_only=True)
class CaptureReport:
    """How a capture stands, told by the agent to any gateway replica.

    Args:
        reason: why it was refused, failed or stopped; None while it goes well.
        sampled_ms: how much of the window has been sampled so far.
        freed: its isolate is free again, though its profile may still be on its way.
    """

    key: CaptureKey
    metal_id: str
    state: CaptureState
    isolate_id: str
    sampled_ms: int
    reason: Reason | None = None
    message: str = ""
    freed: bool = False


@dataclass(frozen=True, kw_only=True)
class UploadManifest:
    """First message of an upload: what the bytes are and how they were taken."""

    key: CaptureKey
    metal_id: str
    isolate_id: str
    sha256: str
    size_bytes: int
    samples: int
    window_ms: int
    slices: tuple[SliceHolds, ...]
    truncated: str = ""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What the control plane kept of an upload."""

    key: CaptureKey
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Isolate:
    """One loaded isolate as its agent sees it now.

    Args:
        executions: requests and events it ran in the agent's recent-activity window.
        idle_ms: since it last ran anything; None when it was never seen to run.
        shared: other accounts run in the same isolate; such an isolate is never profiled.
        held_ms: how long the capture that holds it will still take; 0 when free.
        namespaces: ids (32 hex) of the Durable Object namespaces it serves.
    """

    isolate_id: str
    account_id: str
    worker_id: str
    worker_name: str
    version_id: str
    executions: int
    idle_ms: int | None
    shared: bool
    held_ms: int
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """Telemetry: this version ran (or is loaded) on the reporting metal.

    Args:
        executions: in the reporting interval.
        idle_ms: since its last execution, when reported; None when only loaded, never run.
        isolates: loaded now.
        free_isolates: loaded, of one account alone, and not held by a capture.
        shared: every loaded isolate of it is shared with another account.
        held_ms: when no isolate is free, until the first hold ends.
    """

    account_id: str
    worker_id: str
    worker_name: str
    version_id: str
    executions: int
    idle_ms: int | None
    isolates: int
    free_isolates: int
    shared: bool
    held_ms: int
    namespaces: tuple[NamespaceRef, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NamespaceRef:
    """A Durable Object namespace a version serves.

    Args:
        class_name: the exported class.
        unique_key: what the runtime knows the namespace by, from which ids of names are derived;
            empty when the agent was not told.
    """

    namespace_id: str
    class_name: str
    unique_key: str = ""


@dataclass(frozen=True, kw_only=True)
class ActorSighting:
    """Telemetry: this actor ran on the reporting metal, as this version."""

    actor: Actor
    account_id: str
    worker_id: str
    version_id: str
    idle_ms: int


@dataclass(frozen=True, kw_only=True)
class Metal:
    """Who an agent is and where orders reach it. ``epoch`` grows with every start of the agent."""

    metal_id: str
    datacenter: str
    address: str
    epoch: int
    max_captures: int


@dataclass(frozen=True, kw_only=True)
class Report:
    """What changed on a metal since its last report, or everything when ``snapshot``.

    Args:
        captures: what the agent is running, so that a gateway learns what a restart lost.
    """

    metal: Metal
    snapshot: bool
    sightings: tuple[Sighting, ...] = ()
    actors: tuple[ActorSighting, ...] = ()
    captures: tuple[CaptureKey, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReportReply:
    """The gateway's answer: whether it lacks a whole picture, and what to stop (ended sessions)."""

    snapshot_wanted: bool
    stop: tuple[CaptureKey, ...] = ()
