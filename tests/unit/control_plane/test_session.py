from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.messages import LIVE_CAPTURE_STATES, CaptureState
from control_plane.session import (
    CAPTURE_TABLE,
    LIVE_STATES,
    SESSION_TABLE,
    CaptureEvent,
    SessionEvent,
    SessionState,
    advance,
    advance_capture,
    lifetime_ms,
)

ORDER = [SessionState.QUEUED, SessionState.CAPTURING, SessionState.FINISHING, SessionState.READY]


def test_tables_are_total() -> None:
    assert set(SESSION_TABLE) == set(SessionState)
    assert set(CAPTURE_TABLE) == set(CaptureState)
    for live in LIVE_STATES:
        assert set(SESSION_TABLE[live]) == set(SessionEvent)


@pytest.mark.parametrize("state", SessionState)
def test_only_ended_sessions_stay(state: SessionState) -> None:
    moves = [advance(state, event) for event in SessionEvent]
    assert (moves == [None] * len(moves)) == (state not in LIVE_STATES)


@pytest.mark.parametrize("state", CaptureState)
def test_only_ended_captures_stay(state: CaptureState) -> None:
    moves = [advance_capture(state, event) for event in CaptureEvent]
    assert (moves == [None] * len(moves)) == (state not in LIVE_CAPTURE_STATES)


@given(st.lists(st.sampled_from(list(SessionEvent))))
def test_a_session_never_goes_back_and_ends_once(events: list[SessionEvent]) -> None:
    seen = [SessionState.QUEUED]
    for event in events:
        seen.append(advance(seen[-1], event) or seen[-1])
    good = [ORDER.index(s) for s in seen if s in ORDER]
    assert good == sorted(good)
    ended = [s for s in seen if s not in LIVE_STATES]
    assert len(set(ended)) <= 1


@given(st.lists(st.sampled_from(list(CaptureEvent))))
def test_a_capture_ends_once(events: list[CaptureEvent]) -> None:
    seen = [CaptureState.ORDERED]
    for event in events:
        seen.append(advance_capture(seen[-1], event) or seen[-1])
    assert len({s for s in seen if s not in LIVE_CAPTURE_STATES}) <= 1


@pytest.mark.parametrize(
    ("duration_ms", "lifetime"), [(1000, 17_000), (5000, 25_000), (50_000, 90_000)]
)
def test_the_longest_session_ends_within_the_clients_wait(duration_ms: int, lifetime: int) -> None:
    assert lifetime_ms(duration_ms, 15_000) == lifetime
