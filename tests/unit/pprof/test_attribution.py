from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pprof.attribution import bill


def test_a_gap_is_billed_as_the_mean_of_ordinary_deltas() -> None:
    # Ordinary: 1000, 1200, 800. The gap of 500 ms becomes their mean; the first delta nothing.
    billed = bill([[7_000_000, 1000, 1200, 800, 500_000]], 1000)
    assert billed.effective_ns == 1_000_000
    assert billed.weights_ns == ([0, 1_000_000, 1_200_000, 800_000, 1_000_000],)


def test_three_intervals_are_still_time_and_one_more_is_a_gap() -> None:
    billed = bill([[0, 1000, 3000, 3001]], 1000)
    assert billed.weights_ns == ([0, 1_000_000, 3_000_000, 1_000_000],)


def test_without_ordinary_deltas_the_usual_effective_interval_is_taken() -> None:
    assert bill([[0, 900_000]], 1000).weights_ns == ([0, 1_090_000],)
    assert bill([[0, 900_000]], 10_000).weights_ns == ([0, 10_900_000],)


def test_ordinary_means_from_six_tenths_to_one_and_a_half() -> None:
    # 599 and 1501 are left out of the mean of 600 and 1500.
    assert bill([[0, 599, 600, 1500, 1501]], 1000).effective_ns == 1_050_000


def test_slices_share_the_mean_and_each_drops_its_first() -> None:
    billed = bill([[1000, 1100], [1000, 50_000], []], 1000)
    assert billed.weights_ns == ([0, 1_100_000], [0, 1_100_000], [])


@given(
    st.lists(st.lists(st.integers(-(2**53), 2**53), max_size=20), max_size=4),
    st.integers(100, 100_000),
)
def test_a_weight_is_never_negative_nor_above_three_intervals(
    slices: list[list[int]], interval_us: int
) -> None:
    for deltas, weights in zip(slices, bill(slices, interval_us).weights_ns, strict=True):
        assert len(weights) == len(deltas)
        assert all(0 <= weight <= 3 * interval_us * 1000 for weight in weights)
        assert not weights or weights[0] == 0
