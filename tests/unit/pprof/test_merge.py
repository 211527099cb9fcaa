from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given

from pprof.build_cpu import profile as build
from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge, check
from pprof.comments import read
from pprof.merge import merge
from pprof.model import ALLOC_TYPES, Label, Profile, total
from tests.unit.pprof.made import CONTEXT, cpu, frame, node, stacks
from tests.unit.pprof.profiles import profiles


def one(name: str, count: int, *, at_ns: int = 0, metal: str = "m1") -> Profile:
    nodes = [node(1, frame("(root)"), [2]), node(2, frame(name, 0, 0, f"{name}.js"), [], [(3, 1)])]
    context = replace(CONTEXT, metal=metal)
    data = cpu(nodes, [2] * (count + 1), [0] + [1000] * count, rest_us=5)
    return build([data], context, at_ns, 10, 1000).profile


def test_values_are_summed_per_stack_over_the_joined_window() -> None:
    whole = merge([one("f", 2, at_ns=100), one("g", 1, at_ns=50), one("f", 3, at_ns=70)])
    check(whole)
    assert stacks(whole) == {("f:3",): (5, 5_000_000), ("g:3",): (1, 1_000_000)}
    assert (whole.time_ns, whole.duration_ns) == (50, 60)
    assert [mapping.filename for mapping in whole.mappings] == ["f.js", "g.js"]
    assert len(whole.functions) == len(whole.locations) == 2


def test_comments_add_up_or_stand_side_by_side() -> None:
    told = read(merge([one("f", 2), one("f", 3, metal="m2")]).comments)
    assert told["samples"] == ("5",)
    assert told["idle_ns"] == ("10000",)
    assert told["metal"] == ("m1", "m2")
    assert told["version"] == ("v-1",)
    assert told["isoprof"] == ("1.2.3",)


def test_how_far_a_merge_can_be_trusted_is_judged_by_its_own_samples() -> None:
    # 250 samples alone are inconclusive, twice as many are not: 200 / sqrt(500) is 8.9.
    assert read(one("f", 250).comments)["confidence"] == ("inconclusive",)
    told = read(merge([one("f", 250), one("g", 250)]).comments)
    assert told["error_percent"] == ("9",)
    assert "confidence" not in told
    told = read(merge([one("f", 0), one("g", 3)]).comments)
    assert told["error_percent"] == ("100",)
    assert "note" not in told
    assert "note" in read(merge([one("f", 0), one("g", 0)]).comments)


def test_labels_keep_samples_apart() -> None:
    plain = one("f", 1)
    here, there = (
        replace(
            plain,
            samples=tuple(
                replace(s, labels=(Label(key="metal", text=text),)) for s in plain.samples
            ),
        )
        for text in ("a", "b")
    )
    whole = merge([here, there, here])
    assert [(s.labels[0].text, s.values[0]) for s in whole.samples] == [("a", 2), ("b", 1)]


def test_what_counts_other_things_is_refused() -> None:
    with pytest.raises(ProfileInvalid):
        merge([one("f", 1), replace(one("f", 1), sample_types=ALLOC_TYPES, default_sample_type="")])
    with pytest.raises(ProfileInvalid):
        merge([])


def test_the_bounds_hold_for_the_whole() -> None:
    with pytest.raises(ProfileTooLarge, match="max_samples"):
        merge([one("f", 1), one("g", 1)], Bounds(max_samples=1))
    with pytest.raises(ProfileTooLarge, match="max_nodes"):
        merge([one("f", 1), one("g", 1)], Bounds(max_nodes=1))


@given(profiles(), profiles(), profiles())
def test_merging_commutes_and_associates(a: Profile, b: Profile, c: Profile) -> None:
    whole = merge([a, b, c])
    assert whole == merge([c, a, b])
    assert whole == merge([merge([b, c]), a])


@given(profiles(), profiles())
def test_totals_are_the_sums_of_the_parts(a: Profile, b: Profile) -> None:
    whole = merge([a, b])
    check(whole)
    for index in (0, 1):
        assert total(whole, index) == total(a, index) + total(b, index)
    per_label: Counter[tuple[Label, ...]] = Counter()
    for sample in (*a.samples, *b.samples):
        per_label[tuple(sorted(sample.labels, key=repr))] += sample.values[1]
    for sample in whole.samples:
        per_label[tuple(sorted(sample.labels, key=repr))] -= sample.values[1]
    assert not any(per_label.values())
