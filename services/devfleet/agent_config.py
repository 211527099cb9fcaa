"""Writes the agent's TOML file of one metal: its runtimes, and what stands in which isolate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from contract.certificates import Files
    from services.devfleet.fleet import Metal, Place
    from services.devfleet.ports import MetalAddresses

REPORT_INTERVAL_MS = 1000


def _value(value: str | int | list[str]) -> str:
    # JSON strings, integers and lists of strings are TOML as they stand.
    return json.dumps(value)


def _table(header: str, fields: dict[str, str | int | list[str]]) -> list[str]:
    return ["", header, *(f"{name} = {_value(value)}" for name, value in fields.items())]


def _isolate(place: Place) -> list[str]:
    worker = place.worker
    lines = _table(
        "[[runtime.isolate]]",
        {
            "service": place.service,
            "account_id": worker.account.account_id,
            "worker_id": worker.worker_id,
            "worker_name": worker.name,
            "version_id": place.version.version_id,
            "also_accounts": [account.account_id for account in worker.also],
        },
    )
    for namespace in worker.namespaces:
        lines += _table(
            "[[runtime.isolate.namespace]]",
            {
                "id": namespace.namespace_id,
                "class": namespace.class_name,
                "unique_key": namespace.unique_key,
            },
        )
    return lines


def write_agent_config(
    metal: Metal, addresses: MetalAddresses, *, gateway: str, tls: Files, folder: Path
) -> Path:
    """Write ``agent.toml`` into ``folder``, which is also where the agent keeps its journal."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = _table(
        "[metal]",
        {
            "id": metal.metal_id,
            "datacenter": metal.datacenter,
            "listen": addresses.agent,
            "gateways": [gateway],
            "data_dir": str(folder / "journal"),
            "report_interval_ms": REPORT_INTERVAL_MS,
        },
    )
    lines += _table(
        "[tls]",
        {
            "certificate": str(tls.certificate),
            "key": str(tls.key),
            "authority": str(tls.authority),
        },
    )
    lines += _table("[tail]", {"listen": addresses.tail})
    for process in metal.processes:
        lines += _table(
            "[[runtime]]",
            {
                "id": process.runtime_id,
                "kind": "workerd",
                "inspector": addresses.processes[process.runtime_id].inspector,
                "activity": "tail",
            },
        )
        for place in process.places:
            lines += _isolate(place)
    path = folder / "agent.toml"
    path.write_text("\n".join(lines).lstrip() + "\n", encoding="utf-8")
    return path
