"""The files the fleet writes: agent configuration, runtime configuration's text, tokens."""

from __future__ import annotations

import stat
import tomllib
from typing import TYPE_CHECKING

from services import certificates
from services.devfleet.agent_config import write_agent_config
from services.devfleet.capnp import text
from services.devfleet.fleet import PLAN
from services.devfleet.ports import MetalAddresses, ProcessAddresses
from services.devfleet.tokens import keep_tokens, kept_tokens, tokens_path

if TYPE_CHECKING:
    from pathlib import Path


def _addresses(number: int) -> MetalAddresses:
    metal = PLAN.metals[number]
    return MetalAddresses(
        agent="127.0.0.1:1",
        tail="127.0.0.1:2",
        processes={
            process.runtime_id: ProcessAddresses(
                inspector=f"127.0.0.1:{10 + index}",
                workers={place.service: "127.0.0.1:99" for place in process.places},
            )
            for index, process in enumerate(metal.processes)
        },
    )


def test_agent_configuration_says_what_stands_where(tmp_path: Path) -> None:
    for number, metal in enumerate(PLAN.metals):
        path = write_agent_config(
            metal,
            _addresses(number),
            gateway="127.0.0.1:3",
            tls=certificates.of_metal(tmp_path, metal.metal_id),
            folder=tmp_path / metal.metal_id,
        )
        written = tomllib.loads(path.read_text())
        assert written["metal"]["id"] == metal.metal_id
        assert written["metal"]["gateways"] == ["127.0.0.1:3"]
        assert written["tls"]["key"] == str(tmp_path / "metals" / metal.metal_id / "key.pem")
        assert written["tail"] == {"listen": "127.0.0.1:2"}
        assert [
            [(isolate["service"], isolate["version_id"]) for isolate in runtime["isolate"]]
            for runtime in written["runtime"]
        ] == [
            [(place.service, place.version.version_id) for place in process.places]
            for process in metal.processes
        ]


def test_namespaces_and_shared_isolates_are_told(tmp_path: Path) -> None:
    written = [
        tomllib.loads(
            write_agent_config(
                metal,
                _addresses(number),
                gateway="127.0.0.1:3",
                tls=certificates.of_metal(tmp_path, metal.metal_id),
                folder=tmp_path / metal.metal_id,
            ).read_text()
        )
        for number, metal in enumerate(PLAN.metals)
    ]
    isolates = {
        isolate["worker_name"]: isolate
        for one in written
        for runtime in one["runtime"]
        for isolate in runtime["isolate"]
    }
    counter = PLAN.worker("counter")
    assert isolates["counter"]["namespace"] == [
        {
            "id": counter.namespaces[0].namespace_id,
            "class": "Counter",
            "unique_key": counter.namespaces[0].unique_key,
        }
    ]
    assert isolates["commons"]["also_accounts"] == [PLAN.accounts[1].account_id]
    assert isolates["loop"]["also_accounts"] == []


def test_text_literals_survive_quotes_and_backslashes() -> None:
    assert text('say "hi" \\ there') == '"say \\"hi\\" \\\\ there"'


def test_tokens_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    assert kept_tokens(tmp_path, PLAN) == {}
    tokens = {account.account_id: f"token of {account.name}" for account in PLAN.accounts}
    keep_tokens(tmp_path, tokens)
    assert stat.S_IMODE(tokens_path(tmp_path).stat().st_mode) == 0o600
    assert kept_tokens(tmp_path, PLAN) == tokens


def test_tokens_for_some_accounts_only_are_no_tokens(tmp_path: Path) -> None:
    keep_tokens(tmp_path, {PLAN.accounts[0].account_id: "one"})
    assert kept_tokens(tmp_path, PLAN) == {}
