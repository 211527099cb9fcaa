from __future__ import annotations

import math

import pytest

from edge_agent import pacer

BUDGET = pacer.Budget(max_hold_us=250_000)
WINDOW_US = 50_000_000


def worker(
    *, nodes_at_5s: float, power: float, us_per_node: float, start_us: int = 15_000
) -> pacer.Observed:
    """A Worker as its first 2 s slice shows it."""
    return taken(
        pacer.Slice(length_us=2_000_000, interval_us=1000),
        nodes_at_5s=nodes_at_5s,
        power=power,
        us_per_node=us_per_node,
        start_us=start_us,
    )


def taken(
    plan: pacer.Slice,
    *,
    nodes_at_5s: float,
    power: float,
    us_per_node: float,
    start_us: int = 15_000,
) -> pacer.Observed:
    """What a slice of a Worker costs that runs half of the time and whose nodes grow by a power."""
    length_us = plan.length_us * 1000 / plan.interval_us
    nodes = int(nodes_at_5s * math.pow(length_us / 5_000_000, power))
    samples = int(length_us / 2000)
    return pacer.Observed(
        interval_us=plan.interval_us,
        sampled_us=plan.length_us,
        samples=samples,
        nodes=nodes,
        start_hold_us=start_us,
        stop_hold_us=int(4000 + us_per_node * nodes + 1.6 * samples),
    )


def whole(duration_us: int, **kind: float) -> list[pacer.Observed]:
    """Pace a whole capture of such a Worker."""
    plan = pacer.first(duration_us, 1000)
    slices = [taken(plan, **kind)]  # type: ignore[arg-type]
    left_us = duration_us - plan.length_us
    while left_us > 250_000:
        left_us -= slices[-1].stop_hold_us + slices[-1].start_hold_us
        plan = pacer.following(slices, left_us, duration_us, BUDGET)
        gap_us = slices[-1].stop_hold_us + slices[-1].start_hold_us
        one = taken(plan, **kind)  # type: ignore[arg-type]
        slices.append(
            pacer.Observed(**{**vars(one), "lost_us": gap_us}),
        )
        left_us -= plan.length_us
        assert len(slices) < 60
    return slices


def lost_ratio(slices: list[pacer.Observed], duration_us: int) -> float:
    return sum(one.lost_us for one in slices) / duration_us


@pytest.mark.parametrize("duration_us", [1_000_000, 5_000_000])
def test_short_capture_is_one_slice(duration_us: int) -> None:
    assert pacer.first(duration_us, 1000) == pacer.Slice(length_us=duration_us, interval_us=1000)


def test_long_capture_begins_by_learning() -> None:
    assert pacer.first(WINDOW_US, 1000).length_us < 5_000_000


@pytest.mark.parametrize("us_per_node", [15.0, 25.0, 40.0, 75.0])
@pytest.mark.parametrize("power", [0.5, 0.6, 0.8])
def test_wide_worker_stays_within_both_budgets(us_per_node: float, power: float) -> None:
    slices = whole(WINDOW_US, nodes_at_5s=5000, power=power, us_per_node=us_per_node)
    assert max(one.stop_hold_us for one in slices) <= 1.1 * BUDGET.max_hold_us
    if us_per_node * power <= 25:
        assert lost_ratio(slices, WINDOW_US) <= 0.02


def test_quiet_wide_worker_keeps_its_rate() -> None:
    slices = whole(WINDOW_US, nodes_at_5s=5000, power=0.57, us_per_node=20)
    assert {one.interval_us for one in slices} == {1000}
    assert len(slices) <= 7


@pytest.mark.parametrize("start_us", [120_000, 240_000])
def test_dear_starts_make_few_slices(start_us: int) -> None:
    slices = whole(WINDOW_US, nodes_at_5s=5000, power=0.57, us_per_node=20, start_us=start_us)
    assert max(one.stop_hold_us for one in slices) <= 1.1 * BUDGET.max_hold_us
    assert lost_ratio(slices, WINDOW_US) <= 0.02
    assert sum(one.samples for one in slices) >= 1500


def test_steadily_growing_worker_is_sliced_short_enough() -> None:
    slices = whole(WINDOW_US, nodes_at_5s=9000, power=1.0, us_per_node=25)
    assert max(one.stop_hold_us for one in slices) <= 1.1 * BUDGET.max_hold_us


@pytest.mark.parametrize("nodes", [8, 519])
def test_small_worker_is_sliced_hardly(nodes: int) -> None:
    slices = whole(WINDOW_US, nodes_at_5s=nodes, power=0.5, us_per_node=25)
    assert len(slices) <= 4
    assert {one.interval_us for one in slices} == {1000}


def test_rate_is_lowered_when_short_slices_hold_too_long() -> None:
    one = worker(nodes_at_5s=60_000, power=1.0, us_per_node=30)
    plan = pacer.following([one], 48_000_000, WINDOW_US, BUDGET)
    assert plan.interval_us > 1000
    then = taken(plan, nodes_at_5s=60_000, power=1.0, us_per_node=30)
    assert then.stop_hold_us <= 1.1 * BUDGET.max_hold_us


def test_rate_never_rises_again() -> None:
    slices = whole(WINDOW_US, nodes_at_5s=40_000, power=0.9, us_per_node=40)
    intervals = [one.interval_us for one in slices]
    assert intervals == sorted(intervals)


def test_a_slice_is_not_much_longer_than_any_before() -> None:
    idle = pacer.Observed(
        interval_us=1000,
        sampled_us=2_000_000,
        samples=1,
        nodes=2,
        start_hold_us=8000,
        stop_hold_us=3000,
    )
    assert pacer.following([idle], 48_000_000, WINDOW_US, BUDGET).length_us <= 8_000_000


def test_nothing_seen_at_all() -> None:
    nothing = pacer.Observed(
        interval_us=1000, sampled_us=0, samples=0, nodes=0, start_hold_us=0, stop_hold_us=0
    )
    plan = pacer.following([nothing], 3_000_000, 5_000_000, BUDGET)
    assert 0 < plan.length_us <= 3_000_000
    assert plan.interval_us == 1000


def test_the_rest_is_cut_evenly() -> None:
    one = worker(nodes_at_5s=9000, power=1.0, us_per_node=25)
    plan = pacer.following([one], 10_000_000, 12_000_000, BUDGET)
    slices = 10_000_000 / plan.length_us
    assert slices == pytest.approx(round(slices), abs=0.01)
