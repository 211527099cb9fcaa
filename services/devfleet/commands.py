"""How each process of the fleet is started: its command line, environment, log and readiness."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from services.devfleet.agent_config import write_agent_config
from services.devfleet.build import ROOT, tool
from services.devfleet.capnp import write_config
from services.devfleet.processes import Child

if TYPE_CHECKING:
    from pathlib import Path

    from contract.certificates import Files
    from services.devfleet.fleet import Metal, Process
    from services.devfleet.ports import Addresses


def _log(data_dir: Path, name: str) -> Path:
    return data_dir / "logs" / (name.replace("/", "-").replace(" ", "-") + ".log")


def _python(
    name: str, module: str, *args: str, data_dir: Path, env: dict[str, str], ready_lines: int
) -> Child:
    return Child(
        name,
        [sys.executable, "-m", module, *args],
        log=_log(data_dir, name),
        env={**os.environ, **env},
        cwd=ROOT,
        ready_lines=ready_lines,
    )


def _settings(data_dir: Path, database_url: str) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "ISOPROF_DATA_DIR": str(data_dir / "control_plane"),
    }


def migrate(data_dir: Path, database_url: str) -> Child:
    """Bring the schema to head and end."""
    env = _settings(data_dir, database_url)
    return _python("migrate", "services.migrate", data_dir=data_dir, env=env, ready_lines=0)


def provision(request: Path, data_dir: Path, database_url: str) -> Child:
    """Upsert the accounts of a request file, print minted tokens as a line of JSON, and end."""
    env = _settings(data_dir, database_url)
    return _python(
        "provision",
        "services.provision",
        str(request),
        data_dir=data_dir,
        env=env,
        ready_lines=1,
    )


def control_plane(addresses: Addresses, data_dir: Path, database_url: str, tls: Files) -> Child:
    """Run the control plane, all roles in one process."""
    env = {
        **_settings(data_dir, database_url),
        "ISOPROF_HTTP_LISTEN": addresses.http,
        "ISOPROF_GRPC_LISTEN": addresses.grpc,
        "ISOPROF_ADMIN_LISTEN": addresses.admin,
        "ISOPROF_GRPC_TLS_CERTIFICATE": str(tls.certificate),
        "ISOPROF_GRPC_TLS_KEY": str(tls.key),
        "ISOPROF_GRPC_TLS_AUTHORITY": str(tls.authority),
    }
    return _python(
        "control-plane", "services.control_plane", data_dir=data_dir, env=env, ready_lines=1
    )


def agent(metal: Metal, addresses: Addresses, data_dir: Path, tls: Files) -> Child:
    """Run the agent of one metal; writes its configuration."""
    config = write_agent_config(
        metal,
        addresses.metals[metal.metal_id],
        gateway=addresses.grpc,
        tls=tls,
        folder=data_dir / "metals" / metal.metal_id,
    )
    return _python(
        f"agent {metal.metal_id}",
        "services.edge_agent",
        "--config",
        str(config),
        data_dir=data_dir,
        env={},
        ready_lines=1,
    )


def workerd(metal: Metal, process: Process, addresses: Addresses, data_dir: Path) -> Child:
    """Run one runtime process; writes its configuration. It tells of every port it opened."""
    here = addresses.metals[metal.metal_id]
    listens = here.processes[process.runtime_id]
    folder = data_dir / "metals" / metal.metal_id / process.runtime_id
    config = write_config(process, listens, tail=here.tail, folder=folder, data_dir=data_dir)
    name = f"workerd {metal.metal_id}/{process.runtime_id}"
    return Child(
        name,
        [
            str(tool("@cloudflare/workerd-*/bin/workerd", "workerd")),
            "serve",
            str(config),
            "--control-fd=1",
            f"--inspector-addr={listens.inspector}",
        ],
        log=_log(data_dir, name),
        env={},
        cwd=folder,
        ready_lines=1 + len(listens.workers),
    )
