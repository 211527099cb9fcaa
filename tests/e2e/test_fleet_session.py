"""One session over two metals in two datacenters: a whole that is the sum of its parts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from services.devfleet.fleet import CATALOG
from tests.e2e.reading import labels, read

if TYPE_CHECKING:
    from tests.e2e.client import Client

METALS = {"ams1-m1": "ams1", "iad1-m2": "iad1"}


@pytest.mark.usefixtures("left_clean")
async def test_two_metals_are_one_profile(client: Client) -> None:
    asked = await client.ask_session(CATALOG, "live", duration_ms=3000, isolates=2)
    assert asked.status == 202, asked
    session_id = asked.body["result"]["id"]
    seen = await client.until_over(CATALOG.account, session_id, within_s=40)
    assert seen["state"] == "ready", seen
    assert (seen["isolates"]["taken"], seen["message"]) == (2, "")
    assert {one["metal"]: one["datacenter"] for one in seen["captures"]} == METALS
    # At the same time: each was sampling before the other had ended.
    assert max(one["accepted_at"] for one in seen["captures"]) < min(
        one["ended_at"] for one in seen["captures"]
    )

    place = f"profile-sessions/{session_id}"
    answer = await client.call("GET", CATALOG.account, f"{place}/profile")
    assert (answer.status, answer.headers["x-isoprof-isolates"]) == (200, "2/2")
    whole = read(answer.data)
    parts = {}
    for one in seen["captures"]:
        part = await client.call("GET", CATALOG.account, f"{place}/captures/{one['n']}/profile")
        assert (part.status, part.headers["x-isoprof-metal"]) == (200, one["metal"])
        parts[one["metal"]] = read(part.data)
    assert whole.types == parts["ams1-m1"].types
    assert whole.default == "cpu"
    assert whole.total == sum(part.total for part in parts.values()) > 0
    assert whole.samples == sum(part.samples for part in parts.values())
    for function, cost in whole.functions.items():
        assert cost.self_value == sum(
            part.functions[function].self_value
            for part in parts.values()
            if function in part.functions
        )
    taken = labels(answer.data)
    assert taken["metal"] == {metal: part.total for metal, part in parts.items()}
    assert taken["datacenter"] == {METALS[metal]: part.total for metal, part in parts.items()}
    assert sum(taken["isolate"].values()) == whole.total
    assert whole.duration_ns >= max(part.duration_ns for part in parts.values())


async def test_more_than_there_are_and_only_there(client: Client) -> None:
    asked = await client.ask_session(
        CATALOG, "live", duration_ms=1000, isolates=5, datacenters=["iad1"]
    )
    session_id = asked.body["result"]["id"]
    seen = await client.until_over(CATALOG.account, session_id, within_s=40)
    assert (seen["state"], [one["metal"] for one in seen["captures"]]) == ("ready", ["iad1-m2"])
    assert seen["isolates"]["reasons"] == {"not_loaded": 4}
    assert seen["message"] == "1 of 5 isolates were captured (not_loaded: 4)."
    assert Counter(one["state"] for one in seen["captures"]) == {"uploaded": 1}
