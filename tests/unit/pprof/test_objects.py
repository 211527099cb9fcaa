from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pprof.objects import Objects

INTERVAL = 524_288


def test_numbers_v8_reported_for_known_objects() -> None:
    # On workerd: {a, b} is 20 bytes, new Array(100) filled 408, new Array(20000) 80,008.
    objects = Objects(INTERVAL)
    assert 20 in objects.sizes(524_300)
    assert 408 in objects.sizes(524_688)
    assert 80_008 in objects.sizes(560_056)


def test_one_object_of_an_interval_or_two_counts_as_itself() -> None:
    objects = Objects(INTERVAL)
    assert objects.count(8 * INTERVAL, [8 * INTERVAL]) == 1
    assert objects.count(3 * 5_000_000, [5_000_000] * 3) == 3


def test_the_sum_of_the_node_tells_sizes_apart() -> None:
    # One sample of 16, 24 or 36 bytes is reported as 524,304 alike. Two of 16 make 65,537 objects,
    # two of 24 make 43,692.
    objects = Objects(INTERVAL)
    assert objects.sizes(524_304)[:3] == (16, 24, 36)
    assert objects.count(16 * 65_537, [524_304] * 2) == 65_537
    assert objects.count(24 * 43_692, [524_304] * 2) == 43_692


def test_a_sum_that_nothing_explains_takes_the_smallest_objects() -> None:
    assert Objects(INTERVAL).count(1, [524_304]) == 32_769


def test_nothing_is_no_objects_and_bytes_without_samples_one() -> None:
    assert Objects(INTERVAL).count(0, []) == 0
    assert Objects(INTERVAL).count(5, []) == 1


@given(st.integers(2, 1000).map(lambda n: n * 4), st.integers(2, 50))
def test_many_samples_of_one_size_are_explained_by_a_count_that_gives_the_same_bytes(
    size: int, k: int
) -> None:
    objects = Objects(INTERVAL)
    reported, self_bytes = size * objects.scaled(size, 1), size * objects.scaled(size, k)
    count = objects.count(self_bytes, [reported] * k)
    assert size in objects.sizes(reported)
    assert self_bytes % count == 0


@given(st.integers(0, 2**53), st.lists(st.integers(0, 2**53), max_size=20), st.integers(1, 2**40))
def test_any_numbers_give_a_count(self_bytes: int, samples: list[int], interval: int) -> None:
    assert Objects(interval).count(self_bytes, samples) >= len(samples)
