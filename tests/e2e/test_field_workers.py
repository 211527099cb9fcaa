"""The two Workers the field knows, before and after their fix, and where the profile was taken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from services.devfleet import fleet as plan
from tests.e2e.reading import Reading, read

if TYPE_CHECKING:
    from services.devfleet.system import Fleet
    from tests.e2e.client import Client

REPLACER = ("auditReplacer", "maskSecrets")


async def _costs(fleet: Fleet, client: Client, tag: str) -> tuple[float, float, Reading]:
    """CPU per request of the replacer's functions, and of everything, in nanoseconds."""
    before = fleet.traffic.answered("replacer", tag)
    answer = await client.profile(plan.REPLACER, tag, duration_ms=4000)
    requests = fleet.traffic.answered("replacer", tag) - before
    assert answer.status == 200, answer
    assert requests > 0
    profile = read(answer.data)
    own = profile.named(*REPLACER).self_value
    return own / requests, profile.total / requests, profile


async def test_replacer_stands_at_the_top_and_its_fix_halves_the_cost(
    fleet: Fleet, client: Client
) -> None:
    (before, all_before, profile), (after, all_after, _fixed) = await asyncio.gather(
        _costs(fleet, client, "before"), _costs(fleet, client, "after")
    )
    assert profile.types == (("samples", "count"), ("cpu", "nanoseconds"))
    assert profile.default == "cpu"
    assert {function.name for function in profile.top(3)} & set(REPLACER)
    assert after <= before / 2
    # Functions this small may be billed to their caller: the whole must have become cheaper too.
    assert all_after <= all_before / 2


async def test_heap_profile_bills_the_metrics_library(client: Client) -> None:
    answer = await client.profile(plan.METRICS, "before", duration_ms=4000, profile_type="heap")
    assert answer.status == 200, answer
    profile = read(answer.data)
    assert profile.types == (("alloc_objects", "count"), ("alloc_space", "bytes"))
    assert profile.default == "alloc_space"
    assert profile.period == 524288
    # What the library allocates, the built-ins it calls included.
    (library,) = (value for file, value in profile.files.items() if "metrics.js" in file)
    assert library > profile.total / 2
    assert "pointOf" in {function.name for function in profile.top(3)}


async def test_profile_is_of_the_version_and_metal_asked_for(fleet: Fleet, client: Client) -> None:
    answer = await client.profile(plan.CHECKOUT, "first", duration_ms=1000)
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == "application/vnd.google.protobuf"
    version = plan.CHECKOUT.version("first").version_id
    metal_id = answer.headers["x-isoprof-metal"]
    metal = {metal.metal_id: metal for metal in fleet.plan.metals}[metal_id]
    standing = {
        f"{process.runtime_id}/{place.service}": place
        for process in metal.processes
        for place in process.places
    }
    assert answer.headers["x-isoprof-version"] == version
    assert answer.headers["x-isoprof-datacenter"] == metal.datacenter
    comments = read(answer.data).comments
    assert comments["version"] == version
    assert comments["worker"] in (plan.CHECKOUT.worker_id, plan.CHECKOUT.name)
    assert comments["metal"] == metal_id
    assert comments["datacenter"] == metal.datacenter
    place = standing[comments["isolate"]]
    assert (place.worker, place.version.tag) == (plan.CHECKOUT, "first")
    assert comments["session"] == answer.headers["x-isoprof-session"]
    assert plan.HARBOUR.account_id.encode() not in answer.data


async def test_both_files_say_what_their_duration_was(client: Client) -> None:
    cpu, heap = await asyncio.gather(
        client.profile(plan.CATALOG, "live", duration_ms=2000),
        client.profile(plan.LOOP, "live", duration_ms=2000, profile_type="heap"),
    )
    for answer in (cpu, heap):
        assert answer.status == 200, answer
        assert 1_900_000_000 <= read(answer.data).duration_ns <= 4_000_000_000
