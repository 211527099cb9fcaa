"""One real workerd process of given Workers, for benchmarks and tests of the runtime alone."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.devfleet.build import tool
from services.devfleet.capnp import COMPATIBILITY_DATE, TAIL_SERVICE, TAIL_SOURCE, V8_FLAGS, text
from services.devfleet.ports import Ports
from services.devfleet.processes import Child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

READY_S = 30.0
STOP_S = 5.0


@dataclass(frozen=True, kw_only=True)
class OneWorkerd:
    """Where it listens: its inspector, and each Worker by service name."""

    child: Child
    inspector: str
    workers: dict[str, str]

    async def start(self) -> None:
        """Start it, or again after it ended, at the same addresses."""
        self.child.start()
        await self.child.ready(READY_S)


@dataclass(frozen=True, kw_only=True)
class Objects:
    """A Durable Object class of a service: bound there as its own name."""

    class_name: str
    unique_key: str


@asynccontextmanager
async def running(
    folder: Path,
    modules: Mapping[str, str],
    *,
    tail: str = "",
    runtime_id: str = "wd1",
    objects: Mapping[str, Objects] | None = None,
    v8_flags: Sequence[str] = V8_FLAGS,
) -> AsyncIterator[OneWorkerd]:
    """Run a process of these Workers until the block ends.

    Args:
        modules: service name -> text of its module.
        tail: address that tail events are posted to; empty for none.
        objects: service name -> the class of Durable Objects it has.
        v8_flags: of the runtime; those of the development fleet unless told otherwise.
    """
    with Ports() as ports:
        inspector = ports.take()
        workers = {name: ports.take() for name in modules}
        services = [
            _worker(folder, name, source, tail, objects or {}) for name, source in modules.items()
        ]
        if tail:
            services += [
                f'(name = "agent", external = (address = {text(tail)}, http = ()))',
                _tail(folder, runtime_id),
            ]
        config = _config(folder, services, workers, v8_flags)
        child = Child(
            "workerd",
            [
                str(tool("@cloudflare/workerd-*/bin/workerd", "workerd")),
                "serve",
                str(config),
                f"--inspector-addr={inspector}",
                "--control-fd=1",
            ],
            log=folder / "workerd.log",
            env=dict(os.environ),
            cwd=folder,
            ready_lines=len(workers) + 1,
        )
        one = OneWorkerd(child=child, inspector=inspector, workers=workers)
        try:
            await one.start()
            yield one
        finally:
            await child.stop(STOP_S)


def _config(
    folder: Path, services: list[str], workers: dict[str, str], v8_flags: Sequence[str]
) -> Path:
    sockets = [
        f"(name = {text(name)}, address = {text(address)}, http = (), service = {text(name)})"
        for name, address in workers.items()
    ]
    config = folder / "config.capnp"
    config.write_text(
        'using Workerd = import "/workerd/workerd.capnp";\n'
        f"const config :Workerd.Config = (v8Flags = [{', '.join(map(text, v8_flags))}],\n"
        f"services = [{', '.join(services)}],\nsockets = [{', '.join(sockets)}]);\n"
    )
    return config


def _worker(folder: Path, name: str, source: str, tail: str, objects: Mapping[str, Objects]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.js").write_text(source)
    fields = [
        f"modules = [(name = {text(f'{name}.js')}, esModule = embed {text(f'{name}.js')})]",
        f"compatibilityDate = {text(COMPATIBILITY_DATE)}",
    ]
    if tail:
        props = json.dumps({"service": name})
        fields.append(f"tails = [(name = {text(TAIL_SERVICE)}, props = (json = {text(props)}))]")
    if name in objects:
        one = objects[name]
        fields += [
            f"durableObjectNamespaces = [(className = {text(one.class_name)}, "
            f"uniqueKey = {text(one.unique_key)})]",
            "durableObjectStorage = (inMemory = void)",
            f"bindings = [(name = {text(one.class_name)}, "
            f"durableObjectNamespace = {text(one.class_name)})]",
        ]
    return f"(name = {text(name)}, worker = ({', '.join(fields)}))"


def _tail(folder: Path, runtime_id: str) -> str:
    shutil.copyfile(TAIL_SOURCE, folder / TAIL_SOURCE.name)
    name = text(TAIL_SOURCE.name)
    return (
        f"(name = {text(TAIL_SERVICE)}, worker = (modules = [(name = {name}, esModule = embed {name})], "
        f'compatibilityDate = {text(COMPATIBILITY_DATE)}, bindings = [(name = "AGENT", service = "agent"), '
        f'(name = "RUNTIME", text = {text(runtime_id)})]))'
    )
