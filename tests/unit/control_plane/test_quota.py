from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from control_plane import quota
from control_plane.quota import Allowed, Exceeded, Quota, Spent

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALLOWED = Allowed(
    max_concurrent_sessions=2, max_sessions_per_hour=4, max_capture_seconds_per_hour=60
)


def spent(ago_s: float, *, charged_ms: int = 0, ends_in_s: float | None = None) -> Spent:
    return Spent(
        made_at=NOW - timedelta(seconds=ago_s),
        live=ends_in_s is not None,
        charged_ms=charged_ms,
        ends_at=NOW + timedelta(seconds=ends_in_s or 0),
    )


def judged(*used: Spent, wanted_ms: int = 1000) -> tuple[Quota, float] | None:
    found = quota.judge(ALLOWED, used, wanted_ms=wanted_ms, now=NOW)
    return (found.quota, found.retry_after_s) if found is not None else None


def test_what_fits_is_let_by() -> None:
    assert judged() is None
    assert judged(spent(9, ends_in_s=3)) is None
    assert judged(spent(3500), spent(900), spent(5)) is None
    assert judged(spent(5, charged_ms=59_000)) is None


def test_concurrent_sessions_wait_for_the_first_to_end() -> None:
    told = judged(spent(9, ends_in_s=30), spent(5, ends_in_s=7))
    assert told == (Quota.CONCURRENT_SESSIONS, 7)


def test_a_limit_that_was_lowered_waits_for_as_many_as_are_over() -> None:
    used = [spent(9, ends_in_s=s) for s in (30, 7, 20)]
    assert judged(*used) == (Quota.CONCURRENT_SESSIONS, 20)


def test_sessions_of_an_hour_wait_for_the_oldest_to_leave_it() -> None:
    used = [spent(ago) for ago in (3590, 1000, 900, 800)]
    assert judged(*used) == (Quota.SESSIONS_PER_HOUR, 10)


def test_seconds_wait_until_enough_has_left_the_hour() -> None:
    used = [spent(3500, charged_ms=5_000), spent(3000, charged_ms=50_000)]
    assert judged(*used, wanted_ms=5_000) is None
    assert judged(*used, wanted_ms=10_000) == (Quota.CAPTURE_SECONDS_PER_HOUR, 100)
    assert judged(*used, wanted_ms=11_000) == (Quota.CAPTURE_SECONDS_PER_HOUR, 600)


def test_of_several_the_longest_wait_is_told() -> None:
    used = [*(spent(ago) for ago in (3590, 1000)), *(spent(5, ends_in_s=50) for _ in range(2))]
    assert judged(*used) == (Quota.CONCURRENT_SESSIONS, 50)


def test_what_is_out_of_the_hour_counts_only_while_it_goes_on() -> None:
    assert judged(*(spent(4000, charged_ms=60_000) for _ in range(9))) is None
    assert judged(*(spent(4000, ends_in_s=2) for _ in range(2))) is not None


def test_a_limit_of_none_never_has_room() -> None:
    none = Allowed(
        max_concurrent_sessions=0, max_sessions_per_hour=0, max_capture_seconds_per_hour=0
    )
    found = quota.judge(none, [], wanted_ms=1000, now=NOW)
    assert isinstance(found, Exceeded)
    assert found.retry_after_s == 3600
    assert quota.fits_never(none, 1000)
    assert not quota.fits_never(ALLOWED, 60_000)


@given(
    ages=st.lists(st.floats(0, 3599), max_size=12).map(lambda s: sorted(s, reverse=True)),
    charged_ms=st.integers(0, 30_000),
    wanted_ms=st.integers(1000, 60_000),
)
def test_after_the_wait_it_fits_and_just_before_it_does_not(
    ages: list[float], charged_ms: int, wanted_ms: int
) -> None:
    used = [spent(ago, charged_ms=charged_ms) for ago in ages]
    found = quota.judge(ALLOWED, used, wanted_ms=wanted_ms, now=NOW)
    if found is None:
        return
    then = NOW + timedelta(seconds=found.retry_after_s, microseconds=10)
    assert quota.judge(ALLOWED, used, wanted_ms=wanted_ms, now=then) is None
    if found.retry_after_s > 1:
        early = then - timedelta(seconds=0.5)
        assert quota.judge(ALLOWED, used, wanted_ms=wanted_ms, now=early) is not None


@given(
    used=st.lists(
        st.builds(
            spent,
            st.integers(0, 3599),
            charged_ms=st.integers(0, 30_000),
            ends_in_s=st.none() | st.integers(1, 60),
        ),
        max_size=6,
    ),
    wanted_ms=st.integers(1000, 60_000),
)
def test_what_fits_surely_is_never_refused(used: list[Spent], wanted_ms: int) -> None:
    at_most = quota.AtMost(
        live=sum(one.live for one in used),
        made=len(used),
        asked_ms=sum(one.charged_ms for one in used),
    )
    surely = quota.fits_surely(ALLOWED, at_most, wanted_ms)
    refused = quota.judge(ALLOWED, used, wanted_ms=wanted_ms, now=NOW) is not None
    # With what was charged being all that was asked for, the two say the same.
    assert surely is not refused
