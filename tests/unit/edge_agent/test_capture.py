"""From an order to an upload or a named failure, over the simulated runtime."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import pytest

from contract.faults import Fault, Reason
from contract.messages import Actor, CaptureKey, CaptureState, ProfileType
from edge_agent.journal import Entry
from tests.unit.edge_agent.metal import (
    ACCOUNT,
    NAMESPACE,
    OTHER_ACCOUNT,
    PROFILE,
    Metal,
    isolate,
    order,
)

if TYPE_CHECKING:
    from pathlib import Path

    from contract.messages import CaptureReport

ACTOR = Actor(namespace_id=NAMESPACE, actor_id="d" * 64)
OTHER_SESSION = CaptureKey(session_id="7d1b21f2-5d77-4a30-8b8c-9c9a0f6f5a11", capture=1)


async def _refusal(metal: Metal, **changes: object) -> Fault:
    with pytest.raises(Fault) as refused:
        await metal.captures.start(order(**changes))  # type: ignore[arg-type]
    return refused.value


@pytest.mark.parametrize("profile_type", list(ProfileType))
async def test_a_capture_is_uploaded_whole(tmp_path: Path, profile_type: ProfileType) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    accepted = await metal.captures.start(order(profile_type=profile_type))
    assert accepted.isolate_id == "wd1/checkout"
    await metal.control.ended.wait()
    ((manifest, data),) = metal.control.uploads
    assert data == PROFILE
    assert manifest.sha256 == hashlib.sha256(PROFILE).hexdigest()
    assert (manifest.size_bytes, manifest.samples) == (len(PROFILE), 7)
    assert manifest.isolate_id == "wd1/checkout"
    assert manifest.window_ms == pytest.approx(2_000, abs=100)
    assert all(one.stop_hold_us > 0 for one in manifest.slices)
    assert metal.built[0].profile_type is profile_type
    await metal.until(order().key, CaptureState.UPLOADED)
    await metal.captures.close()
    assert metal.holds.held_ms("wd1/checkout", metal.now_ms) == 0
    assert metal.journal.read() == ()
    assert not metal.runtime.isolate("checkout").profiling


async def test_the_busiest_isolate_is_sampled(tmp_path: Path) -> None:
    services = [f"copy{number}" for number in range(8)]
    metal = Metal(tmp_path, *(isolate(service) for service in services))
    for service in services:
        metal.ran(service)
    metal.ran("copy5", 100)
    accepted = await metal.captures.start(order())
    assert accepted.isolate_id == "wd1/copy5"
    await metal.captures.close()


async def test_the_same_order_again_answers_as_the_first_time(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    first, again = await asyncio.gather(
        metal.captures.start(order()), metal.captures.start(order())
    )
    assert first == again
    await metal.control.ended.wait()
    assert await metal.captures.start(order()) == first
    await metal.captures.close()
    assert len(metal.control.uploads) == 1


async def test_another_order_under_a_known_key_is_refused(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    await metal.captures.start(order())
    assert (await _refusal(metal, duration_ms=9_000)).reason is Reason.REQUEST_INVALID
    await metal.captures.close()


async def test_a_held_isolate_says_when_it_is_free(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    await metal.captures.start(order())
    refused = await _refusal(metal, capture=2)
    assert refused.reason is Reason.ISOLATES_BUSY
    assert refused.retry_after_s is not None
    assert 0 < refused.retry_after_s <= 10
    await metal.control.ended.wait()
    await metal.captures.close()


async def test_two_isolates_take_two_captures(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("one"), isolate("two"))
    metal.ran("one")
    metal.ran("two")
    first = await metal.captures.start(order(1))
    second = await metal.captures.start(order(2))
    assert {first.isolate_id, second.isolate_id} == {"wd1/one", "wd1/two"}
    await metal.captures.close()


async def test_a_session_gets_an_isolate_once(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("one"), isolate("two"))
    metal.ran("one", 100)
    metal.ran("two")
    taken = []
    for number in (1, 2):
        metal.control.ended.clear()
        taken.append((await metal.captures.start(order(number))).isolate_id)
        await metal.control.ended.wait()
    assert taken == ["wd1/one", "wd1/two"]
    refused = await _refusal(metal, capture=3)
    assert (refused.reason, refused.retry_after_s) == (Reason.NOT_LOADED, None)
    assert (await metal.captures.start(order(key=OTHER_SESSION))).isolate_id == "wd1/one"
    await metal.captures.close()


async def test_a_full_metal_takes_no_more(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("one"), isolate("two"), max_captures=1)
    metal.ran("one")
    metal.ran("two")
    await metal.captures.start(order(1))
    assert (await _refusal(metal, capture=2)).reason is Reason.ISOLATES_BUSY
    await metal.captures.close()


async def test_loaded_but_never_run_is_no_recent_execution(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    assert (await _refusal(metal)).reason is Reason.NO_RECENT_EXECUTION


@pytest.mark.parametrize(
    "changes",
    [
        {"also_accounts": (OTHER_ACCOUNT,)},
        {"account_id": OTHER_ACCOUNT},
        {"version_id": "99999999-2222-4333-8444-555555555555"},
        {"worker_id": "9" * 32},
    ],
    ids=lambda one: next(iter(one)),
)
async def test_only_an_isolate_of_that_account_and_version_alone(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    metal = Metal(tmp_path, isolate("checkout", **changes))
    metal.ran("checkout")
    refused = await _refusal(metal)
    assert refused.reason is Reason.NOT_LOADED
    assert OTHER_ACCOUNT not in refused.message
    assert ACCOUNT not in refused.message


async def test_an_actor_must_have_run_here(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("counter", namespaces={NAMESPACE: "Counter"}))
    metal.ran("counter")
    assert (await _refusal(metal, actor=ACTOR)).reason is Reason.ACTOR_INACTIVE
    metal.ran("counter", actor_id=ACTOR.actor_id, entrypoint="Counter")
    accepted = await metal.captures.start(order(actor=ACTOR))
    assert accepted.isolate_id == "wd1/counter"
    await metal.captures.close()


async def test_an_actor_is_where_it_ran_last(tmp_path: Path) -> None:
    serves = {"namespaces": {NAMESPACE: "Counter"}}
    metal = Metal(tmp_path, isolate("before", **serves), isolate("now", **serves))
    metal.ran("before", 50, actor_id=ACTOR.actor_id, entrypoint="Counter")
    await metal.clock.sleep(1)
    metal.ran("now", actor_id=ACTOR.actor_id, entrypoint="Counter")
    accepted = await metal.captures.start(order(actor=ACTOR))
    assert accepted.isolate_id == "wd1/now"
    assert (await _refusal(metal, capture=2, actor=ACTOR)).reason is Reason.ISOLATES_BUSY
    await metal.captures.close()


async def test_a_stop_says_that_the_isolate_is_free(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    await metal.captures.start(order(duration_ms=50_000))
    running = await metal.until(order().key, CaptureState.SAMPLING)
    assert not running.freed
    assert (await metal.captures.stop(order().key, discard=False)).freed
    await metal.captures.close()


async def test_an_actor_of_another_namespace_is_inactive(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("counter", namespaces={"9" * 32: "Counter"}))
    metal.ran("counter", actor_id=ACTOR.actor_id, entrypoint="Counter")
    assert (await _refusal(metal, actor=ACTOR)).reason is Reason.ACTOR_INACTIVE


async def test_a_stop_that_keeps_uploads_what_was_taken(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    await metal.captures.start(order(duration_ms=50_000))
    await metal.until(order().key, CaptureState.SAMPLING)
    await metal.captures.stop(order().key, discard=False)
    await metal.control.ended.wait()
    ((manifest, _),) = metal.control.uploads
    assert manifest.window_ms < 50_000
    await metal.captures.close()


async def test_a_stop_that_discards_uploads_nothing_and_frees_the_isolate(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    await metal.captures.start(order(duration_ms=50_000))
    await metal.captures.stop(order().key, discard=True)
    assert metal.holds.held_ms("wd1/checkout", metal.now_ms) == 0
    assert not metal.runtime.isolate("checkout").profiling
    await metal.control.ended.wait()
    assert metal.control.uploads == []
    assert metal.control.captures[-1].state is CaptureState.STOPPED
    await metal.captures.close()


async def test_a_runtime_that_exits_is_told_by_name(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    await metal.captures.start(order(duration_ms=50_000))
    await metal.until(order().key, CaptureState.SAMPLING)
    metal.runtime.exit()
    await metal.control.ended.wait()
    told = metal.control.captures[-1]
    assert (told.state, told.reason) == (CaptureState.FAILED, Reason.TARGET_EXITED)
    metal.runtime.restart()
    await metal.looked()
    metal.ran("checkout")
    metal.control.ended.clear()
    await metal.captures.start(order(key=OTHER_SESSION))
    await metal.control.ended.wait()
    assert len(metal.control.uploads) == 1
    await metal.captures.close()


async def test_what_an_earlier_run_left_open_is_told_once(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    key = CaptureKey(session_id=order().key.session_id, capture=1)
    entry = Entry(key=key, isolate_id="wd1/checkout", accepted_at_ns=1)
    metal.journal.open(entry)
    (left,) = metal.journal.read()
    metal.captures.lost(left)
    await metal.control.ended.wait()
    told = metal.control.captures[-1]
    assert (told.state, told.reason) == (CaptureState.FAILED, Reason.AGENT_RESTARTED)
    await metal.captures.close()
    assert metal.journal.read() == ()


async def test_an_end_that_could_not_be_told_stays_known(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    metal.control.refuse = Fault(Reason.STORE_UNAVAILABLE, "no gateway")
    await metal.captures.start(order())
    ended = await metal.until(order().key, CaptureState.FAILED)
    assert ended.reason is Reason.STORE_UNAVAILABLE
    assert metal.holds.held_ms("wd1/checkout", metal.now_ms) == 0
    await metal.captures.close()


async def test_a_stop_while_a_capture_winds_up_does_not_lose_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    leaving, go = asyncio.Event(), asyncio.Event()

    async def slow_to_leave(report: CaptureReport, *, for_s: float) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            leaving.set()
            await go.wait()

    monkeypatch.setattr(metal.control, "report_capture", slow_to_leave)
    await metal.captures.start(order(duration_ms=5_000))
    # Uploaded, and the last word on its progress is being called back.
    await leaving.wait()
    await metal.captures.stop(order().key, discard=True)
    go.set()
    await metal.captures.close()
    assert metal.captures.show(order().key).state is CaptureState.UPLOADED
    assert metal.captures.keys() == ()
    assert metal.journal.read() == ()


async def test_a_capture_nobody_ordered_is_unknown(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    with pytest.raises(Fault) as shown:
        metal.captures.show(order().key)
    assert shown.value.reason is Reason.CAPTURE_UNKNOWN
    with pytest.raises(Fault) as stopped:
        await metal.captures.stop(order().key, discard=True)
    assert stopped.value.reason is Reason.CAPTURE_UNKNOWN


async def test_a_closing_agent_takes_no_order(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    await metal.captures.start(order(duration_ms=50_000))
    await metal.captures.close()
    assert metal.control.captures[-1].reason is Reason.AGENT_RESTARTED
    assert not metal.runtime.isolate("checkout").profiling
    assert (await _refusal(metal, capture=2)).reason is Reason.AGENT_RESTARTED
