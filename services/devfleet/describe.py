"""``fleet.json``: everything a client of the running fleet needs; for tokens, the file's name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from services.devfleet.build import bundled
from services.devfleet.tokens import tokens_path

if TYPE_CHECKING:
    from services.devfleet.fleet import Metal, Worker
    from services.devfleet.system import Fleet


def _worker(worker: Worker, fleet: Fleet) -> dict[str, Any]:
    versions: dict[str, Any] = {}
    for version in worker.versions:
        versions[version.tag] = {"id": version.version_id, "rate": version.rate}
        for _name, source in version.modules:
            if source.endswith(".ts"):
                bundle = bundled(source, fleet.data_dir)
                versions[version.tag]["source_map"] = str(bundle.source_map)
    return {
        "id": worker.worker_id,
        "account": worker.account.name,
        "versions": versions,
        "namespaces": [
            {"id": namespace.namespace_id, "class": namespace.class_name}
            for namespace in worker.namespaces
        ],
    }


def _metal(metal: Metal, fleet: Fleet) -> dict[str, Any]:
    addresses = fleet.addresses.metals[metal.metal_id]
    return {
        "datacenter": metal.datacenter,
        "agent": {"address": addresses.agent, "pid": fleet.agents[metal.metal_id].pid},
        "tail": addresses.tail,
        "runtimes": {
            process.runtime_id: {
                "pid": fleet.workerds[metal.metal_id, process.runtime_id].pid,
                "inspector": addresses.processes[process.runtime_id].inspector,
                "isolates": {
                    place.service: {
                        "url": f"http://{addresses.processes[process.runtime_id].workers[place.service]}",
                        "worker": place.worker.name,
                        "version": place.version.tag,
                    }
                    for place in process.places
                },
            }
            for process in metal.processes
        },
    }


def write_description(fleet: Fleet) -> None:
    """Write ``fleet.json`` into the data directory, whole or not at all."""
    description = {
        "api_url": fleet.api_url,
        "grpc": fleet.addresses.grpc,
        "admin_url": f"http://{fleet.addresses.admin}/admin/v1",
        "control_plane_pid": fleet.control_plane.pid,
        "tokens_file": str(tokens_path(fleet.data_dir)),
        "accounts": {account.name: account.account_id for account in fleet.plan.accounts},
        "workers": {worker.name: _worker(worker, fleet) for worker in fleet.plan.workers},
        "metals": {metal.metal_id: _metal(metal, fleet) for metal in fleet.plan.metals},
    }
    path = fleet.data_dir / "fleet.json"
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    fresh.replace(path)
