from __future__ import annotations

from dataclasses import replace

import pytest

from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge, check
from pprof.model import (
    CPU_PERIOD,
    CPU_TYPES,
    Function,
    Label,
    Line,
    Location,
    Mapping,
    Profile,
    Sample,
)

GOOD = Profile(
    sample_types=CPU_TYPES,
    samples=(Sample(location_ids=(1,), values=(1, 2)),),
    locations=(Location(id=1, mapping_id=1, lines=(Line(function_id=1, line=3),)),),
    functions=(Function(id=1, name="f", system_name="f", filename="a.js", start_line=1),),
    mappings=(Mapping(id=1, filename="a.js"),),
    time_ns=0,
    duration_ns=0,
    period_type=CPU_PERIOD,
    period=1,
)
FUNCTION, LOCATION, SAMPLE = GOOD.functions[0], GOOD.locations[0], GOOD.samples[0]

WRONG = {
    "location missing": replace(GOOD, samples=(replace(SAMPLE, location_ids=(2,)),)),
    "function missing": replace(GOOD, functions=()),
    "mapping missing": replace(GOOD, mappings=()),
    "id twice": replace(GOOD, functions=(FUNCTION, FUNCTION)),
    "id zero": replace(GOOD, functions=(FUNCTION, replace(FUNCTION, id=0))),
    "too few values": replace(GOOD, samples=(replace(SAMPLE, values=(1,)),)),
    "value negative": replace(GOOD, samples=(replace(SAMPLE, values=(1, -1)),)),
    "value too big": replace(GOOD, samples=(replace(SAMPLE, values=(1, 2**63)),)),
    "sum overflows": replace(GOOD, samples=(replace(SAMPLE, values=(1, 2**62)),) * 2),
    "line negative": replace(
        GOOD, locations=(replace(LOCATION, lines=(Line(function_id=1, line=-1),)),)
    ),
    "start line negative": replace(GOOD, functions=(replace(FUNCTION, start_line=-1),)),
    "no utf-8": replace(GOOD, functions=(replace(FUNCTION, name="\ud800"),)),
    "label no utf-8": replace(
        GOOD, samples=(replace(SAMPLE, labels=(Label(key="k", text="\udc80"),)),)
    ),
    "label too big": replace(
        GOOD, samples=(replace(SAMPLE, labels=(Label(key="k", number=2**63),)),)
    ),
    "no types": replace(GOOD, sample_types=(), samples=()),
    "type twice": replace(GOOD, sample_types=(CPU_TYPES[0], CPU_TYPES[0])),
    "default unknown": replace(GOOD, default_sample_type="wall"),
    "time negative": replace(GOOD, time_ns=-1),
    "duration too big": replace(GOOD, duration_ns=2**63),
}


def test_a_good_profile_passes() -> None:
    check(GOOD)


@pytest.mark.parametrize("profile", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_one_is_refused(profile: Profile) -> None:
    with pytest.raises(ProfileInvalid):
        check(profile)


DEEP = replace(GOOD, samples=(replace(SAMPLE, location_ids=(1,) * 3),))
LONG = replace(GOOD, functions=(replace(FUNCTION, name="é" * 3),))


@pytest.mark.parametrize(
    ("profile", "bounds", "limit"),
    [
        (DEEP, Bounds(max_depth=2), "max_depth"),
        (DEEP, Bounds(max_frames=2), "max_frames"),
        (LONG, Bounds(max_string_bytes=5), "max_string_bytes"),
        (replace(GOOD, samples=(SAMPLE,) * 3), Bounds(max_samples=2), "max_samples"),
        (GOOD, Bounds(max_nodes=0), "max_nodes"),
    ],
)
def test_a_bound_is_named(profile: Profile, bounds: Bounds, limit: str) -> None:
    with pytest.raises(ProfileTooLarge, match=limit) as raised:
        check(profile, bounds)
    assert raised.value.limit == limit


def test_the_published_bounds() -> None:
    assert Bounds() == Bounds(
        max_bytes=67_108_864,
        max_nodes=1_000_000,
        max_samples=200_000,
        max_frames=10_000_000,
        max_depth=2_000,
        max_string_bytes=65_536,
    )
