from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from contract.faults import Reason
from control_plane.breaker import BLAMED, LATEST, Latest, Limits, left_alone_s
from control_plane.retry import NEXT, Next

LIMITS = Limits(failures=5, pause_s=60)


def latest(**changes: Any) -> Latest:
    values: dict[str, Any] = {
        "ended": 8,
        "failed": 5,
        "reason": Reason.TARGET_EXITED,
        "since_failed_s": 12.0,
        "trying_ends_in_s": None,
    }
    return Latest(**(values | changes))


def test_too_few_failures_or_too_small_a_part_leave_it_closed() -> None:
    assert left_alone_s(latest(ended=4, failed=4), LIMITS) is None
    assert left_alone_s(latest(ended=11, failed=5), LIMITS) is None


def test_half_of_the_latest_is_enough() -> None:
    assert left_alone_s(latest(ended=10, failed=5), LIMITS) == 48
    assert left_alone_s(latest(ended=5, failed=5), LIMITS) == 48


def test_after_the_pause_one_is_tried_and_the_others_wait_for_it() -> None:
    assert left_alone_s(latest(since_failed_s=60), LIMITS) is None
    assert left_alone_s(latest(since_failed_s=60, trying_ends_in_s=4.5), LIMITS) == 4.5
    # One that is being wound up is over soon, not at once.
    assert left_alone_s(latest(since_failed_s=60, trying_ends_in_s=-3), LIMITS) == 1


def test_what_others_cause_is_not_held_against_a_version() -> None:
    assert not BLAMED & {
        Reason.ISOLATES_BUSY,
        Reason.NOT_LOADED,
        Reason.NO_RECENT_EXECUTION,
        Reason.ACTOR_INACTIVE,
        Reason.AGENT_UNREACHABLE,
        Reason.CAPTURE_LOST,
        Reason.CAPTURE_STOPPED,
        Reason.INSPECTOR_LOST,
    }
    assert NEXT[Reason.VERSION_SUSPENDED] is Next.GIVE_UP


@given(
    st.integers(0, LATEST), st.integers(0, LATEST), st.floats(0, 1e6), st.none() | st.floats(-9, 90)
)
def test_it_never_says_to_come_back_in_the_past(
    ended: int, failed: int, since_s: float, trying_s: float | None
) -> None:
    told = left_alone_s(
        latest(
            ended=ended,
            failed=min(failed, ended),
            since_failed_s=since_s,
            trying_ends_in_s=trying_s,
        ),
        LIMITS,
    )
    assert told is None or told >= 1
