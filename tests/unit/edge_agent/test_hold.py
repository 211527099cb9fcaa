"""At most one capture per isolate, no more than a metal's capacity, and true waiting times."""

from __future__ import annotations

import pytest

from contract.faults import Fault, Reason
from edge_agent.hold import Holds


def test_an_isolate_is_held_once_and_says_for_how_long() -> None:
    holds = Holds(4)
    holds.take("wd1/a", now_ms=1_000, for_ms=5_000)
    with pytest.raises(Fault) as refused:
        holds.take("wd1/a", now_ms=3_000, for_ms=5_000)
    assert refused.value.reason is Reason.ISOLATES_BUSY
    assert refused.value.retry_after_s == 3.0


def test_a_hold_that_overran_is_still_a_hold() -> None:
    holds = Holds(4)
    holds.take("wd1/a", now_ms=0, for_ms=1_000)
    assert holds.held_ms("wd1/a", now_ms=9_000) > 0
    with pytest.raises(Fault):
        holds.take("wd1/a", now_ms=9_000, for_ms=1_000)


def test_capacity_counts_captures_and_not_the_agents_own_holds() -> None:
    holds = Holds(1)
    holds.take("wd1/a", now_ms=0, for_ms=100, counted=False)
    assert not holds.full
    holds.take("wd1/b", now_ms=0, for_ms=2_000)
    assert holds.full
    with pytest.raises(Fault) as refused:
        holds.take("wd1/c", now_ms=500, for_ms=2_000)
    assert refused.value.retry_after_s == 1.5


def test_a_release_after_the_fact_frees_nobody_elses_hold() -> None:
    holds = Holds(4)
    first = holds.take("wd1/a", now_ms=0, for_ms=1_000)
    holds.release(first)
    holds.take("wd1/a", now_ms=0, for_ms=1_000)
    holds.release(first)
    assert holds.held_ms("wd1/a", now_ms=0) == 1_000
