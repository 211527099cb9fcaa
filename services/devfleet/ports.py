"""Addresses on loopback that stay ours, so that a restarted process finds its own again."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from services.devfleet.fleet import Metal, Plan


@dataclass(frozen=True, kw_only=True)
class ProcessAddresses:
    """Where one ``workerd`` process listens. ``workers``: service name -> HTTP address."""

    inspector: str
    workers: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class MetalAddresses:
    """Where everything on one metal listens. ``processes``: runtime id -> addresses."""

    agent: str
    tail: str
    processes: dict[str, ProcessAddresses]


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where everything listens. ``metals``: metal id -> addresses."""

    http: str
    grpc: str
    admin: str
    metals: dict[str, MetalAddresses]


class Ports:
    """Ports the system chose, kept bound but never listened on.

    A bound socket with SO_REUSEADDR keeps the system from handing the port to anybody else, while
    a process that sets the same option (workerd, gRPC and asyncio do) can still listen on it.
    """

    def __init__(self) -> None:
        self._kept: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for kept in self._kept:
            kept.close()
        self._kept.clear()

    def take(self) -> str:
        """One more ``127.0.0.1:port``."""
        kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._kept.append(kept)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{kept.getsockname()[1]}"


def _metal(metal: Metal, ports: Ports) -> MetalAddresses:
    return MetalAddresses(
        agent=ports.take(),
        tail=ports.take(),
        processes={
            process.runtime_id: ProcessAddresses(
                inspector=ports.take(),
                workers={place.service: ports.take() for place in process.places},
            )
            for process in metal.processes
        },
    )


def assign(plan: Plan, ports: Ports, http: str) -> Addresses:
    """Give everything in the plan an address. ``http`` with port 0 is chosen too."""
    return Addresses(
        http=ports.take() if http.endswith(":0") else http,
        grpc=ports.take(),
        admin=ports.take(),
        metals={metal.metal_id: _metal(metal, ports) for metal in plan.metals},
    )
