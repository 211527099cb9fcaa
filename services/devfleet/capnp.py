"""Writes the ``workerd`` configuration of one process: Workers, sockets, Durable Objects, tails."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from services.devfleet.build import ROOT, WORKERS, bundled

if TYPE_CHECKING:
    from pathlib import Path

    from services.devfleet.fleet import Namespace, Place, Process
    from services.devfleet.ports import ProcessAddresses

COMPATIBILITY_DATE = "2026-06-01"
# Without them, what V8 inlined or replaced on the stack before a profile began is billed to its
# caller (decision 3).
V8_FLAGS = ("--detailed-line-info", "--no-use-osr")
TAIL_SERVICE = "isoprof-tail"
TAIL_SOURCE = ROOT / "edge_agent/runtimes/workerd/tail_worker.js"


def text(value: str) -> str:
    """Quote a Cap'n Proto text literal: for printable ASCII, all we write, JSON's form is one."""
    return json.dumps(value)


def _modules(place: Place, folder: Path, data_dir: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, source in place.version.modules:
        script = bundled(source, data_dir).script if source.endswith(".ts") else WORKERS / source
        shutil.copyfile(script, folder / name)
        lines.append(f"(name = {text(name)}, esModule = embed {text(f'{folder.name}/{name}')})")
    return ", ".join(lines)


def _namespace(namespace: Namespace) -> str:
    return f"(className = {text(namespace.class_name)}, uniqueKey = {text(namespace.unique_key)})"


def _binding(namespace: Namespace) -> str:
    return (
        f"(name = {text(namespace.binding)}, durableObjectNamespace = {text(namespace.class_name)})"
    )


def _worker(place: Place, folder: Path, data_dir: Path) -> str:
    props = json.dumps({"service": place.service})
    fields = [
        f"modules = [{_modules(place, folder / place.service, data_dir)}]",
        f"compatibilityDate = {text(COMPATIBILITY_DATE)}",
        f"tails = [(name = {text(TAIL_SERVICE)}, props = (json = {text(props)}))]",
    ]
    namespaces = place.worker.namespaces
    if namespaces:
        fields += [
            f"durableObjectNamespaces = [{', '.join(map(_namespace, namespaces))}]",
            "durableObjectStorage = (inMemory = void)",
            f"bindings = [{', '.join(map(_binding, namespaces))}]",
        ]
    return f"(name = {text(place.service)}, worker = ({', '.join(fields)}))"


def _tail(process: Process, folder: Path) -> str:
    name = TAIL_SOURCE.name
    shutil.copyfile(TAIL_SOURCE, folder / name)
    fields = [
        f"modules = [(name = {text(name)}, esModule = embed {text(name)})]",
        f"compatibilityDate = {text(COMPATIBILITY_DATE)}",
        'bindings = [(name = "AGENT", service = "agent"), '
        f'(name = "RUNTIME", text = {text(process.runtime_id)})]',
    ]
    return f"(name = {text(TAIL_SERVICE)}, worker = ({', '.join(fields)}))"


def write_config(
    process: Process, addresses: ProcessAddresses, *, tail: str, folder: Path, data_dir: Path
) -> Path:
    """Write ``config.capnp`` and the modules it embeds into ``folder``.

    Samples reach no network: the service every Worker's outgoing requests go to allows nothing.

    Args:
        process: what stands in it.
        addresses: where it listens.
        tail: the agent's address for tail events.
        folder: its own, and its working directory.
        data_dir: where bundles are cached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    services = [
        '(name = "internet", network = (allow = []))',
        f'(name = "agent", external = (address = {text(tail)}, http = ()))',
        _tail(process, folder),
        *(_worker(place, folder, data_dir) for place in process.places),
    ]
    sockets = [
        f"(name = {text(name)}, address = {text(address)}, http = (), service = {text(name)})"
        for name, address in addresses.workers.items()
    ]
    config = folder / "config.capnp"
    config.write_text(
        'using Workerd = import "/workerd/workerd.capnp";\n'
        f"const config :Workerd.Config = (\n  v8Flags = [{', '.join(map(text, V8_FLAGS))}],\n"
        "  services = [\n    " + ",\n    ".join(services) + "\n  ],\n"
        "  sockets = [\n    " + ",\n    ".join(sockets) + "\n  ]\n"
        ");\n",
        encoding="utf-8",
    )
    return config
