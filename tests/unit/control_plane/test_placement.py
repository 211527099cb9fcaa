from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.faults import Reason
from control_plane.placement import (
    Asked,
    Candidate,
    Limits,
    Selection,
    Standing,
    TurnedAway,
    select,
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


def placed(*candidates: Candidate, seed: int = 1, **asked: Any) -> Selection:
    return select(candidates, Asked(**asked), limits=LIMITS, rng=Random(seed))


def metals(selection: Selection) -> list[str]:
    return [candidate.metal_id for candidate in selection.chosen]


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
    assert outcome.chosen == ()
    assert outcome.turned_away == {why: 2}
    assert f"{why.value}: 2" in outcome.explained()


def test_a_metal_that_failed_is_not_asked_again() -> None:
    outcome = placed(candidate(1), candidate(2), failed_on=("m1",))
    assert metals(outcome) == ["m2"]
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
        busy = candidate(1, free_isolates=0, executions=10_000)
        assert metals(placed(busy, candidate(2), seed=seed)) == ["m2"]
    assert metals(placed(candidate(1, free_isolates=0))) == ["m1"]


def test_traffic_weighs() -> None:
    busy, quiet = candidate(1, executions=899), candidate(2, executions=99, datacenter="dc2")
    near = candidate(3, executions=899, datacenter="dc2")
    for pair, share in (((busy, quiet), 0.9), ((near, quiet), 0.9), ((busy, near, quiet), 0.473)):
        counts = Counter(placed(*pair, seed=seed).chosen[0] for seed in range(2000))
        assert abs(counts[pair[0]] / 2000 - share) < 0.04


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
    outcome = placed(*candidates, seed=seed)
    counted = sum(outcome.turned_away.values())
    assert (not outcome.chosen) == (counted == len(candidates))
    for chosen in outcome.chosen:
        assert not chosen.shared
        assert chosen.live_here < chosen.isolates


def test_datacenters_give_one_each_before_any_gives_two() -> None:
    fleet = [candidate(n, datacenter=f"dc{n % 3}", executions=10 ** (n % 3)) for n in range(12)]
    for seed in range(20):
        chosen = placed(*fleet, count=7, seed=seed).chosen
        assert sorted(Counter(c.datacenter for c in chosen).values()) == [2, 2, 3]
        assert len({c.metal_id for c in chosen}) == 7


def test_metals_give_one_each_before_any_gives_two() -> None:
    chosen = placed(*(candidate(n, isolates=5, free_isolates=5) for n in range(3)), count=8)
    assert sorted(Counter(metals(chosen)).values()) == [2, 3, 3]
    assert chosen.turned_away == {}


def test_what_the_session_has_already_counts_for_the_spread() -> None:
    has = {"m1": Standing(live=1), "m3": Standing(taken=1)}
    fleet = [
        candidate(n, datacenter="dc1" if n < 3 else "dc2", live_here=n == 1) for n in (1, 2, 3)
    ]
    for seed in range(20):
        assert metals(placed(*fleet, count=1, standing=has, seed=seed))[0] in {"m2", "m3"}
        assert set(metals(placed(*fleet, count=2, standing=has, seed=seed))) == {"m2", "m3"}


def test_an_isolate_is_used_once_by_a_session() -> None:
    has = {"m1": Standing(live=1, taken=1, failed=1)}
    outcome = placed(candidate(1, isolates=4, free_isolates=4, live_here=1), count=3, standing=has)
    assert metals(outcome) == ["m1"]
    assert outcome.turned_away == {TurnedAway.USED_UP: 1}
    assert verdict(outcome) is Reason.NOT_LOADED
    none = placed(candidate(1, isolates=3, live_here=1), count=3, standing=has)
    assert none.chosen == ()
    assert none.turned_away == {TurnedAway.USED_UP: 1}


def test_a_metal_that_failed_the_session_comes_last() -> None:
    has = {"m1": Standing(failed=1)}
    for seed in range(20):
        fleet = (candidate(1, isolates=9, free_isolates=9), candidate(2))
        assert metals(placed(*fleet, count=2, standing=has, seed=seed)) == ["m2", "m2"]
        assert metals(placed(*fleet, count=3, standing=has, seed=seed)) == ["m2", "m2", "m1"]


def test_fewer_than_asked_for_says_why() -> None:
    outcome = placed(
        candidate(1, isolates=9, free_isolates=9, max_captures=3, metal_ends_in_ms=700),
        candidate(2, isolates=2, live_here=1, ends_in_ms=4000),
        candidate(3, isolates=0),
        count=9,
    )
    assert Counter(metals(outcome)) == {"m1": 3, "m2": 1}
    assert outcome.turned_away == {
        TurnedAway.AT_CAPACITY: 1,
        TurnedAway.HELD: 1,
        TurnedAway.NOT_LOADED: 1,
    }
    assert verdict(outcome) is Reason.ISOLATES_BUSY
    assert outcome.retry_after_s == 0.7


def test_other_datacenters_are_left_out_and_counted() -> None:
    fleet = [candidate(n, datacenter=f"dc{n}") for n in (1, 2, 3)]
    outcome = placed(*fleet, count=6, datacenters=("dc2",))
    assert metals(outcome) == ["m2", "m2"]
    assert outcome.turned_away == {TurnedAway.OTHER_DATACENTER: 2, TurnedAway.USED_UP: 1}
    nowhere = placed(*fleet, datacenters=("dc9",))
    assert verdict(nowhere) is Reason.NO_RECENT_EXECUTION


@given(
    st.lists(
        st.builds(
            candidate,
            st.integers(1, 50),
            datacenter=st.sampled_from(("dc1", "dc2", "dc3")),
            executions=st.integers(0, 1000),
            isolates=st.integers(0, 6),
            free_isolates=st.integers(0, 6),
            live_here=st.integers(0, 3),
            live_on_metal=st.integers(0, 3),
        ),
        max_size=10,
        unique_by=lambda one: one.metal_id,
    ),
    st.integers(1, 64),
    st.integers(),
)
def test_as_many_as_asked_or_all_there_are(
    candidates: list[Candidate], count: int, seed: int
) -> None:
    outcome = placed(*candidates, count=count, seed=seed)
    rooms = {
        one.metal_id: max(
            0, min(one.isolates - one.live_here, one.max_captures - one.live_on_metal)
        )
        for one in candidates
    }
    given_ = Counter(metals(outcome))
    assert sum(given_.values()) == min(count, sum(rooms.values()))
    assert all(number <= rooms[metal_id] for metal_id, number in given_.items())
    short = sum(given_.values()) < count
    counted = sum(outcome.turned_away.values())
    assert counted == (len(candidates) if short else sum(not room for room in rooms.values()))
