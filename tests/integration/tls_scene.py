"""Both listeners as they are, over steps that only note what reached them, and odd peers."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from grpc import aio

from contract import certificates, identity, rpc
from contract.certificates import Certificates, Files, Material
from contract.messages import CaptureKey, CaptureReport, CaptureState, Metal, Report, ReportReply
from control_plane.rpc import gateway
from edge_agent.rpc import servicer
from services import issuing
from services.certificates import make, of_control_plane, of_metal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KEY = CaptureKey(session_id="0b9d7f6e-1d2c-4a3b-9c4d-5e6f70819203", capture=1)
METALS = ("ams1-m1", "ams1-m2")
LOOPBACK = "127.0.0.1:0"


def report(metal_id: str = "ams1-m1") -> Report:
    metal = Metal(
        metal_id=metal_id, datacenter="ams1", address="127.0.0.1:1", epoch=1, max_captures=4
    )
    return Report(metal=metal, snapshot=True)


@dataclass
class Noted:
    """What got past the door, on either side."""

    reports: list[Report] = field(default_factory=list)
    shown: list[CaptureKey] = field(default_factory=list)
    impostors: list[tuple[str, str]] = field(default_factory=list)

    async def sightings(self, told: Report) -> ReportReply:
        self.reports.append(told)
        return ReportReply(snapshot_wanted=False)

    async def spoke_for_another(self, speaker: str, claimed: str, keys: object) -> None:
        self.impostors.append((speaker, claimed))

    def show(self, key: CaptureKey) -> CaptureReport:
        self.shown.append(key)
        return CaptureReport(
            key=key,
            metal_id="ams1-m1",
            state=CaptureState.SAMPLING,
            isolate_id="wd1/checkout",
            sampled_ms=0,
        )


@dataclass(kw_only=True)
class Halves:
    """A gateway and the agent of ams1-m1, and all their certificates on disk."""

    directory: Path
    noted: Noted
    control_plane: Certificates
    agent: Certificates
    gateway_address: str
    agent_address: str

    def material(self, name: str) -> Material:
        """What a holder's folder has now: the control plane's, or a metal's."""
        control_plane = name == identity.CONTROL_PLANE
        metal = identity.metal_of(name) or ""
        own = of_control_plane(self.directory) if control_plane else of_metal(self.directory, metal)
        return certificates.read(own, name=name, at=datetime.now(UTC))

    def forged(
        self, name: str, *, by: issuing.Issued | None = None, days: float = 1, ago: float = 0
    ) -> Material:
        """A set that nobody issued, or that was issued ``ago`` days ago."""
        now = datetime.now(UTC)
        began = datetime.fromtimestamp(now.timestamp() - ago * 86_400, UTC)
        by = by or issuing.authority(now=now, days=2)
        one = issuing.issue(by, name, now=began, days=days)
        good = self.material(identity.CONTROL_PLANE)
        return replace(good, certificate=one.pem(), key=one.key_pem())

    def expired(self, name: str) -> Material:
        """A set of the right authority, of the day before."""
        (path,) = (self.directory / "authority").glob("*.pem")
        authority = issuing.Issued(
            certificate=x509.load_pem_x509_certificate(path.read_bytes()),
            key=cast(Any, load_pem_private_key(path.read_bytes(), password=None)),
        )
        return self.forged(name, by=authority, days=1, ago=2)


@contextlib.asynccontextmanager
async def halves(directory: Path) -> AsyncIterator[Halves]:
    make(directory, METALS, now=datetime.now(UTC))
    control_plane = opened(of_control_plane(directory), identity.CONTROL_PLANE)
    agent = opened(of_metal(directory, "ams1-m1"), identity.of_metal("ams1-m1"))
    noted = Noted()
    hearing = await gateway.listen(cast(Any, noted), LOOPBACK, control_plane)
    obeying = await servicer.bind(LOOPBACK, agent)
    await servicer.serve(obeying, servicer.EdgeAgent(cast(Any, noted), lambda: ()))
    try:
        yield Halves(
            directory=directory,
            noted=noted,
            control_plane=control_plane,
            agent=agent,
            gateway_address=f"127.0.0.1:{hearing.port}",
            agent_address=f"127.0.0.1:{obeying.port}",
        )
    finally:
        await hearing.stop(0)
        await obeying.stop(0)


def opened(own: Files, name: str) -> Certificates:
    return Certificates(own, name=name, now=partial(datetime.now, UTC))


class Held:
    """Certificates that never change and were never checked: what a stranger would hold."""

    def __init__(self, material: Material) -> None:
        self.current = material


def unchecked(material: Material) -> Certificates:
    return cast(Certificates, Held(material))


def without_certificate(address: str, trusted: bytes, peer: str) -> aio.Channel:
    options = (*rpc.CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", peer))
    credentials = grpc.ssl_channel_credentials(trusted)
    return aio.secure_channel(address, credentials, options=options)
