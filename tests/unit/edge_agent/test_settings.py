"""The agent's file: read whole, and every mistake told at once by its place."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from contract.faults import Fault
from edge_agent import settings
from services.certificates import make, of_metal

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """
[metal]
id = "ams1-m1"
datacenter = "ams1"
listen = "127.0.0.1:0"
gateways = ["127.0.0.1:8788"]
data_dir = "state"
[tls]
certificate = "certificate.pem"
key = "key.pem"
authority = "authority.pem"
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


PLAIN = """[tls]
plaintext = "loopback"
"""
SECURE = """[tls]
certificate = "certificate.pem"
key = "key.pem"
authority = "authority.pem"
"""


def test_plain_text_is_asked_for_by_name_and_stays_on_this_machine() -> None:
    plain = GOOD.replace(SECURE, PLAIN)
    assert settings.parse(plain).tls is None
    assert _pointers(GOOD.replace(SECURE, "")) == ["/tls"]
    outside = (
        plain.replace('listen = "127.0.0.1:0"\ngateways', 'listen = "0.0.0.0:0"\ngateways')
        .replace('["127.0.0.1:8788"]', '["127.0.0.1:8788", "control-plane:8788"]')
        .replace('data_dir = "state"', 'data_dir = "state"\nadvertise = "10.0.0.1:7"')
    )
    assert _pointers(outside) == ["/metal/listen", "/metal/advertise", "/metal/gateways"]


@pytest.mark.parametrize(
    ("table", "pointers"),
    [
        ('[tls]\nplaintext = "yes"\n', ["/tls/plaintext"]),
        ('[tls]\nplaintext = "loopback"\nkey = "key.pem"\n', ["/tls/key"]),
        ('[tls]\nkey = "key.pem"\n', ["/tls/certificate", "/tls/authority"]),
        (SECURE + 'password = "x"\n', ["/tls/password"]),
    ],
)
def test_half_a_set_is_none(table: str, pointers: list[str]) -> None:
    assert _pointers(GOOD.replace(SECURE, table)) == pointers


def test_what_is_wrong_with_the_certificates_is_told_with_the_rest(tmp_path: Path) -> None:
    make(tmp_path, ["ams1-m1"], now=datetime.now(UTC))
    own = of_metal(tmp_path, "ams1-m1")
    text = GOOD
    for field in ("certificate", "key", "authority"):
        text = text.replace(f'"{field}.pem"', f'"{getattr(own, field)}"')
    path = tmp_path / "metal.toml"
    path.write_text(text)
    assert settings.load(path).tls == own
    path.write_text(
        text.replace('id = "ams1-m1"', 'id = "ams1-m2"')
        .replace(str(own.authority), str(own.key))
        .replace('data_dir = "state"', 'data_dir = "state"\nmax_hold_ms = 5')
    )
    with pytest.raises(Fault) as refused:
        settings.load(path)
    assert [one.pointer for one in refused.value.fields] == [
        "/metal/max_hold_ms",
        "/tls/certificate",
        "/tls/authority",
    ]
    assert "ams1-m2.metal" in refused.value.message
