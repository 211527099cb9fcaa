"""Every message survives the wire, and what is absent or malformed is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from contract import convert
from contract.faults import Fault, Reason
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

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = CaptureKey(session_id="0b9d7f6e-1d2c-4a3b-9c4d-5e6f70819203", capture=2)
ACCOUNT, WORKER, NAMESPACE = "a" * 32, "b" * 32, "c" * 32
VERSION = "11111111-2222-4333-8444-555555555555"
ACTOR = Actor(namespace_id=NAMESPACE, actor_id="d" * 64)
ORDER = Order(
    key=KEY,
    account_id=ACCOUNT,
    worker_id=WORKER,
    version_id=VERSION,
    profile_type=ProfileType.HEAP,
    duration_ms=50_000,
    sampling_interval_us=1_000,
    deadline_ms=90_000,
    actor=ACTOR,
)
REPORT = CaptureReport(
    key=KEY,
    metal_id="ams1-m1",
    state=CaptureState.FAILED,
    isolate_id="wd1/checkout",
    sampled_ms=1_234,
    reason=Reason.TARGET_EXITED,
    message="the process ended",
)
ISOLATE = Isolate(
    isolate_id="wd1/checkout",
    account_id=ACCOUNT,
    worker_id=WORKER,
    worker_name="checkout",
    version_id=VERSION,
    executions=17,
    idle_ms=0,
    shared=True,
    held_ms=900,
    namespaces=(NAMESPACE,),
)
METAL = Metal(
    metal_id="ams1-m1", datacenter="ams1", address="127.0.0.1:7101", epoch=7, max_captures=4
)
SIGHTING = Sighting(
    account_id=ACCOUNT,
    worker_id=WORKER,
    worker_name="checkout",
    version_id=VERSION,
    executions=5,
    idle_ms=0,
    isolates=2,
    free_isolates=1,
    shared=False,
    held_ms=40,
    namespaces=(NamespaceRef(namespace_id=NAMESPACE, class_name="Counter", unique_key="c-C"),),
)
ACTOR_SIGHTING = ActorSighting(
    actor=ACTOR, account_id=ACCOUNT, worker_id=WORKER, version_id=VERSION, idle_ms=12
)
MANIFEST = UploadManifest(
    key=KEY,
    metal_id="ams1-m1",
    isolate_id="wd1/checkout",
    sha256="e" * 64,
    size_bytes=4096,
    samples=512,
    window_ms=5_000,
    slices=(
        SliceHolds(
            start_hold_us=9_000,
            stop_hold_us=31_000,
            gap_us=0,
            sampled_us=5_000_000,
            samples=512,
            nodes=80,
        ),
    ),
    truncated="depth",
)

ROUND_TRIPS: list[tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = [
    (ORDER, convert.order_to_wire, convert.order_from_wire),
    (
        Accepted(key=KEY, isolate_id="wd1/checkout"),
        convert.accepted_to_wire,
        convert.accepted_from_wire,
    ),
    (REPORT, convert.capture_report_to_wire, convert.capture_report_from_wire),
    (ISOLATE, convert.isolate_to_wire, convert.isolate_from_wire),
    ((ISOLATE, ISOLATE), convert.isolates_to_wire, convert.isolates_from_wire),
    (METAL, convert.metal_to_wire, convert.metal_from_wire),
    (SIGHTING, convert.sighting_to_wire, convert.sighting_from_wire),
    (ACTOR_SIGHTING, convert.actor_sighting_to_wire, convert.actor_sighting_from_wire),
    (
        Report(
            metal=METAL,
            snapshot=True,
            sightings=(SIGHTING,),
            actors=(ACTOR_SIGHTING,),
            captures=(KEY,),
        ),
        convert.report_to_wire,
        convert.report_from_wire,
    ),
    (
        ReportReply(snapshot_wanted=True, stop=(KEY,)),
        convert.report_reply_to_wire,
        convert.report_reply_from_wire,
    ),
    (MANIFEST, convert.manifest_to_wire, convert.manifest_from_wire),
    (Receipt(key=KEY, size_bytes=4096), convert.receipt_to_wire, convert.receipt_from_wire),
]


@pytest.mark.parametrize(
    ("value", "to_wire", "from_wire"), ROUND_TRIPS, ids=lambda one: type(one).__name__
)
def test_a_message_survives_the_wire(
    value: Any, to_wire: Callable[[Any], Any], from_wire: Callable[[Any], Any]
) -> None:
    wire = to_wire(value)
    read = type(wire).FromString(wire.SerializeToString())
    assert from_wire(read) == value


def test_never_ran_and_ran_just_now_are_two_things() -> None:
    never = convert.isolate_to_wire(ISOLATE)
    never.ClearField("idle_ms")
    assert convert.isolate_from_wire(never).idle_ms is None
    assert convert.isolate_from_wire(convert.isolate_to_wire(ISOLATE)).idle_ms == 0


def test_an_order_without_actor_has_none() -> None:
    wire = convert.order_to_wire(ORDER)
    wire.ClearField("actor")
    assert convert.order_from_wire(wire).actor is None


def test_enums_are_total_on_the_wire() -> None:
    assert set(convert.PROFILE_TYPE_TO_WIRE) == set(ProfileType)
    assert set(convert.CAPTURE_STATE_TO_WIRE) == set(CaptureState)
    assert len(set(convert.CAPTURE_STATE_TO_WIRE.values())) == len(CaptureState)


def test_a_reason_of_a_newer_release_is_read_as_internal() -> None:
    wire = convert.capture_report_to_wire(REPORT)
    wire.reason = "struck_by_a_meteor"
    assert convert.capture_report_from_wire(wire).reason is Reason.INTERNAL


ORDER_FAULTS = [
    ("account_id", "A" * 32, "/account_id"),
    ("worker_id", "b" * 31, "/worker_id"),
    ("version_id", "latest", "/version_id"),
    ("profile_type", 0, "/profile_type"),
    ("profile_type", 9, "/profile_type"),
    ("duration_ms", 0, "/duration_ms"),
    ("sampling_interval_us", 0, "/sampling_interval_us"),
    ("deadline_ms", 0, "/deadline_ms"),
]


@pytest.mark.parametrize(("field", "value", "pointer"), ORDER_FAULTS)
def test_a_bad_field_of_an_order_is_named(field: str, value: object, pointer: str) -> None:
    wire = convert.order_to_wire(ORDER)
    setattr(wire, field, value)
    with pytest.raises(Fault) as refused:
        convert.order_from_wire(wire)
    assert refused.value.reason is Reason.REQUEST_INVALID
    assert [one.pointer for one in refused.value.fields] == [pointer]


@pytest.mark.parametrize("session_id", ["", "../../etc", "0B9D7F6E-1D2C-4A3B-9C4D-5E6F70819203"])
def test_a_key_that_is_no_session_is_refused(session_id: str) -> None:
    wire = convert.order_to_wire(ORDER)
    wire.key.session_id = session_id
    with pytest.raises(Fault) as refused:
        convert.order_from_wire(wire)
    assert [one.pointer for one in refused.value.fields] == ["/key/session_id"]


def test_an_absent_key_is_refused() -> None:
    wire = convert.order_to_wire(ORDER)
    wire.ClearField("key")
    with pytest.raises(Fault) as refused:
        convert.order_from_wire(wire)
    assert [one.pointer for one in refused.value.fields] == ["/key"]


@pytest.mark.parametrize("sha256", ["", "e" * 63, "E" * 64, "g" * 64])
def test_a_manifest_needs_a_whole_sha256(sha256: str) -> None:
    wire = convert.manifest_to_wire(MANIFEST)
    wire.sha256 = sha256
    with pytest.raises(Fault) as refused:
        convert.manifest_from_wire(wire)
    assert [one.pointer for one in refused.value.fields] == ["/sha256"]


def test_a_report_names_its_metal() -> None:
    wire = convert.report_to_wire(Report(metal=METAL, snapshot=False))
    wire.metal.metal_id = "../m1"
    with pytest.raises(Fault) as refused:
        convert.report_from_wire(wire)
    assert [one.pointer for one in refused.value.fields] == ["/metal/metal_id"]
