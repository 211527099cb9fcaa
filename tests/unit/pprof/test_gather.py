from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pprof import codec
from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge, check
from pprof.comments import read
from pprof.gather import Gathered, Gathering
from pprof.labels import heaviest, labelled, unlabelled
from pprof.model import ALLOC_TYPES, Label, Profile, total
from tests.unit.pprof.profiles import profiles
from tests.unit.pprof.test_merge import one

KEYS = ("isolate", "metal", "datacenter")


def told(number: int) -> dict[str, str]:
    return {"datacenter": f"dc{number % 2}", "metal": f"m{number % 3}", "isolate": f"wd1/{number}"}


def gathered(parts: list[Profile], bounds: Bounds = Bounds()) -> Gathered:  # noqa: B008 - frozen
    gathering = Gathering(KEYS, bounds)
    for number, part in enumerate(parts):
        gathering.add(part, told(number))
    return gathering.finish(comments=("isolates_asked=9",))


def per_label(profile: Profile, key: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for sample in profile.samples:
        for label in sample.labels:
            if label.key == key:
                sums[label.text] += sample.values[1]
    return sums


def test_each_sample_says_where_it_was_taken() -> None:
    whole = codec.decode(gathered([one("f", 2), one("f", 3), one("g", 4)]).data)
    assert per_label(whole, "isolate") == {
        "wd1/0": 2_000_000,
        "wd1/1": 3_000_000,
        "wd1/2": 4_000_000,
    }
    assert per_label(whole, "datacenter") == {"dc0": 6_000_000, "dc1": 3_000_000}
    assert all([label.key for label in s.labels] == sorted(KEYS) for s in whole.samples)
    assert "isolates_asked=9" in whole.comments


@given(st.lists(profiles(), min_size=1, max_size=5))
def test_totals_are_exact_and_so_is_each_part(parts: list[Profile]) -> None:
    found = gathered(parts)
    whole = codec.decode(found.data)
    assert (found.truncated, found.dropped) == ("", "")
    for index in (0, 1):
        assert total(whole, index) == sum(total(part, index) for part in parts)
    isolates = per_label(whole, "isolate")
    for number, part in enumerate(parts):
        assert isolates[f"wd1/{number}"] == total(part, 1)


def test_in_rounds_or_at_once_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [one(name, count) for name, count in (("f", 2), ("g", 3), ("f", 4), ("h", 1))]
    at_once = gathered(parts)
    monkeypatch.setattr("pprof.gather._ROUND_SAMPLES", 1)
    assert gathered(parts) == at_once


def test_a_whole_too_large_loses_its_finest_labels_first() -> None:
    parts = [one("f", n + 1) for n in range(9)]
    # 9 isolates on 6 pairs of datacenter and metal, 2 datacenters.
    for most, dropped in ((8, "isolate"), (5, "isolate,metal"), (1, "isolate,metal,datacenter")):
        found = gathered(parts, Bounds(max_samples=most))
        whole = codec.decode(found.data)
        assert found.dropped == dropped
        assert found.truncated == f"max_samples={most}"
        assert total(whole, 0) == 45
        said = read(whole.comments)
        assert said["labels_dropped"] == (dropped,)
        assert said["truncated"] == (f"max_samples={most}",)


def test_at_last_the_lightest_stacks_are_counted_together() -> None:
    parts = [one(f"f{n}", n + 1) for n in range(40)]
    found = gathered(parts, Bounds(max_samples=10))
    whole = codec.decode(found.data)
    assert total(whole, 0) == 820
    assert len(whole.samples) <= 10
    names = {function.name for function in whole.functions}
    assert {"f39", "(truncated)"} <= names
    assert "f0" not in names


def test_the_bound_on_bytes_holds_too() -> None:
    parts = [one("f" * 400 + str(n), n + 1) for n in range(40)]
    found = gathered(parts, Bounds(max_bytes=8_000))
    assert total(codec.decode(found.data), 0) == 820
    assert found.truncated == "max_bytes=8000"
    with pytest.raises(ProfileTooLarge, match="max_bytes"):
        gathered(parts, Bounds(max_bytes=100))


def test_truncations_of_the_parts_are_kept() -> None:
    cut = one("f", 2)
    cut = replace(cut, comments=(*cut.comments, "truncated=max_depth=9"))
    found = gathered([one("f", 1), cut], Bounds(max_samples=1))
    said = read(codec.decode(found.data).comments)
    assert said["truncated"] == ("max_depth=9,max_samples=1",)


def test_nothing_or_different_things_are_refused() -> None:
    with pytest.raises(ProfileInvalid):
        gathered([])
    heap = replace(one("f", 1), sample_types=ALLOC_TYPES, default_sample_type="")
    with pytest.raises(ProfileInvalid):
        gathered([one("f", 1), heap])


@given(profiles(), st.integers(1, 4))
def test_the_heaviest_keep_the_totals(profile: Profile, keep: int) -> None:
    less = heaviest(profile, keep)
    check(less)
    assert [total(less, i) for i in (0, 1)] == [total(profile, i) for i in (0, 1)]
    assert len(less.samples) <= keep + len({s.labels for s in profile.samples})


def test_labels_replace_and_go() -> None:
    again = labelled(labelled(one("f", 1), {"metal": "a"}), {"metal": "b"})
    assert again.samples[0].labels == (Label(key="metal", text="b"),)
    assert unlabelled(again, "metal").samples[0].labels == ()
