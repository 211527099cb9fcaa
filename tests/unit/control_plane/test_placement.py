from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.faults import Reason
from control_plane.placement import (
    Candidate,
    Limits,
    Placement,
    TurnedAway,
    choose,
    verdict,
)

LIMITS = Limits(recent_ms=60_000, silent_ms=15_000)


def candidate(number: int = 1, **changes: Any) -> Candidate:
    values: dict[str, Any] = {
        "metal_id": f"m{number}",
        "datacenter": "dc1",
        "address": "a:1",
        "epoch": 1,
        "executions": 10,
        "idle_ms": 100,
        "silent_ms": 100,
        "draining": False,
        "isolates": 2,
        "free_isolates": 2,
        "shared": False,
        "live_here": 0,
        "live_on_metal": 0,
        "max_captures": 4,
    }
    return Candidate(**(values | changes))


def placed(*candidates: Candidate, failed_on: tuple[str, ...] = ()) -> Placement:
    return choose(candidates, failed_on=failed_on, limits=LIMITS, rng=Random(1))


CASES: list[tuple[dict[str, Any], TurnedAway]] = [
    ({"idle_ms": 60_001}, TurnedAway.STALE),
    ({"idle_ms": None}, TurnedAway.STALE),
    ({"silent_ms": 15_001}, TurnedAway.AGENT_SILENT),
    ({"silent_ms": None}, TurnedAway.AGENT_SILENT),
    ({"draining": True}, TurnedAway.DRAINING),
    ({"isolates": 0}, TurnedAway.NOT_LOADED),
    ({"shared": True}, TurnedAway.SHARED),
    ({"live_here": 2}, TurnedAway.HELD),
    ({"live_on_metal": 4}, TurnedAway.AT_CAPACITY),
]


@pytest.mark.parametrize(("changes", "why"), CASES)
def test_every_reason_is_counted(changes: dict[str, Any], why: TurnedAway) -> None:
    outcome = placed(candidate(1, **changes), candidate(2, **changes))
    assert outcome.chosen is None
    assert outcome.turned_away == {why: 2}
    assert f"{why.value}: 2" in outcome.explained()


def test_a_metal_that_failed_is_not_asked_again() -> None:
    outcome = placed(candidate(1), candidate(2), failed_on=("m1",))
    assert outcome.chosen is not None
    assert outcome.chosen.metal_id == "m2"
    assert outcome.turned_away == {TurnedAway.FAILED_HERE: 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"idle_ms": None}, Reason.NO_RECENT_EXECUTION),
        ({"isolates": 0}, Reason.NOT_LOADED),
        ({"shared": True}, Reason.NOT_LOADED),
        ({"live_here": 2}, Reason.ISOLATES_BUSY),
        ({"live_on_metal": 9}, Reason.ISOLATES_BUSY),
        ({"silent_ms": None}, Reason.AGENT_UNREACHABLE),
        ({"draining": True}, Reason.DISPATCH_OFF),
    ],
)
def test_what_a_caller_is_told(changes: dict[str, Any], reason: Reason) -> None:
    assert verdict(placed(candidate(1, **changes), candidate(2, idle_ms=None))) is reason


def test_nothing_sighted_is_no_recent_execution() -> None:
    assert verdict(placed()) is Reason.NO_RECENT_EXECUTION


def test_busy_beats_everything_else() -> None:
    outcome = placed(candidate(1, isolates=0), candidate(2, live_here=2, ends_in_ms=1500))
    assert verdict(outcome) is Reason.ISOLATES_BUSY


def test_retry_after_is_when_the_first_hold_ends() -> None:
    outcome = placed(
        # Another version's capture ends earlier there, but frees none of this version's isolates.
        candidate(1, live_here=2, ends_in_ms=9000, metal_ends_in_ms=100),
        candidate(2, live_on_metal=4, metal_ends_in_ms=2500),
        candidate(3, live_here=2, ends_in_ms=-40, draining=True),
    )
    assert outcome.retry_after_s == 2.5


def test_a_hold_that_outlives_its_estimate_ends_soon_but_not_now() -> None:
    assert placed(candidate(1, live_here=2, ends_in_ms=-4000)).retry_after_s == 0.5
    assert placed(candidate(1, isolates=0)).retry_after_s is None


def test_a_metal_reported_free_goes_before_one_that_may_be_held() -> None:
    for seed in range(20):
        outcome = choose(
            [candidate(1, free_isolates=0, executions=10_000), candidate(2)],
            failed_on=(),
            limits=LIMITS,
            rng=Random(seed),
        )
        assert outcome.chosen is not None
        assert outcome.chosen.metal_id == "m2"
    alone = placed(candidate(1, free_isolates=0))
    assert alone.chosen is not None


def test_traffic_weighs() -> None:
    rng = Random(3)
    busy, quiet = candidate(1, executions=899), candidate(2, executions=99)
    counts = Counter(
        choose([busy, quiet], failed_on=(), limits=LIMITS, rng=rng).chosen for _ in range(2000)
    )
    assert 0.86 < counts[busy] / 2000 < 0.94


@given(
    st.lists(
        st.builds(
            candidate,
            st.integers(1, 50),
            idle_ms=st.one_of(st.none(), st.integers(0, 120_000)),
            silent_ms=st.one_of(st.none(), st.integers(0, 30_000)),
            isolates=st.integers(0, 3),
            live_here=st.integers(0, 3),
            shared=st.booleans(),
            draining=st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(),
)
def test_each_metal_is_feasible_or_counted(candidates: list[Candidate], seed: int) -> None:
    outcome = choose(candidates, failed_on=(), limits=LIMITS, rng=Random(seed))
    counted = sum(outcome.turned_away.values())
    assert (outcome.chosen is None) == (counted == len(candidates))
    if outcome.chosen is not None:
        assert not outcome.chosen.shared
        assert outcome.chosen.live_here < outcome.chosen.isolates
