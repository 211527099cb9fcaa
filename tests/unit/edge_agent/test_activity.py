"""What ran counts over a sliding window, per isolate and per actor."""

from __future__ import annotations

from edge_agent.activity import Activity
from edge_agent.runtime import Execution

WINDOW_MS = 60_000


def _ran(isolate_id: str, count: int = 1, actor_id: str | None = None) -> Execution:
    return Execution(isolate_id=isolate_id, count=count, actor_id=actor_id, entrypoint="Counter")


def test_the_first_execution_is_told_as_the_first() -> None:
    activity = Activity(WINDOW_MS)
    assert activity.record(_ran("a"), 0)
    assert not activity.record(_ran("a"), 1)
    activity.forget("a")
    assert activity.record(_ran("a"), 2)


def test_never_ran_is_not_idle_for_long() -> None:
    activity = Activity(WINDOW_MS)
    assert activity.idle_ms("a", 5_000) is None
    activity.record(_ran("a"), 1_000)
    assert activity.idle_ms("a", 5_000) == 4_000


def test_executions_leave_the_window_and_stay_in_the_total() -> None:
    activity = Activity(WINDOW_MS)
    activity.record(_ran("a", 5), 0)
    activity.record(_ran("a", 2), 59_000)
    assert activity.executions("a", 59_500) == 7
    assert activity.executions("a", 90_000) == 2
    assert activity.executions("a", 500_000) == 0
    assert activity.total("a") == 7


def test_the_busiest_comes_first_and_those_that_never_ran_do_not_come() -> None:
    activity = Activity(WINDOW_MS)
    activity.record(_ran("quiet"), 0)
    activity.record(_ran("busy", 50), 0)
    assert activity.busiest(["never", "quiet", "busy"], 10) == ["busy", "quiet"]


def test_an_actor_is_seen_where_it_ran_within_the_window() -> None:
    activity = Activity(WINDOW_MS)
    activity.record(_ran("a", actor_id="d" * 64), 0)
    seen = activity.actor("a", "d" * 64, 100)
    assert seen is not None
    assert (seen.entrypoint, seen.idle_ms) == ("Counter", 100)
    assert activity.actor("b", "d" * 64, 100) is None
    assert activity.actor("a", "d" * 64, WINDOW_MS + 1) is None


def test_actors_are_bounded_and_the_oldest_is_forgotten() -> None:
    activity = Activity(WINDOW_MS, most_actors=2)
    for number in range(3):
        activity.record(_ran("a", actor_id=f"{number:064x}"), number)
    assert activity.actor("a", f"{0:064x}", 3) is None
    assert activity.actor("a", f"{2:064x}", 3) is not None


def test_a_count_of_nothing_is_no_execution() -> None:
    activity = Activity(WINDOW_MS)
    assert not activity.record(_ran("a", 0), 0)
    assert activity.idle_ms("a", 1) is None
