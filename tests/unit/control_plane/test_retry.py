from __future__ import annotations

import pytest

from contract.faults import Reason
from control_plane.retry import NEXT, Next, after


def test_the_table_is_total() -> None:
    assert set(NEXT) == set(Reason)


@pytest.mark.parametrize("reason", [r for r in Reason if NEXT[r] is Next.ELSEWHERE])
def test_elsewhere_only_while_tries_and_time_are_left(reason: Reason) -> None:
    assert after(reason, attempts=1, max_attempts=3, remaining_ms=5000, needed_ms=5000) is (
        Next.ELSEWHERE
    )
    assert after(reason, attempts=3, max_attempts=3, remaining_ms=5000, needed_ms=5000) is (
        Next.GIVE_UP
    )
    assert after(reason, attempts=1, max_attempts=3, remaining_ms=4999, needed_ms=5000) is (
        Next.GIVE_UP
    )


def test_trouble_of_one_metal_is_never_the_last_word() -> None:
    for reason in (Reason.TARGET_EXITED, Reason.AGENT_RESTARTED, Reason.ISOLATES_BUSY):
        assert NEXT[reason] is Next.ELSEWHERE
