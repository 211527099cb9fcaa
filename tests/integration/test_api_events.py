"""Events of a session: every change once, in order, from any replica, over any number of cuts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from contract.faults import Reason
from contract.messages import CaptureReport, CaptureState
from control_plane.api.parts import PARTS, STREAMS
from control_plane.store import history
from control_plane.store.notices import Notices
from tests.integration.edge_scene import ISOLATE, Scene, edge_scene, serve
from tests.integration.planes import ACCOUNT, OTHER_ACCOUNT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# A test that passes by polling alone would hide a notice that never comes.
BY_NOTICE_ALONE = {"events_poll_ms": 600_000}


@dataclass(frozen=True, kw_only=True)
class Told:
    """One event as it came; ``id`` is None for progress."""

    id: int | None
    kind: str
    data: dict[str, Any]


class Stream:
    """A stream being read: blocks between empty lines, comments among them."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def blocks(self) -> AsyncIterator[str]:
        block = ""
        async for line in self.answer.content:
            text = line.decode()
            if text == "\n":
                yield block
                block = ""
            else:
                block += text
        assert block == ""

    async def events(self) -> AsyncIterator[Told]:
        async for block in self.blocks():
            lines = dict(line.split(": ", 1) for line in block.strip().splitlines())
            if "data" in lines:
                number = lines.get("id")
                yield Told(
                    id=int(number) if number is not None else None,
                    kind=lines["event"],
                    data=json.loads(lines["data"]),
                )

    async def rest(self) -> list[Told]:
        return [event async for event in self.events()]

    async def until(self, kind: str, **wanted: Any) -> list[Told]:
        """Read on up to the first event of a kind with such data."""
        read = []
        async for event in self.events():
            read.append(event)
            if event.kind == kind and wanted.items() <= event.data.items():
                return read
        raise AssertionError(f"ended without {kind} {wanted}: {read}")


@contextlib.asynccontextmanager
async def stream(
    scene: Scene, session_id: str, *, after: str | None = None
) -> AsyncIterator[Stream]:
    headers = {"Authorization": f"Bearer {scene.token}"}
    if after is not None:
        headers["Last-Event-ID"] = after
    url = f"{scene.base}/client/v4/accounts/{ACCOUNT}/profile-sessions/{session_id}/events"
    timeout = aiohttp.ClientTimeout(total=60)
    async with scene.http.get(url, headers=headers, timeout=timeout) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield Stream(answer)


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    async with edge_scene(database_url, **BY_NOTICE_ALONE) as made:
        yield made


async def create(scene: Scene, **more: Any) -> str:
    asked = {"worker": "replacer", "duration_ms": 1000} | more
    answer = await scene.call("POST", "profile-sessions", json=asked)
    return str(answer.body["result"]["id"])


async def sampling(scene: Scene) -> str:
    """Bring a session to where its capture samples, and no further."""
    scene.metal.go.clear()
    session_id = await create(scene, duration_ms=50_000)
    async with stream(scene, session_id) as reading:
        await reading.until("session", state="capturing")
    return session_id


async def only(scene: Scene, streams: int) -> None:
    """Return once no more than this are open; a reader that is never noticed fails here."""
    async with asyncio.timeout(20):
        while scene.app[STREAMS].open(ACCOUNT) > streams:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


def numbered(events: list[Told]) -> list[tuple[int | None, str, int | None, str]]:
    return [
        (one.id, one.kind, one.data.get("capture"), one.data["state"])
        for one in events
        if one.id is not None
    ]


WHOLE = [
    (1, "session", None, "queued"),
    (2, "capture", 1, "ordered"),
    (3, "capture", 1, "sampling"),
    (4, "session", None, "capturing"),
    (5, "session", None, "finishing"),
    (6, "capture", 1, "uploaded"),
    (7, "session", None, "ready"),
]


async def test_the_whole_story_ends_with_the_session(scene: Scene) -> None:
    # What others do in between leaves no gap in the numbers that could be counted.
    for _ in range(2):
        await scene.profile()
    session_id = await create(scene)
    async with stream(scene, session_id) as reading:
        told = await reading.rest()
    assert numbered(told) == WHOLE
    async with scene.db.read() as conn:
        entries = await history.of_session(conn, ACCOUNT, session_id)
    assert [(one.event, one.state_after) for one in entries] == [
        (one.data["event"], one.data["state"]) for one in told
    ]
    assert {one.data["session"] for one in told} == {session_id}
    assert [one.data["at"] for one in told] == sorted(one.data["at"] for one in told)


async def test_a_reader_goes_on_where_it_was(scene: Scene) -> None:
    session_id = await create(scene)
    await scene.session_until(session_id, "ready")
    for seen in range(7):
        async with stream(scene, session_id, after=str(seen)) as reading:
            assert numbered(await reading.rest()) == WHOLE[seen:]
    place = f"profile-sessions/{session_id}/events"
    over = await scene.call("GET", place, headers={"Last-Event-ID": "7"})
    assert (over.status, over.data) == (204, b"")
    for wrong in ("8", "x", "-1", "1.0", "9" * 30):
        answer = await scene.call("GET", place, headers={"Last-Event-ID": wrong})
        assert answer.error[:2] == (400, 10021)
        assert answer.pointers == ["header/Last-Event-ID"]


async def test_notices_wake_a_reader_at_any_replica(scene: Scene) -> None:
    session_id = await sampling(scene)
    async with scene.replica() as second, stream(second, session_id) as reading:
        await reading.until("session", state="capturing")
        scene.metal.go.set()
        assert numbered(await reading.rest()) == WHOLE[4:]


async def test_polling_is_enough_where_no_notice_comes(scene: Scene) -> None:
    session_id = await sampling(scene)
    async with scene.replica() as deaf:
        parts = deaf.app[PARTS]
        # Never opened, so it never listens.
        settings = replace(parts.settings, events_poll_ms=20)
        changed = replace(parts, notices=Notices(parts.db), settings=settings)
        async with contextlib.AsyncExitStack() as stack:
            _, runner = await serve(stack, changed)
            base = f"http://127.0.0.1:{runner.addresses[0][1]}"
            async with stream(replace(deaf, base=base), session_id) as reading:
                await reading.until("session", state="capturing")
                scene.metal.go.set()
                assert numbered(await reading.rest()) == WHOLE[4:]


async def test_progress_says_how_far_a_capture_is(database_url: str) -> None:
    async with edge_scene(database_url, events_poll_ms=20) as scene:
        session_id = await sampling(scene)
        order = scene.metal.orders.get_nowait()
        async with stream(scene, session_id) as reading:
            await reading.until("session", state="capturing")
            for sampled_ms in (1_000, 2_500):
                report = CaptureReport(
                    key=order.key,
                    metal_id=scene.metal.metal_id,
                    state=CaptureState.SAMPLING,
                    isolate_id=ISOLATE,
                    sampled_ms=sampled_ms,
                )
                await scene.metal.tell(report)
                (event,) = await reading.until("progress")
                assert event.id is None
                assert event.data == {
                    "session": session_id,
                    "capture": 1,
                    "sampled_ms": sampled_ms,
                    "duration_ms": 50_000,
                }
        # A reader that comes back is told how things stand, and no change a second time.
        async with stream(scene, session_id, after="4") as reading:
            assert (await reading.until("progress"))[0].data["sampled_ms"] == 2_500
            scene.metal.go.set()
            assert numbered(await reading.rest()) == WHOLE[4:]


async def test_a_quiet_stream_says_that_it_lives(database_url: str) -> None:
    async with edge_scene(database_url, events_poll_ms=10, events_heartbeat_ms=50) as scene:
        session_id = await sampling(scene)
        async with stream(scene, session_id, after="4") as reading:
            blocks = reading.blocks()
            assert await anext(blocks) == "retry: 2000\n"
            assert await anext(blocks) == ": still here\n"
            assert await anext(blocks) == ": still here\n"


async def test_the_reason_of_a_bad_end_is_told(scene: Scene) -> None:
    session_id = await sampling(scene)
    async with stream(scene, session_id) as reading:
        await reading.until("session", state="capturing")
        await scene.call("DELETE", f"profile-sessions/{session_id}")
        end = (await reading.rest())[-1]
    assert (end.kind, end.data["state"]) == ("session", "cancelled")
    assert end.data["reason"] == Reason.SESSION_CANCELLED.value


async def test_streams_are_bounded_and_a_reader_that_leaves_is_noticed(
    database_url: str,
) -> None:
    bounds = {"event_streams_per_account": 2, "event_streams": 3}
    async with edge_scene(database_url, **BY_NOTICE_ALONE, **bounds) as scene:
        session_id = await sampling(scene)
        place = f"profile-sessions/{session_id}/events"
        async with stream(scene, session_id) as one:
            await one.until("session", state="capturing")
            async with stream(scene, session_id) as two:
                await two.until("session", state="capturing")
                full = await scene.call("GET", place)
                assert full.error[:2] == (429, 10413)
                assert "2 event streams" in full.error[2]
                assert int(full.headers["retry-after"]) >= 1
                two.answer.close()
            await only(scene, 1)
            async with stream(scene, session_id) as three:
                await three.until("session", state="capturing")
        await only(scene, 0)
        with scene.app[STREAMS].one(OTHER_ACCOUNT), scene.app[STREAMS].one(OTHER_ACCOUNT):
            async with stream(scene, session_id) as four:
                await four.until("session", state="capturing")
                full = await scene.call("GET", place)
                assert full.error[:2] == (429, 10413)
                assert "3 event streams" in full.error[2]


async def test_a_replica_that_stops_ends_its_streams_and_another_goes_on(scene: Scene) -> None:
    session_id = await sampling(scene)
    async with scene.replica() as leaving, stream(leaving, session_id) as reading:
        seen = await reading.until("session", state="capturing")
        stopping = asyncio.create_task(leaving.runner.cleanup())
        # Ended in form, not cut: the last chunk came.
        assert await reading.rest() == []
        await stopping
    async with stream(scene, session_id, after=str(seen[-1].id)) as reading:
        scene.metal.go.set()
        assert numbered(seen + await reading.rest()) == WHOLE


@pytest.mark.parametrize("seed", range(4))
async def test_cut_anywhere_nothing_is_lost_and_nothing_comes_twice(
    scene: Scene, seed: int
) -> None:
    rng = random.Random(seed)
    scene.metal.go.clear()
    session_id = await create(scene, duration_ms=50_000)
    seen: list[Told] = []
    async with scene.replica() as second:
        while len(seen) < len(WHOLE):
            if len(seen) >= 4:
                scene.metal.go.set()
            after = str(seen[-1].id) if seen else None
            async with stream(rng.choice([scene, second]), session_id, after=after) as reading:
                # Cut before the first event, or after one of those that come.
                left = rng.randrange(3)
                async for event in reading.events():
                    if left == 0:
                        break
                    seen.append(event)
                    left -= 1
                    if len(seen) == 4:
                        scene.metal.go.set()
    assert numbered(seen) == WHOLE


async def test_nobody_follows_another_accounts_session(scene: Scene) -> None:
    session_id = await create(scene)
    theirs = await scene.call(
        "GET",
        f"profile-sessions/{session_id}/events",
        account=OTHER_ACCOUNT,
        token=scene.other_token,
    )
    never = await scene.call("GET", f"profile-sessions/{'0' * 8}-0000-4000-8000-{'0' * 12}/events")
    assert theirs.error == never.error
    assert theirs.error[:2] == (404, 10402)
    assert scene.app[STREAMS].open(OTHER_ACCOUNT) == 0
    head = await scene.call("HEAD", f"profile-sessions/{session_id}/events")
    assert head.status == 405
