"""A Durable Object is asked for by namespace and id; its metal and isolate are profiled."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from services.devfleet import fleet as plan
from tests.e2e.reading import read

if TYPE_CHECKING:
    from tests.e2e.client import Client

NAMESPACE = plan.COUNTER.namespaces[0].namespace_id


def _id_of(name: str) -> str:
    key = hashlib.sha256(NAMESPACE.encode()).digest()
    first = hmac.digest(key, name.encode(), "sha256")[:16]
    return (first + hmac.digest(key, first, "sha256")[:16]).hex()


async def test_active_actor(client: Client) -> None:
    answer = await client.profile(
        plan.COUNTER, "live", duration_ms=3000, namespace_id=NAMESPACE, actor_id=_id_of("beta")
    )
    assert answer.status == 200, answer
    assert answer.headers["x-isoprof-metal"] == "ams1-m2"
    profile = read(answer.data)
    assert {function.name for function in profile.top(3)} & {"increment", "mix"}


async def test_inactive_actor_and_wrong_namespace(client: Client) -> None:
    nobody = await client.profile(
        plan.COUNTER, "live", duration_ms=1000, namespace_id=NAMESPACE, actor_id=_id_of("nobody")
    )
    assert (nobody.status, nobody.code) == (404, 10400)
    foreign = await client.profile(
        plan.COUNTER, "live", duration_ms=1000, namespace_id="0" * 32, actor_id=_id_of("beta")
    )
    assert (foreign.status, foreign.code) == (404, 10400)
