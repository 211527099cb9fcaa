"""The orchestration bench: nothing is refused by quota, and what is refused is never lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

from bench import orchestration
from bench.many_agents import Seen
from bench.orchestration import QUOTAS, Plane
from contract.faults import Fault, Reason
from control_plane import settings
from control_plane.api import problems
from control_plane.quota import Quota

if TYPE_CHECKING:
    import aiohttp

# Sessions of a second each that a run without arguments asks for: two rounds and their cancels, and
# the rows of the bare loop.
ASKED = 3 * 50 * 20 + 2 * orchestration.CANCELS
FAR_ABOVE = 100


class Answer:
    """What one POST is answered, as aiohttp hands it out."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self._body = body

    async def json(self) -> dict[str, Any]:
        return self._body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Answers:
    """Answers in the order given; refused ones as the API words them."""

    def __init__(self, *told: str | Reason) -> None:
        self._told = list(told)

    def post(self, _url: str, *, json: dict[str, Any]) -> Answer:
        told = self._told.pop(0)
        if isinstance(told, Reason):
            problem = problems.PROBLEMS[told]
            errors = [{"code": problem.code, "message": Fault(told, "no").message}]
            return Answer(problem.status, {"success": False, "errors": errors, "result": None})
        return Answer(202, {"success": True, "errors": [], "result": {"id": told, "asked": json}})


def plane(*told: str | Reason) -> Plane:
    return Plane("http://-", cast("aiohttp.ClientSession", Answers(*told)), Seen(), [])


async def test_refusals_are_counted_by_code_and_the_run_goes_on() -> None:
    asked = plane(Reason.ACCOUNT_QUOTA, "one", Reason.STORE_UNAVAILABLE, Reason.ACCOUNT_QUOTA)
    posted = [await asked.post("v") for _ in range(4)]
    assert [one and one[0] for one in posted] == [None, "one", None, None]
    assert asked.refused == {"10399": 2, "10500": 1}


async def test_a_refused_session_has_nothing_to_cancel() -> None:
    asked = plane(Reason.ACCOUNT_QUOTA)
    assert await asked.cancel("v") is None
    assert asked.refused == {"10399": 1}


def test_every_quota_is_far_above_what_a_run_asks() -> None:
    read = settings.read(QUOTAS)
    for quota in Quota:
        assert getattr(read, quota.value) >= FAR_ABOVE * ASKED


def figures(**changed: Any) -> dict[str, Any]:
    one = {
        "history_rows": 0,
        "accept_ms": (1.0, 2.0),
        "cancel_ms": (1.0, 2.0),
        "refused": {},
    }
    return {"cpu_ratio": 1.0, "rounds": [one | changed]}


def missed(told: dict[str, Any]) -> list[str]:
    return [name for name, met in orchestration.goals_of(told).items() if not met]


def test_a_refusal_misses_a_goal_however_fast_the_rest_was() -> None:
    assert missed(figures()) == []
    assert missed(figures(refused={"10399": 1})) == ["none refused with 0 rows of history"]


def test_a_goal_without_a_figure_is_missed() -> None:
    assert len(missed(figures(accept_ms=None))) == 2
    assert len(missed(figures(cancel_ms=None))) == 1
    assert len(missed(figures() | {"cpu_ratio": None})) == 1
