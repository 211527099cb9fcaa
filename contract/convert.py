"""Protobuf <-> plain messages, both directions side by side; what is absent is refused.

Raises:
    Fault: request_invalid, from every ``*_from_wire``, with one entry that names the field by its
        path (``/sightings/3/account_id``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from contract import ids
from contract.faults import Fault, FieldError, Reason
from contract.messages import (
    Accepted,
    Actor,
    ActorSighting,
    CaptureKey,
    CaptureReport,
    CaptureState,
    Isolate,
    Metal,
    NamespaceRef,
    Order,
    ProfileType,
    Receipt,
    Report,
    ReportReply,
    Sighting,
    SliceHolds,
    UploadManifest,
)
from protos.control.v1 import gateway_pb2 as control
from protos.edge.v1 import edge_pb2 as edge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Wire = TypeVar("Wire")
Value = TypeVar("Value")

SHA256 = re.compile(r"[0-9a-f]{64}")
ADDRESS = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,253}:[0-9]{1,5}")
LONGEST_NAME = 512
LONGEST_MESSAGE = 1_000
INT64_MAX = 2**63 - 1
MOST_CAPTURES = 100_000
MOST_DURATION_MS = 50_000
MOST_DEADLINE_MS = 600_000
SAMPLING_INTERVAL_US = (100_000, 100)

PROFILE_TYPE_TO_WIRE: dict[ProfileType, edge.ProfileType.ValueType] = {
    ProfileType.CPU: edge.PROFILE_TYPE_CPU,
    ProfileType.HEAP: edge.PROFILE_TYPE_HEAP,
}
PROFILE_TYPE_FROM_WIRE = {wire: value for value, wire in PROFILE_TYPE_TO_WIRE.items()}

CAPTURE_STATE_TO_WIRE: dict[CaptureState, edge.CaptureState.ValueType] = {
    CaptureState.ORDERED: edge.CAPTURE_STATE_ORDERED,
    CaptureState.SAMPLING: edge.CAPTURE_STATE_SAMPLING,
    CaptureState.UPLOADED: edge.CAPTURE_STATE_UPLOADED,
    CaptureState.REFUSED: edge.CAPTURE_STATE_REFUSED,
    CaptureState.FAILED: edge.CAPTURE_STATE_FAILED,
    CaptureState.LOST: edge.CAPTURE_STATE_LOST,
    CaptureState.STOPPED: edge.CAPTURE_STATE_STOPPED,
}
CAPTURE_STATE_FROM_WIRE = {wire: value for value, wire in CAPTURE_STATE_TO_WIRE.items()}


def refusal(field: str, message: str) -> Fault:
    """The fault for one bad field of a wire message."""
    return Fault(
        Reason.REQUEST_INVALID,
        f"{field}: {message}",
        fields=(FieldError(pointer=f"/{field.replace('.', '/')}", message=message),),
    )


def _present(wire: Any, field: str) -> Any:
    if not wire.HasField(field):
        raise refusal(field, "is required")
    return getattr(wire, field)


def _within(name: str, wire: Wire, read: Callable[[Wire], Value]) -> Value:
    """Read a part of a message, its faults naming where in the whole they are."""
    try:
        return read(wire)
    except Fault as fault:
        (error,) = fault.fields
        inner = error.pointer.removeprefix("/").replace("/", ".")
        raise refusal(f"{name}.{inner}", error.message) from None


def _each(name: str, wires: Iterable[Wire], read: Callable[[Wire], Value]) -> tuple[Value, ...]:
    return tuple(_within(f"{name}.{index}", wire, read) for index, wire in enumerate(wires))


def _shaped(field: str, value: str, shape: re.Pattern[str], wanted: str) -> str:
    # fullmatch: a trailing newline passes "$".
    if not shape.fullmatch(value):
        raise refusal(field, f"must be {wanted}")
    return value


def _bounded(field: str, value: int, most: int, least: int = 1) -> int:
    if not least <= value <= most:
        raise refusal(field, f"must be from {least} to {most}")
    return value


def _printable(field: str, value: str, longest: int = LONGEST_NAME) -> str:
    if not value or len(value) > longest or not value.isprintable():
        raise refusal(field, f"must be 1 to {longest} printable characters")
    return value


def _account(value: str) -> str:
    return _shaped("account_id", value, ids.ACCOUNT_ID, "32 hex digits")


def _worker(value: str) -> str:
    return _shaped("worker_id", value, ids.WORKER_ID, "32 hex digits")


def _worker_name(value: str) -> str:
    return _shaped("worker_name", value, ids.WORKER_NAME, "a worker's name")


def _namespace(value: str) -> str:
    return _shaped("namespace_id", value, ids.NAMESPACE_ID, "32 hex digits")


def _uuid(field: str, value: str) -> str:
    if not ids.is_uuid(value):
        raise refusal(field, "must be a UUID")
    return value


def _version(value: str) -> str:
    return _uuid("version_id", value)


def _metal_id(value: str) -> str:
    return _shaped("metal_id", value, ids.METAL_ID, "a metal's id")


def _isolate_id(value: str) -> str:
    return _printable("isolate_id", value)


def key_to_wire(key: CaptureKey) -> edge.CaptureKey:
    """A capture's key."""
    return edge.CaptureKey(session_id=key.session_id, capture=key.capture)


def key_from_wire(wire: edge.CaptureKey) -> CaptureKey:
    """A capture's key."""
    return CaptureKey(
        session_id=_uuid("session_id", wire.session_id),
        capture=_bounded("capture", wire.capture, MOST_CAPTURES),
    )


def required_key(wire: Any) -> CaptureKey:
    """The key of a message that must carry one."""
    return _within("key", _present(wire, "key"), key_from_wire)


def actor_to_wire(actor: Actor) -> edge.Actor:
    """One Durable Object."""
    return edge.Actor(namespace_id=actor.namespace_id, actor_id=actor.actor_id)


def actor_from_wire(wire: edge.Actor) -> Actor:
    """One Durable Object."""
    return Actor(
        namespace_id=_namespace(wire.namespace_id),
        actor_id=_shaped("actor_id", wire.actor_id, ids.ACTOR_ID, "64 hex digits"),
    )


def order_to_wire(order: Order) -> edge.StartCaptureRequest:
    """An order."""
    return edge.StartCaptureRequest(
        key=key_to_wire(order.key),
        account_id=order.account_id,
        worker_id=order.worker_id,
        version_id=order.version_id,
        profile_type=PROFILE_TYPE_TO_WIRE[order.profile_type],
        duration_ms=order.duration_ms,
        sampling_interval_us=order.sampling_interval_us,
        deadline_ms=order.deadline_ms,
        actor=None if order.actor is None else actor_to_wire(order.actor),
    )


def order_from_wire(wire: edge.StartCaptureRequest) -> Order:
    """An order."""
    profile_type = PROFILE_TYPE_FROM_WIRE.get(wire.profile_type)
    if profile_type is None:
        raise refusal("profile_type", "must be cpu or heap")
    return Order(
        key=required_key(wire),
        account_id=_account(wire.account_id),
        worker_id=_worker(wire.worker_id),
        version_id=_version(wire.version_id),
        profile_type=profile_type,
        duration_ms=_bounded("duration_ms", wire.duration_ms, MOST_DURATION_MS),
        sampling_interval_us=_bounded(
            "sampling_interval_us", wire.sampling_interval_us, *SAMPLING_INTERVAL_US
        ),
        deadline_ms=_bounded("deadline_ms", wire.deadline_ms, MOST_DEADLINE_MS),
        actor=_within("actor", wire.actor, actor_from_wire) if wire.HasField("actor") else None,
    )


def accepted_to_wire(accepted: Accepted) -> edge.StartCaptureResponse:
    """An accepted order."""
    return edge.StartCaptureResponse(key=key_to_wire(accepted.key), isolate_id=accepted.isolate_id)


def accepted_from_wire(wire: edge.StartCaptureResponse) -> Accepted:
    """An accepted order."""
    return Accepted(key=required_key(wire), isolate_id=_isolate_id(wire.isolate_id))


def capture_report_to_wire(report: CaptureReport) -> edge.CaptureReport:
    """How a capture stands."""
    return edge.CaptureReport(
        key=key_to_wire(report.key),
        metal_id=report.metal_id,
        state=CAPTURE_STATE_TO_WIRE[report.state],
        isolate_id=report.isolate_id,
        sampled_ms=report.sampled_ms,
        reason="" if report.reason is None else report.reason.value,
        message=report.message,
        freed=report.freed,
    )


def capture_report_from_wire(wire: edge.CaptureReport) -> CaptureReport:
    """How a capture stands. A reason this release does not know is read as internal."""
    state = CAPTURE_STATE_FROM_WIRE.get(wire.state)
    if state is None:
        raise refusal("state", "must be a capture state")
    reason: Reason | None = None
    if wire.reason:
        known = wire.reason in Reason._value2member_map_
        reason = Reason(wire.reason) if known else Reason.INTERNAL
    return CaptureReport(
        key=required_key(wire),
        metal_id=_metal_id(wire.metal_id),
        state=state,
        isolate_id=_isolate_id(wire.isolate_id) if wire.isolate_id else "",
        sampled_ms=wire.sampled_ms,
        reason=reason,
        message=_readable(wire.message),
        freed=wire.freed,
    )


def _readable(message: str) -> str:
    """Free text as it may be kept and shown. Refusing it would lose the report that carries it."""
    kept = message[:LONGEST_MESSAGE]
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in kept)


def required_capture_report(wire: Any) -> CaptureReport:
    """The capture report of a message that must carry one."""
    return _within("report", _present(wire, "report"), capture_report_from_wire)


def isolate_to_wire(isolate: Isolate) -> edge.Isolate:
    """One loaded isolate."""
    return edge.Isolate(
        isolate_id=isolate.isolate_id,
        account_id=isolate.account_id,
        worker_id=isolate.worker_id,
        worker_name=isolate.worker_name,
        version_id=isolate.version_id,
        executions=isolate.executions,
        idle_ms=isolate.idle_ms,
        shared=isolate.shared,
        held_ms=isolate.held_ms,
        namespaces=isolate.namespaces,
    )


def isolate_from_wire(wire: edge.Isolate) -> Isolate:
    """One loaded isolate."""
    return Isolate(
        isolate_id=_isolate_id(wire.isolate_id),
        account_id=_account(wire.account_id),
        worker_id=_worker(wire.worker_id),
        worker_name=_worker_name(wire.worker_name),
        version_id=_version(wire.version_id),
        executions=wire.executions,
        idle_ms=wire.idle_ms if wire.HasField("idle_ms") else None,
        shared=wire.shared,
        held_ms=wire.held_ms,
        namespaces=tuple(_namespace(namespace_id) for namespace_id in wire.namespaces),
    )


def isolates_to_wire(isolates: Iterable[Isolate]) -> edge.ListIsolatesResponse:
    """What is loaded on a metal."""
    return edge.ListIsolatesResponse(isolates=[isolate_to_wire(isolate) for isolate in isolates])


def isolates_from_wire(wire: edge.ListIsolatesResponse) -> tuple[Isolate, ...]:
    """What is loaded on a metal."""
    return _each("isolates", wire.isolates, isolate_from_wire)


def metal_to_wire(metal: Metal) -> control.Metal:
    """Who an agent is."""
    return control.Metal(
        metal_id=metal.metal_id,
        datacenter=metal.datacenter,
        address=metal.address,
        epoch=metal.epoch,
        max_captures=metal.max_captures,
    )


def metal_from_wire(wire: control.Metal) -> Metal:
    """Who an agent is."""
    return Metal(
        metal_id=_metal_id(wire.metal_id),
        datacenter=_shaped("datacenter", wire.datacenter, ids.METAL_ID, "a datacenter's name"),
        address=_shaped("address", wire.address, ADDRESS, "host:port"),
        # Kept in a signed column.
        epoch=_bounded("epoch", wire.epoch, INT64_MAX),
        max_captures=_bounded("max_captures", wire.max_captures, MOST_CAPTURES),
    )


def namespace_to_wire(ref: NamespaceRef) -> control.NamespaceRef:
    """A namespace of Durable Objects."""
    return control.NamespaceRef(
        namespace_id=ref.namespace_id, class_name=ref.class_name, unique_key=ref.unique_key
    )


def namespace_from_wire(wire: control.NamespaceRef) -> NamespaceRef:
    """A namespace of Durable Objects."""
    return NamespaceRef(
        namespace_id=_namespace(wire.namespace_id),
        class_name=_printable("class_name", wire.class_name),
        unique_key=_printable("unique_key", wire.unique_key) if wire.unique_key else "",
    )


def sighting_to_wire(sighting: Sighting) -> control.Sighting:
    """A version seen on a metal."""
    return control.Sighting(
        account_id=sighting.account_id,
        worker_id=sighting.worker_id,
        worker_name=sighting.worker_name,
        version_id=sighting.version_id,
        executions=sighting.executions,
        idle_ms=sighting.idle_ms,
        isolates=sighting.isolates,
        free_isolates=sighting.free_isolates,
        shared=sighting.shared,
        held_ms=sighting.held_ms,
        namespaces=[namespace_to_wire(ref) for ref in sighting.namespaces],
    )


def sighting_from_wire(wire: control.Sighting) -> Sighting:
    """A version seen on a metal."""
    return Sighting(
        account_id=_account(wire.account_id),
        worker_id=_worker(wire.worker_id),
        worker_name=_worker_name(wire.worker_name),
        version_id=_version(wire.version_id),
        executions=wire.executions,
        idle_ms=wire.idle_ms if wire.HasField("idle_ms") else None,
        isolates=wire.isolates,
        free_isolates=wire.free_isolates,
        shared=wire.shared,
        held_ms=wire.held_ms,
        namespaces=_each("namespaces", wire.namespaces, namespace_from_wire),
    )


def actor_sighting_to_wire(sighting: ActorSighting) -> control.ActorSighting:
    """An actor seen on a metal."""
    return control.ActorSighting(
        actor=actor_to_wire(sighting.actor),
        account_id=sighting.account_id,
        worker_id=sighting.worker_id,
        version_id=sighting.version_id,
        idle_ms=sighting.idle_ms,
    )


def actor_sighting_from_wire(wire: control.ActorSighting) -> ActorSighting:
    """An actor seen on a metal."""
    return ActorSighting(
        actor=_within("actor", _present(wire, "actor"), actor_from_wire),
        account_id=_account(wire.account_id),
        worker_id=_worker(wire.worker_id),
        version_id=_version(wire.version_id),
        idle_ms=wire.idle_ms,
    )


def report_to_wire(report: Report) -> control.ReportRequest:
    """A metal's report."""
    return control.ReportRequest(
        metal=metal_to_wire(report.metal),
        snapshot=report.snapshot,
        sightings=[sighting_to_wire(sighting) for sighting in report.sightings],
        actors=[actor_sighting_to_wire(sighting) for sighting in report.actors],
        captures=[key_to_wire(key) for key in report.captures],
    )


def report_from_wire(wire: control.ReportRequest) -> Report:
    """A metal's report."""
    return Report(
        metal=_within("metal", _present(wire, "metal"), metal_from_wire),
        snapshot=wire.snapshot,
        sightings=_each("sightings", wire.sightings, sighting_from_wire),
        actors=_each("actors", wire.actors, actor_sighting_from_wire),
        captures=_each("captures", wire.captures, key_from_wire),
    )


def report_reply_to_wire(reply: ReportReply) -> control.ReportResponse:
    """The answer to a report."""
    return control.ReportResponse(
        snapshot_wanted=reply.snapshot_wanted, stop=[key_to_wire(key) for key in reply.stop]
    )


def report_reply_from_wire(wire: control.ReportResponse) -> ReportReply:
    """The answer to a report."""
    return ReportReply(
        snapshot_wanted=wire.snapshot_wanted, stop=_each("stop", wire.stop, key_from_wire)
    )


def holds_to_wire(holds: SliceHolds) -> control.SliceHolds:
    """The critical sections of one slice."""
    return control.SliceHolds(
        start_hold_us=holds.start_hold_us,
        stop_hold_us=holds.stop_hold_us,
        gap_us=holds.gap_us,
        sampled_us=holds.sampled_us,
        samples=holds.samples,
        nodes=holds.nodes,
    )


def holds_from_wire(wire: control.SliceHolds) -> SliceHolds:
    """The critical sections of one slice."""
    return SliceHolds(
        start_hold_us=wire.start_hold_us,
        stop_hold_us=wire.stop_hold_us,
        gap_us=wire.gap_us,
        sampled_us=wire.sampled_us,
        samples=wire.samples,
        nodes=wire.nodes,
    )


def manifest_to_wire(manifest: UploadManifest) -> control.UploadManifest:
    """What an upload will be."""
    return control.UploadManifest(
        key=key_to_wire(manifest.key),
        metal_id=manifest.metal_id,
        isolate_id=manifest.isolate_id,
        sha256=manifest.sha256,
        size_bytes=manifest.size_bytes,
        samples=manifest.samples,
        window_ms=manifest.window_ms,
        slices=[holds_to_wire(holds) for holds in manifest.slices],
        truncated=manifest.truncated,
    )


def sha256_from_wire(value: str) -> str:
    """A SHA-256 as 64 lower-case hex digits."""
    return _shaped("sha256", value, SHA256, "64 hex digits")


def manifest_from_wire(wire: control.UploadManifest) -> UploadManifest:
    """What an upload will be."""
    return UploadManifest(
        key=required_key(wire),
        metal_id=_metal_id(wire.metal_id),
        isolate_id=_isolate_id(wire.isolate_id),
        sha256=sha256_from_wire(wire.sha256),
        size_bytes=_bounded("size_bytes", wire.size_bytes, INT64_MAX),
        samples=wire.samples,
        window_ms=wire.window_ms,
        slices=tuple(holds_from_wire(holds) for holds in wire.slices),
        truncated=_readable(wire.truncated),
    )


def receipt_to_wire(receipt: Receipt) -> control.UploadResponse:
    """What was kept."""
    return control.UploadResponse(key=key_to_wire(receipt.key), size_bytes=receipt.size_bytes)


def receipt_from_wire(wire: control.UploadResponse) -> Receipt:
    """What was kept."""
    return Receipt(key=required_key(wire), size_bytes=wire.size_bytes)
