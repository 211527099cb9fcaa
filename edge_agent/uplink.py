"""What the steps need of the control plane: ``rpc.gateway`` is it, and tests script one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contract.messages import CaptureReport, Receipt, Report, ReportReply, UploadManifest


class Uplink(Protocol):
    """Any replica of the control plane. Methods raise ``Fault`` when the answer is none or bad."""

    async def report(self, report: Report) -> ReportReply:
        """Tell sightings; one try."""
        ...

    @property
    def replica(self) -> str:
        """Which replica answered last: another one may lack the whole picture."""
        ...

    async def report_capture(self, report: CaptureReport, *, for_s: float) -> None:
        """Tell how a capture stands, trying again for this long; 0 tries once."""
        ...

    async def upload(self, manifest: UploadManifest, data: bytes, *, for_s: float) -> Receipt:
        """Upload a profile, going on where a broken upload ended, trying for this long."""
        ...
