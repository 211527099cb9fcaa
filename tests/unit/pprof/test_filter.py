from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pprof.check import check
from pprof.comments import read
from pprof.filter import Filter, filtered
from pprof.model import Profile, total
from pprof.top import top
from tests.unit.pprof.made import called, stacks
from tests.unit.pprof.profiles import profiles

ALL = (8, 8_000_000)


def counts(profile: Profile) -> dict[tuple[str, ...], int]:
    check(profile)
    assert (total(profile, 0), total(profile, 1)) == ALL
    return {stack: values[0] for stack, values in stacks(profile).items()}


def test_focus_keeps_what_matches_and_names_the_rest() -> None:
    profile = filtered(called(), Filter(focus=re.compile("walk")))
    assert counts(profile) == {
        ("(filtered):0",): 4,
        ("walk:12", "main:1"): 1,
        ("walk:14", "main:1"): 1,
        ("walk:12", "walk:10", "main:1"): 2,
    }
    assert read(profile.comments)["filtered"] == ("focus=walk",)


def test_ignore_is_the_other_way_round() -> None:
    profile = filtered(called(), Filter(ignore=re.compile(r"node_modules|garbage")))
    assert counts(profile)["(filtered):0",] == 3


def test_what_is_hidden_costs_its_caller() -> None:
    profile = filtered(called(), Filter(hide=re.compile("walk|garbage")))
    assert counts(profile) == {
        ("main:5",): 1,
        ("main:1",): 4,
        ("pad:2", "main:1"): 2,
        ("(filtered):0",): 1,
    }
    main = next(row for row in top(profile).rows if row.name == "main")
    assert main.self_value == 5_000_000


def test_pruning_the_runtime_leaves_code() -> None:
    profile = filtered(called(), Filter(prune_runtime=True))
    assert counts(profile)["(filtered):0",] == 1
    assert {row.name for row in top(profile).rows} == {"main", "walk", "pad", "(filtered)"}


def test_no_filter_changes_nothing() -> None:
    profile = called()
    assert filtered(profile, Filter()) is profile


@given(profiles(), st.sampled_from(["", ".", "0", "a"]), st.booleans())
def test_totals_never_move(profile: Profile, pattern: str, prune: bool) -> None:
    found = re.compile(pattern)
    for wanted in (
        Filter(focus=found, prune_runtime=prune),
        Filter(ignore=found, prune_runtime=prune),
        Filter(hide=found, prune_runtime=prune),
    ):
        narrowed = filtered(profile, wanted)
        check(narrowed)
        for index in (0, 1):
            assert total(narrowed, index) == total(profile, index)
