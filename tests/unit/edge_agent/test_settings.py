"""The agent's file: read whole, and every mistake told at once by its place."""

from __future__ import annotations

import pytest

from contract.faults import Fault
from edge_agent import settings

GOOD = """
[metal]
id = "ams1-m1"
datacenter = "ams1"
listen = "127.0.0.1:0"
gateways = ["127.0.0.1:8788"]
data_dir = "state"
[tail]
listen = "127.0.0.1:0"
[[runtime]]
id = "wd1"
kind = "workerd"
inspector = "127.0.0.1:9301"
  [[runtime.isolate]]
  service = "counter"
  account_id = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
  worker_id = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
  worker_name = "counter"
  version_id = "11111111-2222-4333-8444-555555555555"
    [[runtime.isolate.namespace]]
    id = "cccccccccccccccccccccccccccccccc"
    class = "Counter"
    unique_key = "counter of ours"
"""


def _pointers(text: str) -> list[str]:
    with pytest.raises(Fault) as refused:
        settings.parse(text)
    return [one.pointer for one in refused.value.fields]


def test_a_good_file_is_read_with_usable_defaults() -> None:
    read = settings.parse(GOOD)
    assert (read.metal_id, read.max_hold_ms, read.max_captures) == ("ams1-m1", 250, 4)
    (runtime,) = read.runtimes
    assert runtime.activity == "tail"
    (isolate,) = runtime.isolates
    assert isolate.namespaces == {"c" * 32: "Counter"}
    assert isolate.unique_keys == {"c" * 32: "counter of ours"}


def test_without_a_tail_heap_numbers_tell_what_ran() -> None:
    text = GOOD.replace('[tail]\nlisten = "127.0.0.1:0"\n', "")
    assert settings.parse(text).runtimes[0].activity == "heap"


def test_every_mistake_is_told_at_once() -> None:
    text = (
        GOOD.replace('id = "ams1-m1"', 'id = "AMS 1"')
        .replace('gateways = ["127.0.0.1:8788"]', "gateways = []")
        .replace('version_id = "11111111-2222-4333-8444-555555555555"', 'version_id = "latest"')
    )
    assert _pointers(text) == [
        "/metal/id",
        "/metal/gateways",
        "/runtime/0/isolate/0/version_id",
    ]


@pytest.mark.parametrize(
    ("old", "new", "pointer"),
    [
        ('inspector = "127.0.0.1:9301"', 'inspector = "10.0.0.1:9301"', "/runtime/0/inspector"),
        ('inspector = "127.0.0.1:9301"', 'inspector = "127.0.0.1:0"', "/runtime/0/inspector"),
        ('kind = "workerd"', 'kind = "node"', "/runtime/0/kind"),
        ('data_dir = "state"', 'data_dir = "state"\nmax_hold_ms = 5', "/metal/max_hold_ms"),
        ('data_dir = "state"', 'data_dir = "state"\nmax_holds_ms = 50', "/metal/max_holds_ms"),
    ],
)
def test_a_mistake_is_named_by_its_place(old: str, new: str, pointer: str) -> None:
    assert old in GOOD
    assert _pointers(GOOD.replace(old, new)) == [pointer]


def test_what_is_no_toml_is_said_so() -> None:
    assert _pointers("[metal") == ["/"]
